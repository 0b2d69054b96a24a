"""Certified cuts of whole tokenizers: what they promise holds, says the reference; and refusals have reasons."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import small
from certified import Judge, assert_sound, both_cuts, judge, judge_of, texts_for
from conftest import reference, tokenizers
from judge import engine

import toktier.tokenizer
from toktier.artifact import Artifact
from toktier.tokenizer import Tokenizer

#: Those that are not embedded and differ most from them; the others are in the campaign.
OTHERS = ("llama2", "bert_uncased", "deepseek_llm")


def assert_name_sound(name: str, seed: int, count: int) -> tuple[int, int]:
    """Also with special tokens taken for text, where the ends of added tokens are no cuts."""
    tok, by = engine(name), judge(name)
    texts = texts_for(by.words, seed, count)
    found = assert_sound(by, texts, both_cuts(tok))
    by.whole.encode_special_tokens = by.continuing.encode_special_tokens = True
    try:
        assert_sound(by, texts, lambda text, closes: tok._cuts.all(text, closes).tolist(), most=4)
    finally:
        by.whole.encode_special_tokens = by.continuing.encode_special_tokens = False
    return found


def test_embedded(embedded: str) -> None:
    restarts, closes = assert_name_sound(embedded, 1, 240)
    assert restarts > closes > 400


@pytest.mark.parametrize("name", tokenizers(*OTHERS))
def test_others(name: str) -> None:
    _, closes = assert_name_sound(name, 2, 200)
    assert closes > 400


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
@pytest.mark.parametrize("seed", range(2))
def test_all_tokenizers(name: str, seed: int) -> None:
    _, closes = assert_name_sound(name, 100 + seed, 10_000)
    assert closes > 10_000


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
def test_who_is_certified(name: str) -> None:
    assert engine(name)._cuts.refusal is None


# --- added tokens and normalizers made for it ---------------------------------------------------

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
NFC = {"type": "NFC"}
BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def in_a_row(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


NORMALIZERS: list[dict[str, Any] | None] = [
    None,
    NFC,
    {"type": "NFD"},
    {"type": "NFKC"},
    {"type": "NFKD"},
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    BERT,
    BERT | {"strip_accents": True, "lowercase": False, "handle_chinese_chars": False},
    replaced({"String": " "}, "\u2581"),
    replaced({"String": "ab"}, "x"),
    replaced({"String": "'"}, ""),
    replaced({"Regex": " {2,}"}, " "),
    replaced({"Regex": r"\s+"}, " "),
    {"type": "Prepend", "prepend": "x"},
    {"type": "Prepend", "prepend": " "},
    in_a_row({"type": "Prepend", "prepend": "\u2581"}, replaced({"String": " "}, "\u2581")),
    in_a_row(NFC, {"type": "Lowercase"}),
    in_a_row({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
    in_a_row(replaced({"Regex": "[.!]"}, " "), NFC, {"type": "Strip", "strip_left": True, "strip_right": False}),
]


def _split(pattern: str, behavior: str, invert: bool = False) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def _then(*stages: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(stages)}


BYTES = GPT2 | {"use_regex": False}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}

#: For models over bytes.
BYTE_STAGES: list[dict[str, Any]] = [
    GPT2,
    _then({"type": "Digits", "individual_digits": True}, GPT2),
    _then({"type": "Digits", "individual_digits": False}, {"type": "Punctuation", "behavior": "Isolated"}, BYTES),
    *(
        _then(_split(r"[a-z']+", behavior, invert), BYTES)
        for behavior in ("Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext")
        for invert in (False, True)
    ),
    _then(_split(r"\s+", "Removed"), BYTES),
    _then(_split(r"\s+(?!\S)| ?\p{L}+", "Isolated"), _split("[ab]{1,2}", "MergedWithPrevious"), BYTES),
]
#: For models over characters.
TEXT_STAGES: list[dict[str, Any]] = [
    {"type": "BertPreTokenizer"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "CharDelimiterSplit", "delimiter": "_"},
    _then({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"}),
    METASPACE,
    METASPACE | {"prepend_scheme": "never"},
    METASPACE | {"prepend_scheme": "first"},
    _then({"type": "WhitespaceSplit"}, METASPACE),
]

_WORDS = [
    *"abcdehilnstxyzABI0123'._!<>| ?\u2581é中国",
    "ab",
    "the",
    "it",
    "\u2581a",
    "\u2581the",
    "##b",
    "##s",
    "x y",
]
MODELS: list[dict[str, Any]] = [
    {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 8,
        "vocab": {token: id for id, token in enumerate(["[UNK]", *_WORDS])},
    },
    {
        "type": "WordLevel",
        "unk_token": "[UNK]",
        "vocab": {token: id for id, token in enumerate(["[UNK]", *_WORDS])},
    },
    {
        "type": "Unigram",
        "unk_id": 0,
        "byte_fallback": False,
        "vocab": [["[UNK]", 0.0], *([token, -1.0 - len(token) % 3] for token in _WORDS)],
    },
]

#: Contents that lie across, touch and contain each other, with every kind of neighbour.
CONTENTS = (
    "<x>",
    "<x><",
    "a b",
    " b",
    "b\n",
    "a\n\nb",
    "\n",
    "é !",
    "e\u0301",
    "\u0301",
    ". ",
    "1 1",
    "a",
    "AB",
    "ﬁ",
)
FLAGS = (
    (),
    (),
    (),
    ("special",),
    ("lstrip",),
    ("rstrip",),
    ("lstrip", "rstrip"),
    ("single_word",),
    ("normalized",),
)


def tokens_of(random_: random.Random, first: int) -> list[dict[str, Any]]:
    contents = random_.sample(CONTENTS, random_.randrange(4))
    tokens = []
    for i, content in enumerate(contents):
        flags = {flag for _ in range(2) for flag in random_.choice(FLAGS)}
        tokens.append(small.added(content, first + i, *flags))
    return tokens


def tokenizer_of(document: dict[str, Any]) -> tuple[Tokenizer, Judge]:
    made = Artifact.from_bytes(json.dumps(document).encode(), "made")
    return Tokenizer(made), judge_of(made)


def random_document(random_: random.Random) -> dict[str, Any]:
    normalizer = random_.choice(NORMALIZERS)
    if random_.random() < 0.6:
        tokens = tokens_of(random_, len(small.vocabulary()))
        stages = random_.choice(BYTE_STAGES)
        return small.document(pre_tokenizer=stages, normalizer=normalizer, added_tokens=tokens)
    model = random_.choice(MODELS)
    return small.document(
        pre_tokenizer=random_.choice(TEXT_STAGES),
        normalizer=normalizer,
        added_tokens=tokens_of(random_, len(model["vocab"])),
        model=model,
        decoder=None,
    )


@pytest.mark.parametrize(("second", "text"), [("'sa", "x'sab y"), ("x<ab>y", "1x<ab>y 1")])
def test_tokens_of_the_second_round_give_way(second: str, text: str) -> None:
    """What is not normalized is found first, even if it begins later or lies inside."""
    tokens = [
        small.added(second, 264, "normalized"),
        small.added("ab", 265),
        small.added("<end>", 266, "normalized"),
    ]
    tok, by = tokenizer_of(small.document(pre_tokenizer=GPT2, added_tokens=tokens))
    assert_sound(by, [text, f"{text}<end>ab<end>1"], both_cuts(tok))
    assert tok._cuts_and_ends._ends == {"<end>"}


def assert_made_sound(document: dict[str, Any], seed: int) -> int:
    """How many cuts were tried; with the document in the message if one is wrong."""
    try:
        tok, by = tokenizer_of(document)
        texts = texts_for([*by.words, *by.words, "x", "<x", ">"], seed, 60)
        found, _ = assert_sound(by, texts, both_cuts(tok))
        by.whole.encode_special_tokens = by.continuing.encode_special_tokens = True
        assert_sound(by, texts, lambda text, closes: tok._cuts.all(text, closes).tolist(), most=4)
    except AssertionError as problem:
        model = document["model"]["type"]
        shown = {name: document[name] for name in ("normalizer", "pre_tokenizer", "added_tokens")}
        raise AssertionError(f"{model} {json.dumps(shown)}: {problem}") from None
    return found


@pytest.mark.parametrize("seed", range(16))
def test_made_tokenizers(seed: int) -> None:
    assert_made_sound(random_document(random.Random(seed)), seed)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_very_many_made_tokenizers(seed: int) -> None:
    assert_made_sound(random_document(random.Random(seed)), seed)


@pytest.mark.parametrize(
    ("normalizer", "fewest"),
    [(None, 100), (NFC, 100), ({"type": "Prepend", "prepend": "x"}, 100)],
    ids=str,
)
@pytest.mark.parametrize(
    "tokens",
    [
        [small.added("<x>", 0, "special")],
        [small.added("a b", 0), small.added(" b", 0, "special"), small.added("b\n", 0)],
        [small.added("é !", 0, "normalized"), small.added("x", 0, "normalized")],
        [small.added("<x>", 0, "lstrip", "rstrip"), small.added("a", 0, "lstrip", "normalized")],
        [small.added("it", 0, "single_word")],
    ],
    ids=lambda tokens: "+".join(token["content"] for token in tokens),
)
def test_added_tokens_leave_cuts(tokens: list[dict[str, Any]], normalizer: dict[str, Any], fewest: int) -> None:
    first = len(small.vocabulary())
    numbered = [token | {"id": first + i} for i, token in enumerate(tokens)]
    document = small.document(pre_tokenizer=GPT2, normalizer=normalizer, added_tokens=numbered)
    assert assert_made_sound(document, 3) > fewest


def test_a_token_ends_with_a_character_that_is_not_cut_at() -> None:
    """The white space that it absorbs is followed by a text of its own all the same, with a prefix."""
    steps = [
        BERT,
        {"type": "Prepend", "prepend": "a"},
    ]
    document = small.document(
        normalizer={"type": "Sequence", "normalizers": steps},
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, small.document()["decoder"]],
        },
        added_tokens=[small.added("\ufb01", len(small.vocabulary()), "rstrip")],
    )
    tok, judge = tokenizer_of(document)[0], small.build(document)
    for before, behind in (("ba \t\tb", "ba \ufb01\t\tb"), (" b  \t b", " b\ufb01  \t b")):
        session = tok.session(before)
        session.update(behind)
        assert session.ids.tolist() == judge.encode(behind).ids


def test_a_token_is_never_cut() -> None:
    """Text that is nothing but tokens: a cut may only stand between two of them."""
    first = len(small.vocabulary())
    contents = ["a b", "<|x|>", " \n ", "<|x|>", "a b"] * 20
    tokens = [small.added(content, first + i) for i, content in enumerate(dict.fromkeys(contents))]
    tok, by = tokenizer_of(small.document(pre_tokenizer=GPT2, added_tokens=tokens))
    text = "".join(contents)
    ends = set(np.cumsum([len(part) for part in contents]).tolist())
    found = tok.cuts(text).tolist()
    assert found and set(found) <= ends
    assert_sound(by, [text], both_cuts(tok), most=200)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"pre_tokenizer": None}, "no token for some bytes"),
        (
            {"pre_tokenizer": _then(_split("1", "Isolated"), GPT2 | {"add_prefix_space": True})},
            "ByteLevel adds a space before each piece",
        ),
        ({"pre_tokenizer": _then(_split(r"(a)\1", "Isolated"), BYTES)}, r"\1"),
        ({"pre_tokenizer": {"type": "UnicodeScripts"}}, "the pre-tokenizer UnicodeScripts runs on the reference"),
        ({"normalizer": {"type": "Nmt"}}, "the normalizer Nmt"),
        # an engine of our own all the same, which must put the prefix before a long text that is one part
        (
            {"pre_tokenizer": BYTES, "normalizer": {"type": "Prepend", "prepend": "x"}},
            "the model has no token for some bytes",
        ),
        ({"model": small.document()["model"] | {"dropout": 0.1}}, "drops merges at random (dropout)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(parts: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toktier.tokenizer, "_PART", 1_000)
    tok, by = tokenizer_of(small.document(**({"pre_tokenizer": GPT2} | parts)))
    text = "Word words word 1 word.\n" * 200
    assert tok._cuts.refusal is not None and reason in tok._cuts.refusal
    assert reason in tok.explain().certificate
    assert len(tok.cuts(text)) == 0
    assert tok._cuts.last(text, 0, len(text)) is tok._cuts.first(text, 0, len(text)) is None
    stream = tok.stream_encoder()
    assert len(stream.feed(text)) == 0
    if not tok._compiled.pipeline.model or "dropout" not in reason:
        expected = by.whole.encode(text).ids
        assert tok.encode(text, threads=2) == expected
        assert stream.flush().tolist() == expected
        assert tok.count(text, 10) == 11


# --- in parts, on several threads -------------------------------------------------------------------


def real_text(seed: int, size: int) -> str:
    """Words, code, numbers and line breaks, with a rare character here and there."""
    random_ = random.Random(seed)
    words = ["the", "of", "and", "it's", "I'll", "def", "return", "x=1", "3.14159", "naïve", "Straße", "你好世界"]
    words += ["مرحبا", "привет", "한국어", "e\u0301", "\U0001f600"]
    parts: list[str] = []
    while len(parts) < size:
        parts += (random_.choice(words), random_.choice([" ", " ", " ", ", ", ".\n", "\n\n", "  ", "\t", "-"]))
    return "".join(parts)


def assert_parts(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are cut into many parts, with the artifact's own truncation and padding."""
    monkeypatch.setattr(toktier.tokenizer, "_PART", 700)
    tok, by = engine(name), judge(name)
    texts = ["".join(pair) for pair in pairwise(texts_for(by.words, 9, 60))]
    adversarial = "".join(texts)
    for text in (adversarial[:20_000], real_text(1, size), "x" * 5_000, " \n" * 2_000):
        expected = reference(name).encode(text).ids
        assert tok.encode(text, threads=2) == expected
        assert tok.encode(text, threads=1) == expected
        bare = by.whole.encode(text, add_special_tokens=False).ids
        for block in (1, 100):
            assert tok.count(text, block) == min(len(expected), block + 1)
        if tok._post.truncation is None and tok._post.padding is None:
            assert tok.encode(text, False, threads=2) == bare
        short = tok.encode(text, max_length=50, threads=2)
        tok_short = judge(name).whole
        tok_short.enable_truncation(50)
        try:
            assert short == tok_short.encode(text).ids or tok._post.padding is not None
        finally:
            tok_short.no_truncation()


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", *OTHERS))
def test_parts_on_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_parts(name, 3_000, monkeypatch)


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
def test_parts_on_threads_of_every_tokenizer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_parts(name, 20_000, monkeypatch)


@pytest.mark.parametrize("name", tokenizers("gpt2", "llama2", "bert_uncased"))
def test_parts_are_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one text by luck: there are edges about every ``_PART`` characters."""
    monkeypatch.setattr(toktier.tokenizer, "_PART", 700)
    text = real_text(2, 3_000)
    edges = engine(name)._cuts.parts(text, toktier.tokenizer._PART)
    assert len(edges) > len(text) / 1_000
    assert edges[0] == 0 and edges[-1] == len(text) and edges == sorted(set(edges))
