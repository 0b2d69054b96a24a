"""Pieces that are left out, cut inside characters, or marked where they end: engines against the reference."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import small
from tokenizers import Tokenizer as HuggingFace

from toktier.artifact import Artifact
from toktier.tokenizer import Tokenizer

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = {**BYTE_LEVEL, "use_regex": True}
DIGITS = {"type": "Digits", "individual_digits": False}
CLIP = r"'s|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def split(source: str, behavior: str, invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": source}, "behavior": behavior, "invert": invert}


def ending_model(suffix: str = "</w>", **options: Any) -> dict[str, Any]:
    """BPE over bytes that marks the end of words."""
    vocabulary = small.vocabulary()
    merges = [list(pair) for pair in small.MERGES]
    for char in small.CHAR_OF.values():
        vocabulary.setdefault(char + suffix, len(vocabulary))
    for left, right in (("a", "b"), ("b", "a"), ("ab", "a"), ("ab", "b"), ("\u00e2", "\u0122"), ("ba", "ab")):
        if right + suffix in vocabulary and left in vocabulary:
            merges.insert(2 * len(left), [left, right + suffix])
            vocabulary.setdefault(left + right + suffix, len(vocabulary))
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "end_of_word_suffix": suffix}
    return model | {"unk_token": "a"} | options


def character_model(suffix: str, **options: Any) -> dict[str, Any]:
    """BPE over a few characters, with an unknown token for all others."""
    tokens = ["<unk>", *"ab1,", "\u00e9", "\u2581", "ab", "\u2581a", "aba"]
    tokens += [char + suffix for char in "ab1"] + ["ab" + suffix, "<unk>a", "b<unk>"]
    vocabulary = {token: id for id, token in enumerate(dict.fromkeys(tokens))}
    merges = [["<unk>", "a"], ["b", "<unk>"], ["a", "b" + suffix], ["a", "b"], ["ab", "a"], ["\u2581", "a"]]
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "unk_token": "<unk>"}
    return model | {"end_of_word_suffix": suffix} | options


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "removed gaps": ([split(CLIP, "Removed", True), GPT2], {}),
    "removed matches": ([split("[0-9]|a+", "Removed"), GPT2], {}),
    "white space": ([{"type": "WhitespaceSplit"}, BYTE_LEVEL], {}),
    "words": ([{"type": "BertPreTokenizer"}, BYTE_LEVEL], {"normalizer": {"type": "NFC"}}),
    "digits of bytes": ([GPT2, DIGITS], {}),
    "Falcon's": (
        [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2, DIGITS, split("[0-9][0-9][0-9]", "Isolated")],
        {},
    ),
    "bytes alone": ([BYTE_LEVEL, split(r"(?<=\u00c3)[\u00a1-\u00ff]|a\u0120", "MergedWithNext")], {}),
    "both": ([{"type": "WhitespaceSplit"}, BYTE_LEVEL, {**DIGITS, "individual_digits": True}], {}),
    "CLIP's": (
        [split(CLIP, "Removed", True), GPT2],
        {
            "model": ending_model(),
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "NFC"},
                    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
                    {"type": "Lowercase"},
                ],
            },
        },
    ),
    "ends": ([GPT2], {"model": ending_model("a")}),
    "GPT-1's": (
        [{"type": "BertPreTokenizer"}],
        {"model": character_model("</w>"), "normalizer": {"type": "Lowercase"}, "decoder": None},
    ),
    "unknown in a row": (
        [{"type": "Whitespace"}],
        {"model": character_model("</w>", fuse_unk=True), "decoder": None},
    ),
    "unknown in words": (
        [{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}],
        {"model": character_model("", fuse_unk=True), "decoder": None},
    ),
    "ends of what is left": ([{"type": "WhitespaceSplit"}, BYTE_LEVEL], {"model": ending_model()}),
}


EACH = [
    case if case in ("Falcon's", "CLIP's", "unknown in a row") else pytest.param(case, marks=pytest.mark.campaign)
    for case in CASES
]


@cache
def both(case: str) -> tuple[Tokenizer, HuggingFace]:
    parts, others = CASES[case]
    added = [small.added("<a>", 900, "special"), small.added("a,", 901, "normalized")]
    sequence = {"type": "Sequence", "pretokenizers": parts}
    made = small.document(pre_tokenizer=sequence, added_tokens=added, **others)
    return Tokenizer(Artifact.from_bytes(json.dumps(made).encode(), "made")), small.build(made)


def texts(seed: int, count: int) -> list[str]:
    random_ = random.Random(seed)
    alphabet = [
        *"aabbAB1,  \n",
        "<a>",
        "a,",
        "</w>",
        "12345",
        "\u00fc",
        "\u00e9",
        "e\u0301",
        "\u00bc",
        "\u4e2d",
        "\u3000",
    ]
    return [
        "",
        " ",
        "\u00fc",
        *("".join(random_.choices(alphabet, k=random_.randint(1, 14))) for _ in range(count)),
    ]


@pytest.mark.parametrize("case", EACH)
def test_ids_and_offsets(case: str) -> None:
    tok, judge = both(case)
    some = texts(1, 120)
    some += ["".join(some), "ab" * 1200 + "\u00fc", "\u00e9" * 900, "1" * 1001 + "a"]
    right = [encoding.ids for encoding in judge.encode_batch(some)]
    for backend in ("python", "numpy"):
        assert [tok.encode(text, backend=backend) for text in some] == right
        assert tok.encode_batch(some, backend=backend) == right
    assert [tok.count(text, limit=3) for text in some] == [min(4, len(ids)) for ids in right]
    for text in some[:20]:
        found = tok.encode_with_offsets(text)
        assert [tuple(span) for span in found.offsets.tolist()] == judge.encode(text).offsets
        normal, pieces = tok.pieces(text)
        assert [id for piece in pieces for id in piece.ids] == judge.encode(text).ids
        assert "".join(piece.text for piece in pieces) == normal


def test_a_stage_that_cuts_nothing_is_left_out() -> None:
    for case, stages in (("CLIP's", 1), ("Falcon's", 2)):
        engine = both(case)[0]._compiled.engine
        assert engine is not None and len(engine.split.splitter.stages) == stages


@pytest.mark.parametrize("case", ["CLIP's", "Falcon's", "unknown in a row"])
def test_the_device_leaves_them_to_the_host(case: str) -> None:
    pytest.importorskip("jax")
    tok, judge = both(case)
    some = texts(5, 10)
    assert tok.encode_batch(some, backend="jax") == [encoding.ids for encoding in judge.encode_batch(some)]
    assert tok._jax().reasons.total() > 0


@pytest.mark.parametrize("case", EACH)
def test_cuts_and_sessions(case: str) -> None:
    tok, judge = both(case)
    random_ = random.Random(2)
    session, text = tok.session(), ""
    for new in texts(3, 40):
        start = random_.randint(0, len(text))
        stop = min(len(text), start + random_.choice((0, 0, 1, 5)))
        text = text[:start] + new + text[stop:]
        session.edit(start, stop, new)
        np.testing.assert_array_equal(session.ids, judge.encode(text).ids)
    for cut in tok.cuts(text, closes=True).tolist():
        assert judge.encode(text[:cut]).ids + judge.encode(text[cut:]).ids == judge.encode(text).ids


@pytest.mark.parametrize(
    ("case", "change", "reason"),
    [
        ("ends", {"ignore_merges": True}, "ignore_merges"),
        ("ends", {"continuing_subword_prefix": "##", "merges": []}, "continuing_subword_prefix"),
        ("ends", {"vocab": small.vocabulary(), "merges": [], "unk_token": None}, "bytes that end a word"),
        ("GPT-1's", {"unk_token": None}, "no token for some bytes"),
        ("unknown in a row", {"unk_token": "a"}, "that of a character"),
        ("digits of bytes", {"ignore_merges": True}, "follows ByteLevel"),
    ],
)
def test_what_is_left_to_the_reference(case: str, change: dict[str, Any], reason: str) -> None:
    parts, others = CASES[case]
    made = small.document(pre_tokenizer={"type": "Sequence", "pretokenizers": parts}, **others)
    made["model"] = made["model"] | change
    tok = Tokenizer(Artifact.from_bytes(json.dumps(made).encode(), "made"))
    assert reason in str(tok._unsupported)
    assert tok.encode("ab 12") == small.build(made).encode("ab 12").ids
