"""Many sessions in one store: by name, by content, bounded, from many threads."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small
from conftest import in_child, reference, tokenizers
from hypothesis import given
from hypothesis import strategies as st
from judge import as_text, engine
from transcripts import steps, transcript

import toktier
from toktier.artifact import Artifact
from toktier.errors import (
    CheckpointError,
    LoneSurrogateError,
    OptionError,
    SessionUnavailableError,
    SpecialTokenError,
    TextTypeError,
    WrongArtifactError,
)
from toktier.sessions import persistence, prefixes
from toktier.sessions import store as store_module
from toktier.sessions.prefixes import BLOCK, SMALL, Marks, PrefixIndex, marks
from toktier.sessions.store import SessionStore, StoreCounters
from toktier.tokenizer import Tokenizer

NAME = "qwen3"
TOK = engine(NAME)


def right(text: str, name: str = NAME) -> list[int]:
    """What the reference says."""
    return reference(name).encode(text, add_special_tokens=False).ids  # type: ignore[no-any-return]


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def done(store: SessionStore) -> dict[str, Any]:
    """The counters that are not zero, but for what is in memory."""
    found = store.counters
    fields = ("hits", "misses", "appends", "tail_changes", "edits", "widenings", "evictions", "expirations")
    return {name: getattr(found, name) for name in fields if getattr(found, name)}


# --- by name ------------------------------------------------------------------------------


def test_a_session_is_found_again_by_its_name() -> None:
    store = SessionStore()
    first = store.session(TOK, "chat-42")
    assert (first.text, first.count, len(first)) == ("", 0, 0)
    patch = first.append("Hello, wor")
    assert patch.ids.tolist() == right("Hello, wor")
    again = store.session(TOK, "chat-42")
    again.append("ld")
    assert first.text == "Hello, world" and first.ids.tolist() == right("Hello, world")
    assert store.session(TOK, "chat-43").text == ""
    assert done(store) == {"hits": 1, "misses": 2, "appends": 2}
    assert len(store) == 2 and store.counters.sessions == 2


def test_every_way_to_change_a_session() -> None:
    store = SessionStore()
    session = store.session(TOK, "a")
    text = ""
    for step in islice(steps(11, "agent", median=60, largest=2_000, context=6_000), 120):
        match step.change:
            case "append":
                patch = session.append(step.text)
            case "edit":
                patch = session.edit(step.start, step.stop, step.text)
            case _:
                patch = session.update(step.apply(text))
        before = right(text)
        text = step.apply(text)
        before[patch.start : patch.start + patch.removed] = patch.ids.tolist()
        assert before == session.ids.tolist() == right(text)
        assert session.text == text
    point = session.checkpoint()
    session.truncate(100)
    assert session.text == text[:100] and session.ids.tolist() == right(text[:100])
    branch = session.fork("b")
    branch.append("!")
    assert session.text == text[:100] and branch.ids.tolist() == right(text[:100] + "!")
    session.restore(point)
    assert session.text == text and session.ids.tolist() == right(text)
    assert session.offsets(0, 3).tolist() == TOK.encode_with_offsets(text, False).offsets[:3].tolist()
    assert store.session(TOK, "b").text == text[:100] + "!"
    total = session.counters
    assert total.appends and total.tail_changes and total.edits
    assert store.counters.appends == total.appends + branch.counters.appends
    assert store.counters.tail_changes == total.tail_changes and store.counters.edits == total.edits


def test_a_fork_replaces_what_had_its_name() -> None:
    store = SessionStore()
    store.encode(TOK, "something else", "b")
    session = store.session(TOK, "a")
    session.append("one")
    assert session.fork("b").text == "one"
    assert store.encode(TOK, "one more", "b").tolist() == right("one more")
    assert session.text == "one"


def test_encode_updates_the_session_of_that_name() -> None:
    store = SessionStore()
    text = transcript(3, 30_000)
    for stop in (20_000, 25_000, 30_000, 10_000, 0, 30_000):
        ids = store.encode(TOK, text[:stop], "a")
        assert ids.dtype == np.uint32 and not ids.flags.writeable
        assert ids.tolist() == right(text[:stop])
    assert store.session(TOK, "a").text == text
    assert store.counters.misses == 1 and store.counters.hits == 6


def test_ids_do_not_change_under_their_holder() -> None:
    store = SessionStore()
    kept = []
    for step_text in ("A text", "A text that", "Another text", "", "A text that grows"):
        kept.append((step_text, store.encode(TOK, step_text, "a"), store.session(TOK, "a").ids))
    for text, ids, view in kept:
        assert ids.tolist() == view.tolist() == right(text)


def with_bos() -> Tokenizer:
    """A small tokenizer whose post-processor adds an id at the beginning."""
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    special = {"<s>": {"id": "<s>", "ids": [400], "tokens": ["<s>"]}}
    post = {"type": "TemplateProcessing", "single": [bos, sequence], "pair": [], "special_tokens": special}
    document = small.document(post_processor=post, added_tokens=[small.added("<s>", 400, "special")])
    return Tokenizer(Artifact.from_bytes(small.build(document).to_str().encode(), "with-bos"))


def test_special_ids_are_added_on_reading() -> None:
    tok, judge = with_bos(), with_bos().reference()
    store = SessionStore()
    for text in ("a b", "a b c", "a b c", ""):
        for name in ("chat", None):
            assert store.encode(tok, text, name).tolist() == judge.encode(text).ids
            plain = store.encode(tok, text, name, add_special_tokens=False)
            assert plain.tolist() == judge.encode(text, add_special_tokens=False).ids
            assert not plain.flags.writeable
    session = store.session(tok, "chat")
    session.update("a b")
    assert session.prompt().tolist() == judge.encode("a b").ids
    assert session.ids.tolist() == judge.encode("a b", add_special_tokens=False).ids


def test_special_tokens_in_the_text_are_kept_apart() -> None:
    store = SessionStore()
    text = "one<|im_end|>two" * 20
    assert store.encode(TOK, text).tolist() == right(text)
    assert store.encode(TOK, text, special="text").tolist() == as_text(NAME).encode(text).ids
    with pytest.raises(SpecialTokenError):
        store.encode(TOK, text + "!", special="raise")
    assert store.counters.misses == 2 and store.counters.sessions == 2
    store.session(TOK, "a", special="text").update(text)
    with pytest.raises(WrongArtifactError):
        store.session(TOK, "a")


# --- the wrong artifact -------------------------------------------------------------------


def test_a_session_is_never_repaired_under_another_artifact() -> None:
    store = SessionStore()
    other = engine("gpt2")
    store.encode(TOK, "Hello", "chat-42")
    session = store.session(TOK, "chat-42")
    for call in (lambda: store.encode(other, "Hello there", "chat-42"), lambda: store.session(other, "chat-42")):
        with pytest.raises(WrongArtifactError, match=r"chat-42.*qwen3.*gpt2.*discard") as raised:
            call()
        assert TOK.fingerprint[:12] in str(raised.value) and other.fingerprint[:12] in str(raised.value)
    with pytest.raises(CheckpointError):
        store.session(other, "chat-43").restore(session.checkpoint())
    assert session.text == "Hello" and session.ids.tolist() == right("Hello")
    assert store.encode(TOK, "Hello there", "chat-42").tolist() == right("Hello there")
    # By content there is nothing to mix up.
    assert store.encode(other, "Hello there").tolist() == right("Hello there", "gpt2")
    assert store.discard("chat-42")
    assert store.encode(other, "Hello there", "chat-42").tolist() == right("Hello there", "gpt2")


def test_the_same_artifact_loaded_twice_is_the_same() -> None:
    store = SessionStore()
    store.encode(TOK, "Hello", "a")
    assert store.session(Tokenizer(TOK._artifact), "a").text == "Hello"


# --- what callers do wrong --------------------------------------------------------------


def test_bad_arguments_are_refused_and_change_nothing() -> None:
    store = SessionStore()
    session = store.session(TOK, "a")
    session.append("good")
    before = store.counters
    for bad, error in (("a\ud800", LoneSurrogateError), (b"bytes", TextTypeError), (None, TextTypeError)):
        for name in ("a", None):
            with pytest.raises(error):
                store.encode(TOK, bad, name)  # type: ignore[arg-type]
    with pytest.raises(LoneSurrogateError):
        store.encode(TOK, "good\udfff")  # goes on from what is stored, and then fails
    assert session.text == "good"
    assert store.counters.sessions == 1 and store.counters.bytes == before.bytes
    for bad_name in (None, 3, b"a"):
        with pytest.raises(TextTypeError):
            store.session(TOK, bad_name)  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        store.session(TOK, "b", special="no")  # type: ignore[arg-type]
    for options in ({"max_bytes": 0}, {"max_disk_bytes": -1}, {"ttl": 0}, {"ttl": float("nan")}):
        with pytest.raises(OptionError, match=next(iter(options))):
            SessionStore(**options)  # type: ignore[arg-type]


def test_any_string_is_a_name() -> None:
    store = SessionStore()
    for name in ("", " ", "é😀", "\ud800", "a" * 10_000, "a:b", "content:0", "\0"):
        store.encode(TOK, f"text of {name[:5]!r}", name)
        assert store.session(TOK, name).text == f"text of {name[:5]!r}"


def test_a_discarded_session_is_gone() -> None:
    store = SessionStore()
    session = store.session(TOK, "a")
    session.append("x" * 5_000)
    assert store.discard("a") and not store.discard("a")
    assert (store.counters.bytes, store.counters.sessions) == (0, 0)
    with pytest.raises(SessionUnavailableError, match="discarded"):
        session.append("y")
    assert store.session(TOK, "a").text == ""
    assert store.encode(TOK, "x" * 5_001).tolist() == right("x" * 5_001)
    assert store.counters.misses == 3


def test_a_closed_store_says_so() -> None:
    with SessionStore() as store:
        session = store.session(TOK, "a")
        assert store.flush()
    for call in (lambda: session.text, lambda: store.encode(TOK, "a"), lambda: store.session(TOK, "b")):
        with pytest.raises(SessionUnavailableError, match="closed"):
            call()
    store.close()


def test_importing_the_package_stays_light() -> None:
    import subprocess

    program = "import toktier, sys; assert not {'numpy', 'sqlite3'} & {*sys.modules}; toktier.SessionStore"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert toktier.SessionStore is SessionStore


# --- by content: the index ----------------------------------------------------------------


def follow(texts: Sequence[str], request: str) -> tuple[int, str | None]:
    """What an index of ``texts`` finds, and the length of it."""
    index: PrefixIndex[int] = PrefixIndex()
    for number, text in enumerate(texts):
        made = marks(7, lambda start, stop, text=text: text[start:stop], len(text), Marks(), 0)  # type: ignore[misc]
        index.replace(number, Marks(), made)
    mark, length = index.follow(7, request)
    owner = index.newest(mark) if length else None
    return length, None if owner is None else texts[owner]


def common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@given(st.lists(st.text("ab", max_size=40), max_size=6), st.text("ab", max_size=60))
def test_the_index_finds_the_longest(texts: list[str], request: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "BLOCK", 8)
        patch.setattr(prefixes, "SMALL", 2)
        length, found = follow(texts, request)
    whole = max((len(text) for text in texts if request.startswith(text)), default=0)
    best = max((common(text, request) for text in texts), default=0)
    assert whole <= length <= best
    assert length >= best - best % 8  # at least up to the last whole block
    if found is not None:
        assert common(found, request) >= length
    else:
        assert length == 0


@given(st.text("ab", max_size=60), st.text("ab", max_size=60))
def test_marks_after_a_change_are_those_of_the_new_text(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "BLOCK", 8)
        patch.setattr(prefixes, "SMALL", 2)
        before = marks(7, lambda start, stop: old[start:stop], len(old), Marks(), 0)
        fresh = marks(7, lambda start, stop: new[start:stop], len(new), Marks(), 0)
        for unchanged in range(common(old, new) + 1):
            assert marks(7, lambda start, stop: new[start:stop], len(new), before, unchanged) == fresh
        index: PrefixIndex[str] = PrefixIndex()
        index.replace("a", Marks(), before)
        index.replace("a", before, fresh)
        assert index.follow(7, new)[1] == len(new)
        index.replace("a", fresh, Marks())
        assert not index._owners


# --- by content: the store ----------------------------------------------------------------

EDGES = sorted(
    {edge + shift for edge in (SMALL, 3 * SMALL, BLOCK, BLOCK + SMALL, 2 * BLOCK) for shift in (-1, 0, 1)} | {1, 7}
)


@pytest.mark.parametrize("alphabet", ["word ", "é😀漢 "], ids=["ascii", "wide"])
def test_a_stored_prefix_of_any_length_is_continued(alphabet: str) -> None:
    random_ = random.Random(5)
    for size in EDGES:
        store = SessionStore()
        text = "".join(random_.choices(alphabet, k=size))
        assert store.encode(TOK, text).tolist() == right(text)
        assert store.encode(TOK, text + " and more").tolist() == right(text + " and more")
        assert done(store) == {"hits": 1, "misses": 1, "appends": store.counters.appends}
        assert store.encode(TOK, text).tolist() == right(text)  # it has stayed
        assert store.counters.hits == 2 and len(store) == 2


def test_the_longest_prefix_is_taken() -> None:
    text = transcript(1, 12_000)
    lengths = [10, 500, 2_000, 2_048, 2_100, 4_096, 5_000, 9_000]
    for order in (lengths, lengths[::-1]):
        store = SessionStore()
        for length in order:
            store.session(TOK, f"first {length}").append(text[:length])
        for length in lengths:
            request = text[:length] + "#" + text[length:]
            mark, found = store._index.follow(store._kept[f"id:first {length}"].seed, request)
            assert found == length
            owner = store._index.newest(mark)
            assert owner is not None and str(owner.text) == text[:length]
            assert store.encode(TOK, request).tolist() == right(request)


def test_a_changed_tail_is_found() -> None:
    store = SessionStore()
    text, prompt = transcript(2, 9_000), "<|im_start|>assistant\n<think>\n"
    for turn in range(40):
        assert store.encode(TOK, text + prompt).tolist() == right(text + prompt)
        text += f"<|im_start|>assistant\nTurn {turn}.<|im_end|>\n<|im_start|>user\nGo on{'!' * turn}<|im_end|>\n"
    assert store.counters.misses == 1 and store.counters.hits == 39


def test_nothing_in_common_is_a_miss() -> None:
    store = SessionStore()
    for text in ("", "a", "b", "cba" * 1_000, "", "ABC" * 1_000):
        assert store.encode(TOK, text).tolist() == right(text)
    assert done(store) == {"misses": 6, "appends": store.counters.appends}


def test_a_text_that_is_stored_is_not_stored_twice() -> None:
    store = SessionStore()
    text = transcript(4, 5_000)
    for _ in range(3):
        assert store.encode(TOK, text).tolist() == right(text)
    store.session(TOK, "named").update(text + "!")
    assert store.encode(TOK, text + "!").tolist() == right(text + "!")
    assert len(store) == 2 and store.counters.hits == 3


def test_named_sessions_are_found_by_content_and_go_their_own_way() -> None:
    store = SessionStore()
    text = transcript(5, 6_000)
    session = store.session(TOK, "a")
    session.update(text)
    assert store.encode(TOK, text + " more").tolist() == right(text + " more")
    assert session.text == text
    session.update("changed " + text)
    assert store.encode(TOK, "changed " + text + " more").tolist() == right("changed " + text + " more")
    assert store.counters.hits == 2


def test_colliding_hashes_cost_work_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "hash", lambda value: hash(value) % 3, raising=False)
    store = SessionStore()
    random_ = random.Random(3)
    for number in range(90):
        text = "".join(random_.choices(["word ", "é", "\n", "123"], k=random_.choice([3, 60, 900])))
        name = (NAME, "gpt2")[number % 2]
        special = ("encode", "text", "raise")[number % 3]
        assert store.encode(engine(name), text, special=special).tolist() == right(text, name)


@pytest.mark.parametrize("name", tokenizers("bert_uncased", "llama2"))
def test_tokenizers_of_other_kinds(name: str) -> None:
    store = SessionStore()
    tok = engine(name)
    text = transcript(6, 3_000)
    for stop in (1_000, 1_500, 2_990, 3_000, 2_000):
        for session_id in ("a", None):
            assert store.encode(tok, text[:stop], session_id).tolist() == reference(name).encode(text[:stop]).ids
    if name == "bert_uncased":
        assert sum(store.counters.fallbacks.values()) >= 5


# --- bounds -------------------------------------------------------------------------------


def test_memory_is_bounded_and_the_least_recently_used_goes() -> None:
    text = transcript(7, 20_000)
    probe = SessionStore()
    probe.encode(TOK, text, "a")
    one = probe.counters.bytes
    store = SessionStore(max_bytes=int(4.5 * one))
    for number in range(4):
        store.encode(TOK, text, f"{number}")
    assert store.counters.evictions == 0 and store.counters.bytes == pytest.approx(4 * one, rel=0.01)
    store.session(TOK, "0")  # used again, so that 1 is the oldest
    store.encode(TOK, text, "4")
    assert store.counters.evictions == 1 and store.counters.bytes <= 4.5 * one
    hits = store.counters.hits
    for name in "0234":
        assert store.session(TOK, name).text == text
    assert store.counters.hits == hits + 4
    assert store.session(TOK, "1").text == ""
    for number in range(50):
        store.encode(TOK, text + f"{number}")
        assert store.counters.bytes <= 4.5 * one
    assert store.counters.sessions == len(store) <= 5
    assert store.encode(TOK, text + "49!").tolist() == right(text + "49!")


def test_a_session_larger_than_the_store_is_right_and_not_kept() -> None:
    store = SessionStore(max_bytes=10_000)
    text = transcript(8, 50_000)
    assert store.encode(TOK, text, "a").tolist() == right(text)
    assert store.encode(TOK, text).tolist() == right(text)
    assert (store.counters.sessions, store.counters.bytes, store.counters.evictions) == (0, 0, 2)


def test_a_session_that_is_held_is_never_another() -> None:
    store = SessionStore(max_bytes=10_000)
    held = store.session(TOK, "a")
    held.append("x" * 50_000)
    assert len(store) == 0
    store.session(TOK, "a").append("y")
    assert held.text == "x" * 50_000 + "y"
    del held
    assert store.session(TOK, "a").text == ""


def test_the_bytes_that_are_counted_are_held() -> None:
    import tracemalloc

    store = SessionStore()
    texts = [transcript(seed, 200_000) for seed in range(4)]
    for text in texts:
        store.encode(TOK, text, "fills the tokenizer's memo")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    counted = store.counters.bytes
    for number, text in enumerate(texts):
        store.encode(TOK, text, f"{number}")
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 * held < store.counters.bytes - counted


def test_sessions_that_nobody_comes_back_to_expire() -> None:
    clock = Clock()
    store = SessionStore(clock=clock)  # an hour
    text = transcript(9, 3_000)
    for name in "ab":
        store.encode(TOK, text, name)
    clock.now += 3_000
    store.session(TOK, "b")
    clock.now += 700
    assert store.session(TOK, "a").text == ""
    assert store.session(TOK, "b").text == text
    assert store.counters.expirations == 1
    clock.now += 3_601
    assert store.encode(TOK, text + "!").tolist() == right(text + "!")
    assert store.counters.expirations == 3 and store.counters.sessions == 1
    assert done(store)["misses"] == 4
    store.discard("none")
    assert store.counters.bytes > 0


def test_the_books_balance() -> None:
    clock, random_ = Clock(), random.Random(8)
    store = SessionStore(clock=clock, max_bytes=150_000, ttl=40)
    texts = [transcript(seed, 10_000) for seed in range(4)]
    for _ in range(150):
        name = random_.choice([None, *"abcdefgh"])
        size = random_.choice([0, 5, 200, 3_000, 9_000])
        text = random_.choice(texts)[:size] + random_.choice(["", "x", "yz"])
        assert store.encode(TOK, text, name).tolist() == right(text)
        if random_.random() < 0.05:
            store.discard(random_.choice("abc"))
        clock.now += random_.choice([0, 1, 10])
        entries = store._kept.values()
        assert store.counters.bytes == sum(entry.nbytes for entry in entries) <= 150_000
        known = {owner for owners in store._index._owners.values() for owner in owners}
        assert known == {entry for entry in entries if len(entry.text)}
    assert store.counters.evictions and store.counters.expirations
    clock.now += 41
    store.session(TOK, "last")
    assert len(store) == 1 and not store._index._owners


# --- threads -----------------------------------------------------------------------------


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    """All begin at once; what any of them raises is raised here."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(begin, range(count)))


def test_threads_lose_no_update() -> None:
    """Eight threads append to a thousand sessions, all of them to each."""
    store = SessionStore()
    names = [f"chat-{number}" for number in range(1_000)]

    def work(number: int) -> None:
        for name in random.Random(number).sample(names, len(names)):
            store.session(TOK, name).append(f"[{number} says hello]\n")

    in_threads(work)
    for name in names:
        session = store.session(TOK, name)
        assert sorted(session.text.splitlines()) == [f"[{number} says hello]" for number in range(8)]
    for name in names[::25]:
        session = store.session(TOK, name)
        assert session.ids.tolist() == right(session.text)
    found = store.counters
    assert found.misses == 1_000 and found.hits == 8_000 + 40
    assert found.appends == 8_000 and found.sessions == 1_000 and not found.widenings


@pytest.mark.parametrize("room", [1 << 30, 60_000], ids=["roomy", "crowded"])
def test_threads_by_name_and_by_content(room: int) -> None:
    store = SessionStore(max_bytes=room)
    base = transcript(10, 2_000)

    def work(number: int) -> None:
        random_ = random.Random(number)
        for turn in range(40):
            name = random_.choice([None, None, "shared", f"own {number}", f"{turn % 5}"])
            text = base[: random_.randrange(2_000)] + f" {number} {turn}" * random_.randrange(3)
            assert store.encode(TOK, text, name).tolist() == right(text)

    in_threads(work)
    found = store.counters
    assert found.hits + found.misses == 8 * 40
    assert found.bytes == sum(entry.nbytes for entry in store._kept.values()) <= room
    assert (found.evictions > 0) == (room == 60_000)


def test_one_busy_session_keeps_nobody_waiting() -> None:
    store = SessionStore()
    store.encode(TOK, "a text", "busy")
    store.encode(TOK, "another", "free")
    entry = store._kept["id:busy"]
    with entry.lock:  # as while its text is tokenized
        waiting = ThreadPoolExecutor(1)
        blocked = waiting.submit(store.encode, TOK, "a text and more", "busy")
        assert store.encode(TOK, "another one", "free").tolist() == right("another one")
        assert store.encode(TOK, "new").tolist() == right("new")
        assert isinstance(store.counters, StoreCounters) and not blocked.done()
    assert blocked.result().tolist() == right("a text and more")
    waiting.shutdown()


# --- interrupts --------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on this system")
def test_an_interrupt_leaves_no_lock_behind() -> None:
    """Whenever one comes, the store goes on, and can be closed while its traceback is still there."""

    class Interrupt(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupt

    random_ = random.Random(7)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for turn in range(300):
            with pytest.raises(Interrupt), SessionStore() as store:
                session = store.session(TOK, "a")
                signal.setitimer(signal.ITIMER_REAL, random_.uniform(2e-5, 2e-3))
                while True:
                    session.append(" x")
                    store.encode(TOK, f"a b c {turn}")
            assert not store._lock.locked() and not store._writing.locked()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- forks -------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_both_sides_of_a_fork_go_on() -> None:
    store = SessionStore()
    session = store.session(TOK, "a")
    session.append("before")

    def child() -> None:
        session.append(" child")
        assert session.ids.tolist() == right("before child")
        assert store.encode(TOK, "before and after").tolist() == right("before and after")

    in_child(child)
    session.append(" parent")
    assert session.text == "before parent" and session.ids.tolist() == right("before parent")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_what_another_thread_was_changing_is_not_used_after_a_fork() -> None:
    store = SessionStore()
    session, idle = store.session(TOK, "busy"), store.session(TOK, "idle")
    session.append("before")
    idle.append("before")
    entry = store._kept["id:busy"]
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with entry.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def child() -> None:
        with pytest.raises(SessionUnavailableError, match="fork"):
            session.append("!")
        assert store.session(TOK, "busy").text == ""
        assert store.encode(TOK, "before and after", "busy").tolist() == right("before and after")
        assert idle.text == "before"

    in_child(child)
    release.set()
    thread.join()
    assert session.text == "before"


class SlowSet(weakref.WeakSet[Any]):
    """Gives other threads time while it is gone through."""

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            yield one
            time.sleep(1e-3)


def test_stores_may_be_made_while_the_process_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fork does before and after, without one: it goes through all stores and all their files."""
    monkeypatch.setattr(store_module, "_stores", SlowSet())
    monkeypatch.setattr(persistence, "_files", SlowSet())
    stores = [SessionStore(tmp_path / f"{number}") for number in range(9)]
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            stores[:3] = [SessionStore(tmp_path / f"{number}") for number in range(3)]

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(3):
            for module in (store_module, persistence):
                module._before_fork()
            for module in (persistence, store_module):
                module._after_fork()
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_while_threads_are_at_work() -> None:
    store = SessionStore()
    stop = threading.Event()

    def work(number: int) -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            store.encode(TOK, f"{number} counts to {turn}", f"{turn % 7}")
            store.encode(TOK, f"{number} counts to {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()

    def child() -> None:
        for number in range(7):
            text = f"a child says {number}"
            assert store.encode(TOK, text, f"{number}").tolist() == right(text)
            assert store.encode(TOK, text + "!").tolist() == right(text + "!")

    try:
        for _ in range(10):
            in_child(child)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
