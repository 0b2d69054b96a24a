"""What a session promises besides the right ids: patches, views, cost, errors, branches, and repair of damage."""

from __future__ import annotations

import copy
import json
import pickle
import random
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import small
from conftest import reference, tokenizers
from histories import Record, apply, random_changes, seam_parts
from hypothesis import given
from hypothesis import strategies as st
from judge import engine, literals
from numpy.typing import NDArray
from transcripts import transcript

import toktier
from toktier.artifact import Artifact
from toktier.errors import (
    CheckpointError,
    LoneSurrogateError,
    OptionError,
    PositionError,
    SpecialTokenError,
    TextTypeError,
)
from toktier.sessions import Session
from toktier.sessions.engine import token_widths
from toktier.sessions.ids import IdBuffer
from toktier.sessions.repair import State
from toktier.sessions.search import _certified
from toktier.sessions.stored import StoredSession
from toktier.sessions.text import BlockText
from toktier.tokenizer import Tokenizer

TEXT = transcript(11, 60_000)


def right(name: str, text: str) -> list[int]:
    ids: list[int] = reference(name).encode(text, add_special_tokens=False).ids
    return ids


# --- reading --------------------------------------------------------------------------------------


def test_what_a_session_shows(embedded: str) -> None:
    session = engine(embedded).session("It's a ")
    patch = session.append("session.")
    assert session.text == "It's a session." and len(session) == 15
    assert session.ids.tolist() == right(embedded, session.text) and session.count == len(session.ids)
    assert session.ids.dtype == np.uint32 and patch.ids.dtype == np.uint32
    assert session.fingerprint == engine(embedded).fingerprint
    assert embedded in repr(session)
    assert session.prompt().tolist() == reference(embedded).encode(session.text).ids
    assert session.prompt(add_special_tokens=False).tolist() == session.ids.tolist()


@pytest.mark.parametrize("name", tokenizers("llama2", "bert_uncased", "gemma3", "xlm_roberta", "deepseek_llm"))
def test_special_ids_are_added_on_reading(name: str) -> None:
    session = engine(name).session("One. ")
    session.append("Two.")
    assert session.prompt().tolist() == reference(name).encode("One. Two.").ids
    assert session.ids.tolist() == right(name, "One. Two.")


def test_an_artifact_that_pads_pads_the_empty_text() -> None:
    padding = {
        "strategy": {"Fixed": 6},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "a",
    }
    tok = Tokenizer(Artifact.from_bytes(json.dumps(small.document(padding=padding)).encode(), "padded"))
    empty = tok.reference().encode("", add_special_tokens=False).ids
    session = tok.session()
    assert session.ids.tolist() == empty != []
    ids = session.ids.tolist()
    for change, text in ((session.append("abab"), "abab"), (session.truncate(0), "")):
        ids[change.start : change.start + change.removed] = change.ids.tolist()
        assert ids == tok.reference().encode(text, add_special_tokens=False).ids
    assert session.ids.tolist() == session.fork().ids.tolist() == empty


def test_an_artifact_that_truncates_is_encoded_whole() -> None:
    parts = small.document(
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    )
    session = Tokenizer(Artifact.from_bytes(small.build(parts).to_str().encode(), "cut")).session("ab ab")
    assert session.append(" ab ab").path.startswith("whole: it truncates")
    assert session.ids.tolist() == small.build(parts).encode("ab ab ab ab").ids == session.prompt().tolist()


@pytest.mark.parametrize("name", tokenizers("qwen3", "gpt2", "llama2", "bert_uncased", "gemma3", "deepseek_v3"))
def test_offsets(name: str) -> None:
    text = TEXT[:30_000] + " e\u0301\u0323 \u1112\u1161\u11ab 中\U0001f600 " + TEXT[30_000:]
    session = engine(name).session(text)
    for at in (100, 20_000, 30_005):
        session.edit(at, at + 3, "some more")
    whole = reference(name).encode(session.text, add_special_tokens=False).offsets
    assert session.offsets().tolist() == [list(span) for span in whole]
    for start, stop in ((0, 3), (5, 5), (len(whole) - 4, len(whole)), (len(whole) // 2, len(whole) // 2 + 50)):
        assert session.offsets(start, stop).tolist() == [list(span) for span in whole[start:stop]]


def test_offsets_that_the_reference_counts_from_elsewhere() -> None:
    """The mark of a word's end counts as characters; where it is written in bytes, spans lie beyond the piece."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"a": 256}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": True, "end_of_word_suffix": "</w>"}
    parts = small.document(pre_tokenizer={"type": "Whitespace"}, decoder=None, model=model)
    tok = Tokenizer(Artifact.from_bytes(json.dumps(parts).encode(), "marked"))
    session = tok.session("a ab.a " * 300)
    session.edit(1000, 1000, "b a")
    assert len(session._state.anchors) > 1
    whole = tok.reference().encode(session.text).offsets[3000:3050]
    assert session.offsets(3000, 3050).tolist() == [list(span) for span in whole]


def test_a_view_never_changes_under_its_holder() -> None:
    session = engine("qwen3").session("The first words and more of th")
    views: list[tuple[NDArray[np.uint32], list[int]]] = []
    for change, _ in islice(random_changes(3, seam_parts(literals("qwen3"), 3), 500), 300):
        view = session.ids[: random.Random(len(views)).randrange(session.count + 1)]
        views.append((view, view.tolist()))
        change.make(session, change.after(session.text)) if change.stop <= len(session) else session.append("x")
    assert all(view.tolist() == ids for view, ids in views)
    with pytest.raises(ValueError):
        session.ids[0] = 1
    with pytest.raises(ValueError):
        session.ids.flags.writeable = True


def test_ids_are_copied_only_if_somebody_would_see_the_change() -> None:
    session = engine("qwen3").session(TEXT + " wor")
    assert np.shares_memory(session.ids, session.ids)
    address = session.ids.ctypes.data
    session.append("d")
    assert session.ids.ctypes.data == address, "nobody held a view"
    kept = session.ids[-3:]
    before = kept.tolist()
    session.append("s")
    assert session.ids.ctypes.data != address and kept.tolist() == before
    address, early = session.ids.ctypes.data, session.ids
    session.append(" and more")
    assert session.ids.ctypes.data == address, "what is added beyond a view is not seen by it"
    assert len(early) < session.count


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10), st.integers(0, 12), st.booleans()), max_size=30))
def test_id_buffer(changes: list[tuple[int, int, int, bool]]) -> None:
    buffer = IdBuffer(np.arange(5, dtype=np.uint32))
    model = list(range(5))
    held: list[tuple[NDArray[np.uint32], list[int]]] = []
    for number, (start, removed, count, hold) in enumerate(changes):
        start = min(start, len(model))
        removed = min(removed, len(model) - start)
        fresh = np.arange(count, dtype=np.uint32) + 100 * number
        if hold:
            held.append((buffer.view(), list(model)))
        buffer.replace(start, removed, fresh)
        model[start : start + removed] = fresh.tolist()
        assert buffer.view().tolist() == model
    assert all(view.tolist() == ids for view, ids in held)


# --- the text -------------------------------------------------------------------------------------


def long_texts() -> st.SearchStrategy[str]:
    """Texts of several blocks, of every width."""
    parts = st.sampled_from(["abc ", "é", "中文", "\U0001f600", "x" * 9000, "é" * 9000, "y" * 70_000, "z\n"])
    return st.lists(parts, max_size=6).map("".join)


@given(long_texts(), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), long_texts()), max_size=5))
def test_block_text(text: str, changes: list[tuple[float, float, str]]) -> None:
    blocks = BlockText(text)
    for first, second, new in changes:
        start, stop = sorted((int(first * len(text)), int(second * len(text))))
        changed = text[:start] + new + text[stop:]
        size = max(len(text), len(changed))
        prefix = next((i for i in range(size) if text[i : i + 1] != changed[i : i + 1]), size)
        assert blocks.common_prefix(changed) == prefix
        most = min(len(text), len(changed)) - prefix
        suffix = blocks.common_suffix(changed, most)
        assert suffix <= most and text[len(text) - suffix :] == changed[len(changed) - suffix :]
        assert suffix == most or text[-suffix - 1] != changed[-suffix - 1]
        assert blocks.slice(start, stop) == text[start:stop]
        older, blocks = blocks, blocks.replaced(start, stop, new)
        assert str(older) == text, "a text is immutable"
        text = changed
        assert str(blocks) == text and len(blocks) == len(text) and blocks == BlockText(text)
        assert 0 <= blocks.nbytes - sum(map(sys.getsizeof, blocks)) < 1000 + 100 * len([*blocks])
    assert blocks.slice(0, len(text)) == text


def test_one_emoji_does_not_widen_a_long_text() -> None:
    assert BlockText("x" * 1_000_000 + "\U0001f600" + "y" * 1_000_000).nbytes < 2_100_000


# --- patches and cost -----------------------------------------------------------------------------


def test_patches_are_as_small_as_can_be(embedded: str) -> None:
    session = engine(embedded).session("a b c d e f g h")
    ids = session.ids.tolist()
    patch = session.edit(6, 7, "X")
    assert patch.removed <= 2 and len(patch.ids) <= 2 and apply(ids, patch) == session.ids.tolist()
    ids = session.ids.tolist()
    patch = session.update("a b c X e f g h i j")
    assert (patch.start, patch.removed) == (len(ids), 0), "the stored ids all remain"
    assert session.update(session.text).path == session.append("").path == "unchanged"


def test_the_path_says_how_a_patch_was_got() -> None:
    session = engine("qwen3").session(TEXT + " The end.")
    size = len(session)
    assert session.append(" More.").path == "append"
    assert session.update(TEXT + " The end. Most.").path == "tail"
    assert session.update("Now: " + TEXT + " The end. Most.").path == "edit"
    assert session.edit(3000, 3001, "").path == "edit"
    assert session.truncate(size - 5).path == "tail"
    counters = session.counters
    assert (counters.appends, counters.tail_changes, counters.edits) == (1, 2, 2)
    assert not counters.fallbacks and not counters.widenings


@pytest.mark.parametrize("name", ["qwen3", "gpt-oss", "gpt2", "deepseek-v3"])
def test_the_engine_sees_the_change_and_little_else(name: str) -> None:
    short, long = engine(name).session(TEXT[:20_000]), engine(name).session(TEXT * 10)

    def seen(session: Session, change: Any, most: int) -> None:
        before = session.counters.characters
        change(session)
        assert session.counters.characters - before < most

    for session in (short, long):
        seen(session, lambda s: s.append(TEXT[:1400]), 1400 + 300)
        seen(session, lambda s: s.update(s.text + " again, and again"), 300)
        seen(session, lambda s: s.update(s.text[:-8] + " another end"), 600)
        middle = len(session) // 2
        session.edit(middle, middle + 1, "!")
        seen(session, lambda s: s.edit(len(s) // 2, len(s) // 2 + 100, TEXT[:100]), 3000)
        seen(session, lambda s: s.truncate(len(s) - 50), 2000)


@pytest.mark.parametrize("name", ["qwen3", "gpt-oss", "deepseek-v3"])
def test_rows_of_added_tokens(name: str) -> None:
    """A picture is a thousand of them in a row, with a certified cut behind each and no other."""
    tok, judge = engine(name), reference(name)
    end = next(content for content in literals(name) if content.startswith("<") and len(content) > 8)
    row = "Hello, world " + end * 2000
    session = tok.session(row)
    for new in (end, " What is this?", end, "It", " is"):
        before = session.counters.characters
        session.append(new)
        assert session.counters.characters - before < 200
        row += new
    assert session.ids.tolist() == judge.encode(row, add_special_tokens=False).ids
    stream = tok.stream_encoder(False)
    assert len(stream.feed(row)) > 2000
    assert len(stream.feed(end + end[:4])) > 0 and len(stream.pending) < 2 * len(end)
    for special in ("encode", "text"):
        count = tok.count(row, special=special, add_special_tokens=False)
        assert tok.count(row, limit=50, special=special, add_special_tokens=False) == min(count, 51)
    plain = tok.session(row, special="text")
    plain.append(end)
    assert plain.ids.tolist() == tok.encode(row + end, False, special="text", backend="reference")


def test_memory_of_a_long_session() -> None:
    session = engine("qwen3").session(TEXT[:50_000] * 40)
    session.append("and some more")
    assert session.count > 400_000
    assert session.nbytes * 500_000 / session.count < 6_000_000


# --- errors ---------------------------------------------------------------------------------------


def test_errors_leave_a_session_as_it_was() -> None:
    session = engine("qwen3").session("Good text 1")
    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (TextTypeError, lambda: session.append(b"bytes")),  # type: ignore[arg-type]
        (TextTypeError, lambda: session.update(None)),  # type: ignore[arg-type]
        (TextTypeError, lambda: session.edit(0, 1, 5)),  # type: ignore[arg-type]
        (TypeError, lambda: session.edit("0", 1, "")),  # type: ignore[arg-type]
        (PositionError, lambda: session.edit(-1, 1, "")),
        (PositionError, lambda: session.edit(3, 2, "")),
        (PositionError, lambda: session.edit(3, 100, "")),
        (PositionError, lambda: session.truncate(12)),
        (PositionError, lambda: session.truncate(-1)),
        (PositionError, lambda: session.offsets(0, 100)),
        (LoneSurrogateError, lambda: session.append("a\ud83d")),
        (LoneSurrogateError, lambda: session.append("\ude00b")),
        (LoneSurrogateError, lambda: session.update("Good text 1\udfff")),
        (LoneSurrogateError, lambda: session.edit(1, 2, "\ud800")),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()
        assert session.text == "Good text 1" and session.ids.tolist() == right("qwen3", "Good text 1")
    session.append("2")
    assert session.ids.tolist() == right("qwen3", "Good text 12")


def test_a_lone_surrogate_is_named_with_its_place() -> None:
    session = engine("qwen3").session("Good text")
    calls: list[tuple[Callable[[], object], int]] = [
        (lambda: session.append("ab\ud83d"), 2),
        (lambda: session.update("Good te\udc00xt"), 7),
    ]
    for call, index in calls:
        with pytest.raises(LoneSurrogateError, match="lone surrogate U\\+D") as caught:
            call()
        assert caught.value.index == index


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="special"):
        engine("qwen3").session(special="never")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="strategy"):
        engine("qwen3").session(strategy="luck")  # type: ignore[arg-type]
    with pytest.raises(TextTypeError):
        engine("qwen3").session(b"")  # type: ignore[arg-type]


def test_special_tokens_may_be_refused() -> None:
    session = engine("qwen3").session("Hello <|im_", special="raise")
    with pytest.raises(SpecialTokenError):
        session.append("end|>")
    with pytest.raises(SpecialTokenError):
        session.edit(0, 0, "<|im_start|>")
    with pytest.raises(SpecialTokenError):
        engine("qwen3").session("<|im_end|>", special="raise")
    assert session.text == "Hello <|im_"
    session.append("ends")
    assert session.ids.tolist() == right("qwen3", "Hello <|im_ends")
    with pytest.raises(SpecialTokenError):
        session.edit(len(session) - 1, len(session), "|>")
        session.edit(10, 10, "x")
    with pytest.raises(SpecialTokenError):  # made by taking away what was in between
        session = engine("qwen3").session("a <|im_XX_end|> b", special="raise")
        session.edit(len("a <|im_"), len("a <|im_XX_"), "")


def refusing(text: str, *tokens: dict[str, Any], **parts: Any) -> Session:
    """A session that refuses special tokens, under a small tokenizer with these added tokens."""
    document = small.document(added_tokens=list(tokens), **parts)
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "small"))
    assert tok._cuts.refusal is None
    return tok.session(text, special="raise")


GPT2_PIECES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}


def test_what_stands_behind_decides_whether_it_is_a_special_token() -> None:
    """One that must be a word of its own is none before a letter, however close to it the change is."""
    token = small.added("<s> ", 264, "special", "single_word")
    session = refusing("-<s> y z", token, pre_tokenizer=GPT2_PIECES)
    session.edit(0, 1, "+")
    session.edit(1, 1, "-")
    with pytest.raises(SpecialTokenError):
        session.edit(len("+-<s> "), len("+-<s> y"), "-")


def test_a_prefix_before_the_text_is_no_part_of_what_is_refused() -> None:
    """The token is searched for with the prefix before it, which only the start of the text has."""
    token = small.added("é", 264, "special", "normalized")
    session = refusing("1s", token, normalizer={"type": "Prepend", "prepend": "ab"}, pre_tokenizer=GPT2_PIECES)
    for new in ("1é", "1", "é", "1"):
        session.append(new)
    with pytest.raises(SpecialTokenError):
        session.append(" abé")


def test_a_special_token_that_is_written_in_more_characters_than_it_has() -> None:
    token = small.added("<s>", 264, "special", "normalized")
    accents = {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]}
    session = refusing("x\u0301\u0301\u0301\u0301\u0301s> y", token, normalizer=accents, pre_tokenizer=GPT2_PIECES)
    with pytest.raises(SpecialTokenError):
        session.edit(0, 1, "<")


def test_the_search_may_begin_and_end_within_a_character() -> None:
    """Tokens do; the bytes 0 to 2 and 5 to 7 are characters, and the only cut lies before the space at 4."""
    session = engine("gpt2").session(strategy="search")
    for low in range(8):
        for high in range(low, 9):
            found = _certified(session._engine, session._state, 0, "\u4e2db \u4e2d", "x", low, high)
            assert found == (low < 4 < high)


# --- branches -------------------------------------------------------------------------------------


def test_forks_go_their_own_ways() -> None:
    session = engine("gpt-oss").session("Once upon a ti")
    other = session.fork()
    session.append("me")
    other.append("ger")
    third = other.fork()
    other.append(" ran")
    third.truncate(3)
    for fork, text in ((session, "Once upon a time"), (other, "Once upon a tiger ran"), (third, "Onc")):
        assert fork.text == text and fork.ids.tolist() == right("gpt-oss", text)


def test_checkpoints_are_restored_any_number_of_times() -> None:
    session = engine("gpt-oss").session("Once upon a ti")
    point = session.checkpoint()
    for end in ("me", "ger", "er", "de"):
        session.append(end)
        assert session.ids.tolist() == right("gpt-oss", "Once upon a ti" + end)
        ids = session.ids.tolist()
        patch = session.restore(point)
        assert patch.path == "restore" and apply(ids, patch) == session.ids.tolist()
        patch.ids[:] = 0
        assert session.text == "Once upon a ti" and session.ids.tolist() == point.ids.tolist() != []
    with pytest.raises(CheckpointError, match="under the tokenizer 0614"):
        engine("qwen3").session().restore(point)
    with pytest.raises(CheckpointError, match="special"):
        engine("gpt-oss").session(special="text").restore(point)
    with pytest.raises(CheckpointError, match="special"):
        engine("gpt-oss").session(special="raise").restore(engine("gpt-oss").session("<|end|>").checkpoint())


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))]
)
def test_copies_go_their_own_ways(duplicate: Callable[[Session], Session]) -> None:
    session = engine("gpt-oss").session("Once upon a ti<|end|>", special="text", strategy="search")
    view = session.ids
    other = duplicate(session)
    assert (other.special, other.strategy) == ("text", "search") and other.ids.tolist() == view.tolist()
    other.append("ger")
    session.truncate(5)
    for branch in (session, other):
        assert branch.ids.tolist() == engine("gpt-oss").encode(branch.text, special="text")
    assert len(session) == 5


# --- interrupts -----------------------------------------------------------------------------------


def interrupted(call: Callable[[], object], at: int) -> bool:
    """Whether ``call`` was stopped, at the line number ``at`` that it runs in ``toktier.sessions``."""
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if "/toktier/sessions/" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        lines += event == "line"
        if lines == at:
            lines += 1
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


CHANGES: list[tuple[Callable[[Any], object], str]] = [
    (lambda session: session.append(" two and a three"), "One, 2 and 3 " * 9 + "x two and a three"),
    (lambda session: session.edit(3, 5, ""), "One2 and 3 " + "One, 2 and 3 " * 8 + "x"),
    (lambda session: session.update("One, 2 and 3 " * 9 + "three"), "One, 2 and 3 " * 9 + "three"),
]


@pytest.mark.parametrize(("change", "after"), CHANGES)
def test_an_interrupt_leaves_a_session_as_it_was_or_is_to_be(
    change: Callable[[Session], object], after: str
) -> None:
    before = "One, 2 and 3 " * 9 + "x"
    start, texts = engine("gpt2").session(before), []
    while True:
        session = start.fork()
        session.append("")  # nothing is shared any more
        session.edit(5, 6, "2")
        stopped = interrupted(lambda session=session: change(session), len(texts) + 1)  # type: ignore[misc]
        texts.append(session.text)
        assert session.ids.tolist() == right("gpt2", session.text)
        session.append(" More")
        assert session.ids.tolist() == right("gpt2", session.text)
        if not stopped:
            break
    assert set(texts) == {before, after} and len(texts) > 50


# --- refused tokenizers, and the other strategy ---------------------------------------------------


def test_a_refused_tokenizer_says_so() -> None:
    document = small.document(pre_tokenizer=None)
    session = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made")).session("One two")
    patch = session.append(" three")
    assert patch.path.startswith("whole: ") and sum(session.counters.fallbacks.values()) == 2
    assert session.ids.tolist() == small.build(document).encode("One two three").ids


@pytest.mark.parametrize("name", tokenizers("qwen3", "gpt-oss", "gpt2", "deepseek-v3", "cl100k", "llama3_1"))
def test_both_strategies_agree(name: str) -> None:
    found, searched = engine(name).session(), engine(name).session(strategy="search")
    record, paths = Record(name), set()
    parts = seam_parts(literals(name)[:60], 5, 200) + ["some ordinary text, a little longer; " * 4] * 150
    for change, text in islice(random_changes(5, parts, 4000), 200):
        change.make(found, text)
        paths.add(change.make(searched, text).path)
        assert found.ids.tolist() == searched.ids.tolist()
        record.note(text, searched, repr(change))
    record.judge()
    assert "search" in paths


def test_the_search_accepts_the_first_window_of_ordinary_text() -> None:
    session = engine("qwen3").session(TEXT[:5000], strategy="search")
    assert {session.append(TEXT[5000 + 500 * i : 5500 + 500 * i]).path for i in range(50)} == {"search"}
    assert not session.counters.widenings


def test_the_search_does_not_accept_what_only_looks_equal() -> None:
    """Digits in groups of three: equal runs without a boundary that is one in every context."""
    tok = engine("gpt-oss")
    session = tok.session("1" * 3000, strategy="search")
    patch = session.edit(0, 0, "1")
    assert patch.path != "search" and session.ids.tolist() == right("gpt-oss", "1" * 3001)
    session.append("11")
    assert session.ids.tolist() == right("gpt-oss", "1" * 3003)


@pytest.mark.parametrize("tail", ["e\u0301e\u0301", "\u0958", "e\u0301" * 3 + "\u0958"])
def test_the_search_knows_no_places_in_normalized_text(tail: str) -> None:
    """Counted from the end of a text, tokens seem to stand where the same words stand again."""
    session = engine("qwen3").session(" a" * 600 + tail, strategy="search")
    session.update(" a" * 600 + "x")
    assert session.ids.tolist() == right("qwen3", " a" * 600 + "x")


# --- damage ---------------------------------------------------------------------------------------


def tamper_ids(session: Session, at: int) -> None:
    """Change one stored id, as a stray write would."""
    ids = session._state.ids
    ids._memory[at] = (int(ids._memory[at]) + 1) % 1000


def tamper_text(session: Session, at: int) -> None:
    """Change a stretch of the stored text behind the session's back."""
    state = session._state
    text = state.text.replaced(at, at + 6, "~!QZ:0")
    session._state = State(text, state.ids, state.anchors, state.seam)


@pytest.mark.parametrize("damage", ["last", "shifted", "lost", "text"])
@pytest.mark.parametrize("change", ["append", "tail", "edit"])
@pytest.mark.parametrize("name", ["qwen3", "gpt-oss"])
def test_damage_close_to_a_change_is_found_and_repaired(name: str, change: str, damage: str) -> None:
    session = engine(name).session(TEXT)
    middle = len(TEXT) // 2
    session.edit(middle, middle, " and ")  # so that places in the middle are known
    tokens, at = session.count, len(session) - 14
    if change == "edit":
        offsets = session.offsets()
        tokens, at = int(np.searchsorted(offsets[:, 0], middle)) + 3, middle - 8
    if damage == "last":
        for back in range(2, 9):
            tamper_ids(session, tokens - back)
    elif damage == "text":
        tamper_text(session, at)
    else:
        ids = session._state.ids
        fresh = ids.read(tokens - 6, tokens - 5).repeat(2 if damage == "shifted" else 0)
        ids.replace(tokens - 6, 1, fresh)
    stored = session.text
    if change == "append":
        text = stored + " more"
        session.append(" more")
    elif change == "tail":
        text = stored[:-3] + "other"
        session.edit(len(stored) - 3, len(stored), "other")
    else:
        text = stored[:middle] + "X" + stored[middle:]
        session.edit(middle, middle, "X")
    counters = session.counters
    assert counters.widenings, "the self-check saw it"
    assert session.ids.tolist() == right(name, text)
    session.append(" and on")
    assert session.ids.tolist() == right(name, text + " and on")


def test_damage_everywhere_ends_with_the_reference() -> None:
    session = engine("qwen3").session(TEXT)
    for at in range(0, len(TEXT), 1500):
        session.edit(at, at, ".")  # makes places known all over the text
    text = session.text + " more"
    session._state.ids._memory[:] = 7
    patch = session.append(" more")
    assert patch.path.startswith("whole: the stored ids do not fit")
    assert sum(session.counters.fallbacks.values()) == 1 and session.counters.widenings == 5
    assert session.ids.tolist() == right("qwen3", text)
    assert session.append(" and more").path == "append"
    assert session.ids.tolist() == right("qwen3", text + " and more")


@pytest.mark.parametrize("strategy", ["restart", "search"])
def test_stray_ids_may_be_any_number(strategy: Any) -> None:
    session = engine("qwen3").session(TEXT, strategy=strategy)
    session._state.ids._memory[:] = 0xFFFFFFFF
    text = TEXT[: len(TEXT) // 2] + "!" + TEXT[len(TEXT) // 2 :]
    session.edit(len(TEXT) // 2, len(TEXT) // 2, "!")
    assert session.ids.tolist() == right("qwen3", text) and session.counters.widenings
    session._state.ids._memory[:] = 0xFFFFFFFF
    session.append(" more")
    assert session.ids.tolist() == right("qwen3", text + " more")


PIECES_WITHOUT_TOKENS: list[tuple[dict[str, Any], str]] = [
    ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "a b a b a b"),
    ({"pre_tokenizer": {"type": "Punctuation", "behavior": "Removed"}}, "a.b.a.b"),
    ({"pre_tokenizer": {"type": "Digits", "individual_digits": True}}, "a中1文2中3文4中"),
]


@pytest.mark.parametrize(("parts", "text"), PIECES_WITHOUT_TOKENS)
def test_pieces_without_tokens_do_not_count_as_checked(parts: dict[str, Any], text: str) -> None:
    """White space that is removed, and characters that the vocabulary lacks, are no reason to doubt the ids."""
    tok = Tokenizer(Artifact.from_bytes(json.dumps(small.document(**parts)).encode(), "small"))
    assert tok._cuts.refusal is None
    session = tok.session()
    for end, char in enumerate(text * 3, 1):
        session.append(char)
        assert session.ids.tolist() == tok.reference().encode((text * 3)[:end]).ids
    assert not session.counters.widenings


@pytest.mark.parametrize("backend", ["reference", "python", "numpy"])
def test_a_tokenizer_with_a_backend_of_its_own(backend: str) -> None:
    """The reference puts a prefix before what continues a text, too, so it does not do this part."""
    parts = small.document(normalizer={"type": "Prepend", "prepend": "ab"}, pre_tokenizer=GPT2_PIECES)
    artifact = Artifact.from_bytes(json.dumps(parts).encode(), "prefixed")
    tok, stream = Tokenizer(artifact, backend), Tokenizer(artifact, backend).stream_encoder()
    session, found = tok.session("1s"), stream.feed("1s").tolist()
    for new in (" ab", " 1 e ", "x\n"):
        session.append(new)
        found += stream.feed(new).tolist()
    session.edit(4, 5, "a")
    assert session.ids.tolist() == tok.reference().encode("1s aa 1 e x\n").ids
    assert [*found, *stream.flush()] == tok.reference().encode("1s ab 1 e x\n").ids


def test_a_session_of_text_without_cuts() -> None:
    """Nothing to restart at but the beginning: more work, the same ids."""
    session = engine("gpt-oss").session("a" * 800)
    for text in ("a" * 100, "b" * 700, "a"):
        session.append(text)
        assert session.ids.tolist() == right("gpt-oss", session.text)
    session.edit(400, 401, "c")
    assert session.ids.tolist() == right("gpt-oss", session.text)


def test_sessions_are_exported() -> None:
    assert isinstance(toktier.load("gpt2").session(), Session)


@pytest.mark.parametrize("stored", [False, True])
def test_verifying_by_the_reference(stored: bool) -> None:
    """Damage far from any change is found by :meth:`Session.verify`, repaired and counted."""
    tokenizer = toktier.load("qwen3")
    text = "A line of text, number 12.\n" * 40
    store = toktier.SessionStore()
    session = store.session(tokenizer, "a") if stored else tokenizer.session()
    session.update(text)
    assert session.verify().path == "unchanged"
    kept = next(iter(store._kept.values())).session if isinstance(session, StoredSession) else session
    assert kept is not None
    tamper_ids(kept, 20)
    session.append("More.")  # does not look so far back
    assert session.ids.tolist() != tokenizer.encode(text + "More.")
    patch = session.verify()
    assert session.ids.tolist() == tokenizer.encode(text + "More.")
    assert (patch.start, patch.removed, len(patch.ids)) == (20, 1, 1)
    assert session.counters.fallbacks == {"the reference has other ids": 1}
    session.append(" And more.")
    assert session.ids.tolist() == tokenizer.encode(text + "More. And more.")
    if stored:
        assert store.counters.fallbacks == {"the reference has other ids": 1}


def test_an_id_that_is_a_word_s_and_an_added_token_s(tmp_path: Path) -> None:
    """Sessions count tokens by their bytes, which such an id does not tell."""
    vocabulary = small.vocabulary()
    vocabulary["ab"] = number = len(vocabulary)  # the reference gives an added token the first id behind so many
    document = small.document(added_tokens=[small.added("<a long token>", number, "special")])
    document["model"] |= {"vocab": vocabulary}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    tokenizer, judge = toktier.load(file), small.build(document)
    assert tokenizer.encode("ab<a long token>") == judge.encode("ab<a long token>").ids == [number, number]
    assert token_widths(tokenizer) is None
