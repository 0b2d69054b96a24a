"""Ids, pieces, offsets and counts of the ``python`` and ``numpy`` engines, judged by the reference."""

from __future__ import annotations

import base64
import json
import random
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import adversarial
import numpy as np
import pytest
import small
from conftest import ABSENT, ROOT, SHARED, artifact, reference, shared_tokenizer_names
from hypothesis import given
from hypothesis import strategies as st
from judge import ENGINES, as_text, assert_ids, assert_same, engine, literals, truncating
from tokenizers import Tokenizer as HuggingFace

import toktier.tokenizer
from toktier.artifact import Artifact
from toktier.errors import ArtifactError, ReferenceFailedError
from toktier.registry import embedded_names
from toktier.tokenizer import Tokenizer

backends = pytest.mark.parametrize("backend", ENGINES)
any_embedded = st.sampled_from(embedded_names())
any_backend = st.sampled_from(ENGINES)


@cache
def battery(name: str, seed: int, count: int) -> tuple[str, ...]:
    return tuple(adversarial.battery(literals(name), seed, count))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut texts so often that a test need not be of millions of characters."""
    monkeypatch.setattr(toktier.tokenizer, "_PART", 2_000)


# --- short texts ---------------------------------------------------------------


def test_battery(embedded: str) -> None:
    assert_same(embedded, battery(embedded, 1, 2_500))


def test_short_strings(embedded: str) -> None:
    """All of up to two symbols, and an eighth of those of three."""
    texts = ["", *adversarial.all_strings(length=1), *adversarial.all_strings(length=2)]
    assert_same(embedded, [*texts, *list(adversarial.all_triples())[1::8]])


def test_class_triples_with_special_tokens_added(embedded: str) -> None:
    texts = list(adversarial.class_triples(2))[::40]
    assert_ids(engine(embedded), reference(embedded), texts, add_special_tokens=True)


@backends
def test_each_text_alone(embedded: str, backend: str) -> None:
    """Not in a batch, where short texts are put together."""
    tok, judge = engine(embedded), reference(embedded)
    for text in battery(embedded, 3, 250):
        assert tok.encode(text, backend=backend) == judge.encode(text).ids, repr(text)


def test_special_tokens_as_text(embedded: str) -> None:
    fragments = adversarial.literal_fragments(literals(embedded), 12)
    texts = [*battery(embedded, 4, 600), *fragments, *(f"a {f}\n{f}{f}" for f in fragments)]
    assert_ids(engine(embedded), as_text(embedded), texts, special="text")
    assert_ids(engine(embedded), reference(embedded), texts)


@given(st.data())
def test_any_text(data: st.DataObject) -> None:
    name, backend = data.draw(any_embedded), data.draw(any_backend)
    text = data.draw(adversarial.texts(literals(name)))
    assert engine(name).encode(text, backend=backend) == reference(name).encode(text).ids
    assert_same(name, [text], [backend])


@given(st.data())
def test_any_batch(data: st.DataObject) -> None:
    name, backend = data.draw(any_embedded), data.draw(any_backend)
    texts = data.draw(st.lists(adversarial.texts(literals(name), max_size=6), max_size=8))
    add, special = data.draw(st.booleans()), data.draw(st.sampled_from(("encode", "text")))
    judge = as_text(name) if special == "text" else reference(name)
    right = [e.ids for e in judge.encode_batch(texts, add_special_tokens=add)]
    assert engine(name).encode_batch(texts, add, special=special, backend=backend) == right


# --- long texts -------------------------------------------------------------------


def long_text(name: str, seed: int, separators: Sequence[str], size: int) -> str:
    random_ = random.Random(seed)
    parts: list[str] = []
    length = 0
    for text in adversarial.battery(literals(name), seed, size):
        parts += (text, random_.choice(separators))
        length += len(parts[-1]) + len(parts[-2])
        if length > size:
            break
    return "".join(parts)


def assert_long(name: str, text: str, backends: Sequence[str] = ENGINES) -> None:
    right = np.array(reference(name).encode_batch_fast([text], add_special_tokens=False)[0].ids, np.uint32)
    for backend in backends:
        found = engine(name).encode_to_numpy(text, add_special_tokens=False, backend=backend)
        assert found.dtype == np.uint32
        if not np.array_equal(found, right):
            shared = min(len(found), len(right))
            at = int(np.argmax(np.append(found[:shared] != right[:shared], True)))
            near = engine(name).decode(right[max(0, at - 5) : at + 5].tolist(), skip_special_tokens=False)
            pytest.fail(f"{name} ({backend}): ids differ from number {at} on, around {near!r}")


SEPARATORS = {
    "nothing": ("",),
    "lines": ("\n", "\r\n", "\n\n", " "),
    "words": (" hello", " ", "s ", " the "),
}


def separators(name: str, kind: str) -> Sequence[str]:
    return SEPARATORS.get(kind) or (*literals(name), "\n")


@pytest.mark.parametrize("kind", [*SEPARATORS, "literals"])
def test_long_text(embedded: str, kind: str) -> None:
    assert_same(embedded, [long_text(embedded, 5, separators(embedded, kind), 25_000)])


def test_longer_text(embedded: str) -> None:
    text = long_text(embedded, 14, (*literals(embedded), "", "", " ", "\n", " the "), 210_000)
    assert_long(embedded, text, ["numpy"])


@pytest.mark.parametrize("kind", [*SEPARATORS, "literals"])
@pytest.mark.usefixtures("small_blocks")
def test_cut_into_many_parts(embedded: str, kind: str) -> None:
    assert_long(embedded, long_text(embedded, 6, separators(embedded, kind), 40_000))


def test_text_of_more_than_a_block() -> None:
    assert_long("qwen3", long_text("qwen3", 7, ("\n", " the ", " "), 1_400_000), ["auto"])


def real_files(size: int) -> Iterator[str]:
    """Sources of the standard library, and prose of this project, up to ``size`` characters."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [*sorted(ROOT.glob("*.md")), ROOT / "LICENSE", ROOT / "tests" / "adversarial.py"]
    sources = sorted(library.glob("*.py")) + sorted((library / "encodings").glob("*.py"))
    files += random.Random(0).sample(sources, len(sources))
    total = 0
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        yield text
        total += len(text)
        if total > size:
            return


def test_real_files(embedded: str) -> None:
    files = list(real_files(200_000))
    assert len(files) > 3
    assert_same(embedded, files)


# --- long pieces --------------------------------------------------------------------

_LENGTHS = (*range(1, 41), 255, 256, 257, 399, 400, 401, 402, 479, 480, 481, 720, 1000)
_LONG_LENGTHS = (4095, 4096, 4097, 10_000, 10_077)


def _random_letters(length: int) -> str:
    return "".join(random.Random(length).choices("abcdefghijklmnopqrstuvwxyz", k=length))


def _base64(length: int) -> str:
    return base64.b64encode(random.Random(length).randbytes(length)).decode()[:length]


def _random_han(length: int) -> str:
    return "".join(map(chr, random.Random(length).choices(range(0x4E00, 0x9FA6), k=length)))


def _random_bits(length: int) -> str:
    """Two letters at random: few pairs, many ties."""
    return "".join(random.Random(length).choices("ab", k=length))


PIECES = {
    **{repr(char): (lambda length, char=char: char * length) for char in "a 0\n=\t中é_'\u0301\U0001f600"},
    "random letters": _random_letters,
    "base64": _base64,
    "random Han": _random_han,
    "a and b": _random_bits,
    "abc": lambda length: ("abc" * length)[:length],
    "-=": lambda length: ("-=" * length)[:length],
    "\\r\\n": lambda length: ("\r\n" * length)[:length],
}


_RARER = ("'\\t'", "'_'", "'0'", "'é'", "abc", "-=", "\\r\\n")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.campaign) if k in _RARER else k for k in PIECES]
)
def test_long_pieces(embedded: str, kind: str) -> None:
    make = PIECES[kind]
    texts = [make(n) for n in _LENGTHS] + [f"x {make(n)} y" for n in _LENGTHS[::3]]
    assert_ids(engine(embedded), reference(embedded), [*texts, f"{make(_LONG_LENGTHS[0])}\n"])


@pytest.mark.parametrize("kind", ["'a'", "' '", "'='", "'中'", "base64", "random letters"])
def test_very_long_pieces(embedded: str, kind: str) -> None:
    make = PIECES[kind]
    text = "\u3002 x\n".join([*(make(n) for n in _LONG_LENGTHS), make(100_000)])
    assert_long(embedded, text, ["numpy"])
    assert_long(embedded, text[:20_000], ["python"])


def test_long_pieces_among_short_ones(embedded: str) -> None:
    """Stretches without a place to cut stand in one text with many short pieces."""
    random_ = random.Random(8)
    parts = []
    for seed, make in enumerate(PIECES.values()):
        parts += [*adversarial.battery((), seed, 20), make(random_.choice(_LONG_LENGTHS[:3])), " the end "]
    assert_long(embedded, "".join(parts))


# --- offsets, truncation, counts --------------------------------------------------------


@backends
def test_offsets(embedded: str, backend: str) -> None:
    tok, judge = engine(embedded), reference(embedded)
    texts = battery(embedded, 9, 250)
    for text, right in zip(texts, judge.encode_batch(list(texts)), strict=True):
        found = tok.encode_with_offsets(text, backend=backend)
        assert found.ids.tolist() == right.ids, repr(text)
        assert list(map(tuple, found.offsets.tolist())) == right.offsets, repr(text)
        at = [0]
        for char in text:
            at.append(at[-1] + len(char.encode()))
        assert found.byte_offsets.tolist() == [[at[a], at[b]] for a, b in right.offsets], repr(text)


@backends
def test_offsets_of_special_tokens_as_text(embedded: str, backend: str) -> None:
    tok, judge = engine(embedded), as_text(embedded)
    for literal in literals(embedded)[:20]:
        text = f"e\u0301 {literal}{literal} é\n{literal}"
        right = judge.encode(text)
        found = tok.encode_with_offsets(text, special="text", backend=backend)
        assert found.ids.tolist() == right.ids
        assert list(map(tuple, found.offsets.tolist())) == right.offsets


@backends
def test_offsets_of_a_long_text(embedded: str, backend: str) -> None:
    text = long_text(embedded, 10, ("\n", " ", "e\u0301"), 12_000)
    right = reference(embedded).encode(text)
    found = engine(embedded).encode_with_offsets(text, backend=backend)
    assert found.ids.tolist() == right.ids
    assert list(map(tuple, found.offsets.tolist())) == right.offsets


@given(st.data())
def test_offsets_of_any_text(data: st.DataObject) -> None:
    name, backend = data.draw(any_embedded), data.draw(any_backend)
    text = data.draw(adversarial.texts(literals(name)))
    right = reference(name).encode(text)
    found = engine(name).encode_with_offsets(text, backend=backend)
    assert found.ids.tolist() == right.ids
    assert list(map(tuple, found.offsets.tolist())) == right.offsets


@backends
@pytest.mark.parametrize("max_length", [0, 7, 5_000])
@pytest.mark.usefixtures("small_blocks")
def test_max_length(embedded: str, backend: str, max_length: int) -> None:
    tok = engine(embedded)
    texts = [*battery(embedded, 11, 40), long_text(embedded, 11, ("\n", " "), 12_000), "a" * 5_000]
    with truncating(embedded, max_length) as judge:
        right = [e.ids for e in judge.encode_batch(texts)]
    assert [tok.encode(t, max_length=max_length, backend=backend) for t in texts] == right
    assert tok.encode_batch(texts, max_length=max_length, backend=backend) == right
    found = [tok.encode_with_offsets(t, max_length=max_length, backend=backend) for t in texts[:20]]
    assert [f.ids.tolist() for f in found] == right[:20]


@backends
def test_count(embedded: str, backend: str) -> None:
    tok, judge = engine(embedded), reference(embedded)
    texts = [*battery(embedded, 12, 60), long_text(embedded, 12, ("\n", " "), 12_000)]
    for text, encoding in zip(texts, judge.encode_batch_fast(texts), strict=True):
        total = len(encoding.ids)
        assert tok.count(text, backend=backend) == total
        for limit in {0, 1, total // 2, max(0, total - 1), total, total + 1, 10 * total}:
            assert tok.count(text, limit, backend=backend) == min(total, limit + 1), (text, limit)


@backends
def test_count_reads_only_as_far_as_needed(embedded: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tok = engine(embedded)
    seen: list[int] = []
    prepare = Tokenizer._prepare
    monkeypatch.setattr(
        Tokenizer, "_prepare", lambda self, text, *how: seen.append(len(text)) or prepare(self, text, *how)
    )
    text = "All work and no play makes Jack a dull boy.\n" * 50_000
    assert tok.count(text, 1_000, backend=backend) == 1_001
    assert sum(seen) < 20_000
    seen.clear()
    assert len(tok.encode(text, max_length=1_000, backend=backend)) == 1_000
    assert sum(seen) < 20_000


# --- the tokenizers beside the checkout ---------------------------------------------------

shared_only = pytest.mark.skipif(SHARED is None, reason=ABSENT)


def check_shared(name: str, count: int, size: int) -> None:
    """All of them run on our own backends."""
    tok = Tokenizer(artifact(name))  # not kept: all of them at once are gigabytes
    assert tok.backends == ("reference", *ENGINES), tok.explain().fallbacks
    judge = HuggingFace.from_str(artifact(name).read().decode())
    words = tuple(token.content for token in judge.get_added_tokens_decoder().values())
    texts = list(adversarial.battery(words, 13, count))
    texts += ["\U00040000 x", "a\U00045678\U00045679", "\U00040000", "\U0007ffff\u0301", "\x00", "\u2581a \u2581"]
    long = "".join(chain.from_iterable((t, "\n") for t in texts))[:size]
    pieces = [make(n) for make in PIECES.values() for n in (3, 40, 401, 4_097)]
    assert_ids(tok, judge, [*texts, long, *pieces], ENGINES)
    assert_ids(tok, judge, texts[-200:], ENGINES, add_special_tokens=True)
    for backend in ENGINES:
        for text, right in zip(texts[-100:], judge.encode_batch(texts[-100:]), strict=True):
            found = tok.encode_with_offsets(text, backend=backend)
            assert found.ids.tolist() == right.ids, repr(text)
            assert list(map(tuple, found.offsets.tolist())) == right.offsets, repr(text)
            assert tok.encode(text, backend=backend) == right.ids, repr(text)
            assert tok.count(text, backend=backend) == len(right.ids)
    judge.encode_special_tokens = True
    assert_ids(tok, judge, texts[:300], ENGINES, special="text")


#: A tokenizer of each kind; the others are left to the long run, because to derive one takes seconds.
QUICK = ("bert_uncased", "claude_old", "deepseek_llm", "llama2", "starcoder", "xlm_roberta")


@shared_only
@pytest.mark.parametrize("name", QUICK)
def test_shared_tokenizer(name: str) -> None:
    if name not in shared_tokenizer_names():
        pytest.skip(f"{name} is not in ../shared/tokenizers")
    check_shared(name, 500, 15_000)


# --- the long run -------------------------------------------------------------------------


@pytest.mark.campaign
@shared_only
@pytest.mark.parametrize("name", shared_tokenizer_names())
def test_every_shared_tokenizer(name: str) -> None:
    check_shared(name, 20_000, 400_000)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10))
def test_battery_campaign(embedded: str, seed: int) -> None:
    assert_same(embedded, list(adversarial.battery(literals(embedded), 1_000 + seed, 100_000)))


@pytest.mark.campaign
@pytest.mark.parametrize("length", [3, 4])
def test_all_short_strings(embedded: str, length: int) -> None:
    assert_same(embedded, list(adversarial.all_strings(length=length)))


@pytest.mark.campaign
@pytest.mark.parametrize("kind", PIECES)
def test_million_character_piece(embedded: str, kind: str) -> None:
    assert_long(embedded, PIECES[kind](1_000_000))


@pytest.mark.campaign
@pytest.mark.parametrize("kind", [*SEPARATORS, "literals"])
def test_many_blocks(embedded: str, kind: str) -> None:
    assert_long(embedded, long_text(embedded, 15, separators(embedded, kind), 4_000_000))


@pytest.mark.campaign
def test_all_of_the_standard_library(embedded: str) -> None:
    assert_same(embedded, list(real_files(sys.maxsize)))


# --- files that nobody publishes --------------------------------------------------------------


@pytest.mark.parametrize("unknown", ["unk_token", "byte_fallback", None])
def test_a_missing_lead_byte(unknown: str | None) -> None:
    """A byte that the vocabulary lacks is passed over only by a model that has nothing to put there."""
    document = json.loads(artifact("gpt2").read())
    model = document["model"]
    ids = {token: id for token, id in model["vocab"].items() if len(token) == 1 and token != "ð"}
    ids |= {"<unk>": 60_000} | {f"<0x{byte:02X}>": 61_000 + byte for byte in range(256)}
    model |= {"vocab": ids, "merges": []}
    if unknown is not None:
        model[unknown] = True if unknown == "byte_fallback" else "<unk>"
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    for text in ("\U0001f600", "a\U0001f600\U0001f600b é"):
        for backend in tok.backends:
            assert tok.encode(text, backend=backend) == tok.reference().encode(text).ids


@pytest.mark.parametrize(
    "normalizer",
    [
        {"type": "Prepend", "prepend": ""},
        {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"},
        {"type": "Replace", "pattern": {"Regex": r"\b"}, "content": "_"},
        {"type": "Replace", "pattern": {"Regex": "$"}, "content": "_"},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "_"},
    ],
)
def test_normalizers_that_insert(normalizer: dict[str, str]) -> None:
    """Where a normalizer matches the empty string, the reference's ``encode`` has ways of its own."""
    gpt2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    document = small.document(normalizer=normalizer, pre_tokenizer=gpt2)
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    assert ("numpy" in tok.backends) == (normalizer.get("pattern") == {"Regex": "a+"})
    for text in ("a", "\n", "a b", "xx y", "aab a"):
        try:
            right = tok.reference().encode(text).ids
        except BaseException as problem:  # a panic, which is no Exception
            assert type(problem).__name__ == "PanicException"
            with pytest.raises(ReferenceFailedError):
                tok.encode(text)
            continue
        for backend in tok.backends:
            assert tok.encode(text, backend=backend) == right


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d["model"]["vocab"].update({"zzz": 5000.0}),
        lambda d: d["model"]["vocab"].update({"zzz": None}),
        lambda d: d["model"].update({"merges": None}),
        lambda d: d.update({"padding": {"strategy": {"Fixed": 3}, "pad_id": -1}}),
        lambda d: d.update({"version": "2.0"}),
        lambda d: d.update({"something": 1}),
        lambda d: d.update({"truncation": {"max_length": 3}}),
        lambda d: d["model"].update({"fuse_unk": "yes"}),
        lambda d: d["added_tokens"][0].pop("special"),
        lambda d: d["pre_tokenizer"].pop("add_prefix_space"),
    ],
)
def test_damaged_parts_are_named(damage: Callable[[dict[str, Any]], None]) -> None:
    """The reference refuses these files, too."""
    document = small.document(added_tokens=[small.added("<x>", len(small.vocabulary()), "special")])
    HuggingFace.from_str(json.dumps(document))
    damage(document)
    data = json.dumps(document)
    with pytest.raises(ArtifactError, match="made"):
        Tokenizer(Artifact.from_bytes(data.encode(), "made"))
    with pytest.raises(Exception):  # noqa: B017  (it raises no narrower one)
        HuggingFace.from_str(data)


def test_a_set_that_the_engine_does_not_know() -> None:
    document = small.document()
    split = {"type": "Split", "pattern": {"Regex": r"\p{Foo}"}, "behavior": "Isolated", "invert": False}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, document["pre_tokenizer"]]}
    with pytest.raises(ArtifactError, match="refused by the installed tokenizers"):
        Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
