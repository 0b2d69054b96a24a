"""Unigram against the reference."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import small
from conftest import tokenizers
from judge import assert_words, engine
from tokenizers import Tokenizer as HuggingFace

import toktier
from toktier.added_tokens import white_space
from toktier.artifact import Artifact
from toktier.errors import ReferenceFailedError
from toktier.word_marks import WordMark

ENGINES = ("python", "numpy")
WORDS = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    ],
}
MARKS = WORDS["pretokenizers"][1]
SPACES = {"type": "WhitespaceSplit"}
#: Many ways are equally good, or nearly so.
ENTRIES = {
    "<unk>": 0.0,
    "\u2581": -2.0,
    "a": -1.5,
    "b": -1.7,
    "aa": -3.0,
    "ab": -3.2,
    "ba": -3.1999999999999997,
    "aab": -4.7,
    "aba": -4.9,
    "\u2581a": -3.1,
    "\u2581aabb": -20.0,  # its parts count more
    "bbbb": -6.8,
    "é": -5.123456789012345,
    "中文": -4.0,
    "zx": -30.5,
    "a" * 20: -29.0,
}


def tokenizer(
    entries: dict[str, float] | list[Any] = ENTRIES, **options: Any
) -> tuple[toktier.Tokenizer, HuggingFace]:
    """A model with these options; ``pre`` is the pre-tokenizer, ``added`` are the added tokens."""
    pre, added = options.pop("pre", WORDS), options.pop("added", [])
    vocabulary = [*map(list, entries.items())] if isinstance(entries, dict) else entries
    model = {"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False} | options
    content = json.dumps(small.document(pre_tokenizer=pre, decoder=None, model=model, added_tokens=added))
    return toktier.Tokenizer(Artifact.from_bytes(content.encode(), "unigram")), HuggingFace.from_str(content)


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    parts = [
        "a",
        "aa",
        "b",
        "ab",
        "é",
        "z",
        "x",
        "中文",
        "文",
        "\u2581",
        " ",
        " ",
        "\n",
        "<unk>",
        "😂",
        "\x1c",
        "\x85",
        "a" * 90,
    ]
    return ["".join(draw.choices(parts, k=draw.choice((1, 2, 3, 5, 8, 40)))) for _ in range(count)]


BYTES = {f"<0x{byte:02X}>": -9.0 for byte in range(256)}
VARIANTS: dict[str, tuple[dict[str, float] | list[Any], dict[str, Any]]] = {
    "words": (ENTRIES, {}),
    "marks": (ENTRIES, {"pre": MARKS}),
    "no marks": (ENTRIES, {"pre": SPACES}),
    "bytes": (ENTRIES | BYTES, {"byte_fallback": True}),
    "some bytes": (ENTRIES | {e: s for e, s in BYTES.items() if e < "<0xC8"}, {"byte_fallback": True}),
    "another unknown token": (ENTRIES, {"unk_id": 3}),
    "high scores": ({entry: score + 40 for entry, score in ENTRIES.items()}, {}),
    "an entry twice": ([["<unk>", 0.0], ["a", -9.0], ["b", -2.0], ["ab", -5.0], ["a", -1.0], ["", 5.0]], {}),
    "decimals of many digits": (
        {"<unk>": 0.0} | {e: s - 0.47157764434814455 for e, s in ENTRIES.items() if s},
        {},
    ),
}
VARIANTS["an entry twice, and added tokens"] = (
    VARIANTS["an entry twice"][0],
    {"added": [small.added("<unk>", 0, "special"), small.added("x", 9), small.added("a", 9, "special")]},
)


@pytest.mark.parametrize("kind", VARIANTS)
def test_pieces(kind: str) -> None:
    entries, options = VARIANTS[kind]
    tok, judge = tokenizer(entries, **options)
    assert tok.backends == ("reference", *ENGINES)
    some = texts(80, 1)
    assert_words(tok, judge, some)
    for text in some[:20]:
        found = judge.encode(text)
        assert tok.encode_with_offsets(text).offsets.tolist() == [list(span) for span in found.offsets]
        assert tok.decode(found.ids) == judge.decode(found.ids)
        session = tok.session(text[:5])
        session.append(text[5:])
        assert session.ids.tolist() == judge.encode(text, add_special_tokens=False).ids
    assert tok.decode([*range(len(entries))]) == judge.decode([*range(len(entries))])


@pytest.mark.parametrize("size", [200, 201, 500, 512, 513, 3_000])
def test_long_pieces(size: int) -> None:
    tok, judge = tokenizer(ENTRIES | BYTES, byte_fallback=True)
    draw = random.Random(size)
    for letters in ("ab", "abé中文zx😂", "z"):
        text = "".join(draw.choices(letters, k=size))
        for backend in ENGINES:
            assert tok.encode(text, backend=backend) == judge.encode(text).ids


def test_a_long_piece_by_itself_takes_no_step_for_each_entry() -> None:
    """A line of 2,000 times ``=`` has 30,000 entries of XLM-RoBERTa's vocabulary."""
    tok, judge = tokenizer()
    for text, stepwise in (("ab" * 250, False), ("ab" * 50, True)):
        assert tok.encode(text, backend="python") == judge.encode(text).ids
        assert bool(tok._pieces._edges) == stepwise  # the pairs that were asked for one by one


def test_parts_of_pieces() -> None:
    """What is rounded decides which way is best, and unknown characters fuse where pieces are cut."""
    entries = {"<unk>": 0.0, "\u2581": -2.3, "aa": -2.7182818, "a": -3.1415926}
    entries |= {letter: -5.0 - 1 / (3 + number) for number, letter in enumerate("bcdefgh")}
    draw = random.Random(4)
    words = ["".join(draw.choices("bcdefgh", k=draw.randint(1, 30))) + "aaa" for _ in range(300)]
    unknown = [
        "".join(draw.choices("bcxyz", k=draw.randint(1, 30))) + ">x<unk>"[: draw.choice((0, 2, 7))]
        for _ in range(300)
    ]
    for options in ({}, {"byte_fallback": True}):
        tok, judge = tokenizer(entries | (BYTES if options else {}), **options)
        for some in (words, unknown, words + unknown):
            assert tok.encode(" ".join(some), backend="numpy") == judge.encode(" ".join(some)).ids
    ways = {tuple(judge.encode(word).tokens[-2:]) for word in words}
    assert ways == {("a", "aa"), ("aa", "a")}


def test_left_to_the_reference() -> None:
    for options, why in (
        ({"pre": None}, "one piece"),
        (
            {"pre": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": False}},
            "one piece",
        ),
        ({"entries": ENTRIES | {"b": -1e200}}, "infinite"),
    ):
        tok, judge = tokenizer(**options)
        assert tok.backends == ("reference",) and why in str(tok.explain())
        assert tok.encode("a aa bé") == judge.encode("a aa bé").ids


def test_without_an_unknown_token() -> None:
    tok, judge = tokenizer(unk_id=None)
    assert tok.backends == ("reference",) and "unknown token" in str(tok.explain())
    assert tok.encode("a b") == judge.encode("a b").ids
    with pytest.raises(ReferenceFailedError):
        tok.encode("a z")


def test_words_are_what_stands_between_white_space() -> None:
    """Python takes four separators for white space that the reference does not."""
    put = WordMark("_", "word", for_spaces=True).put
    many, right_of_many = "", ""
    for code in range(0x11000):
        char = chr(code)
        if 0xD800 <= code < 0xE000:
            continue
        right = "_a_b" if char in white_space() else f"_a{char}b"
        assert put([f"a{char}b"], False) == [right], hex(code)
        many += f" \n _a{char}b"
        right_of_many += right
    assert put([many], False) == [right_of_many]
    assert put([" a  _b c_d ", "", " "], True) == ["_a_b_c_d", "", ""]


@pytest.mark.parametrize("name", tokenizers("xlm_roberta"))
def test_pieces_of_a_real_vocabulary(name: str) -> None:
    tok = engine(name)
    judge, draw = tok.reference(), random.Random(3)
    entries = sorted(judge.get_vocab())
    words = ["".join(draw.choices(entries, k=draw.randint(1, 4))).replace("\u2581", "") for _ in range(3_000)]
    text = " ".join(words)
    right = judge.encode(text).ids
    for backend in ENGINES:
        assert tok.encode(text, backend=backend) == right
    for word in words[:300]:
        assert tok.encode(word) == judge.encode(word).ids
