"""Added tokens and normalizer together, against the reference."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from conftest import parsed, tokenizers
from conftest import reference as reference_of
from test_added_tokens import BYTES, reference
from tokenizers import Tokenizer

from toktier.added_tokens import as_loaded, is_ambiguous
from toktier.front import Front
from toktier.pipeline import AddedToken, parse
from toktier.records import replace

SPACE_TO_BAR = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
NORMALIZERS: list[dict[str, Any] | None] = [
    None,
    {"type": "NFC"},
    {"type": "NFKC"},
    {"type": "NFD"},
    {"type": "NFKD"},
    {"type": "Sequence", "normalizers": []},
    SPACE_TO_BAR,
    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, SPACE_TO_BAR]},
    {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}, {"type": "NFD"}]},
    {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"},
    {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
]
ATOMS = [
    *(
        "a",
        "b",
        "A",
        "_",
        "0",
        "00",
        "ab",
        "abc",
        "bc",
        "<",
        "<|",
        "|>",
        "<X>",
        "<x>",
        "<|a|>",
        "\u2581",
        "\x00",
    ),
    *(" ", "  ", "\n", "\t", "\x85", "\u00a0", "\u3000", "\u2028", "\u200b", "\u180e", "\ufeff"),
    *(
        "\u0301",
        "\u0323",
        "\u200d",
        "\u2162",
        "\u00b2",
        "e\u0301",
        "\u1106",
        "\u1161",
        "\u11af",
        "\u212b",
        "\u0344",
    ),
    *("中", "🙂", "\ufdd1", "\ufdd0"),
]


def front(tokens: list[AddedToken], normalizer: dict[str, Any] | None) -> tuple[Front, Tokenizer]:
    """A front and the reference, with a model in which each byte is an id."""
    engine = reference(tokens, normalizer)
    pipeline = parse(json.loads(engine.to_str()))
    return Front(replace(pipeline, added_tokens=as_loaded(tokens, BYTES))), engine


def spelled(subject: Front, text: str, *, skip_special: bool = False) -> list[int]:
    """What the front makes of ``text``, added tokens as their ids and all else as bytes."""
    prepared = subject.prepare(text, skip_special=skip_special)
    assert prepared.unchanged == (prepared.text is text)
    ids: list[int] = []
    end = 0
    spans = zip(prepared.starts.tolist(), prepared.stops.tolist(), prepared.ids.tolist(), strict=True)
    for start, stop, token in spans:
        assert end <= start < stop <= len(prepared.text)
        ids += [*prepared.text[end:start].encode(), token]
        end = stop
    return ids + list(prepared.text[end:].encode())


def check(subject: Front, engine: Tokenizer, text: str) -> None:
    for skip in (False, True):
        engine.encode_special_tokens = skip
        assert spelled(subject, text, skip_special=skip) == engine.encode(text).ids, (text, skip)
    engine.encode_special_tokens = False


def try_tokens_and_texts(normalizer: dict[str, Any] | None, count: int, texts: int) -> None:
    """``count`` sets of added tokens at random, and some ``texts`` made of them for each."""
    rng = random.Random(json.dumps(normalizer))
    for _ in range(count):
        share = rng.choice((0.25, 0.5))
        tokens = [
            AddedToken(
                0, "".join(rng.choices(ATOMS, k=rng.randint(1, 3))), *(rng.random() < share for _ in range(5))
            )
            for _ in range(rng.randint(1, 8))
        ]
        subject, engine = front(tokens, normalizer)
        pool = ATOMS + [token.content for token in tokens] * 3
        for _ in range(0 if subject.unsupported or is_ambiguous(tokens) else texts):
            check(subject, engine, "".join(rng.choices(pool, k=rng.randint(0, 14))))


@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: json.dumps(n)[:50])
def test_random_tokens_and_texts(normalizer: dict[str, Any] | None) -> None:
    try_tokens_and_texts(normalizer, 100, 10)


@pytest.mark.campaign
@pytest.mark.parametrize("normalizer", NORMALIZERS, ids=lambda n: json.dumps(n)[:50])
def test_many_random_tokens_and_texts(normalizer: dict[str, Any] | None) -> None:
    try_tokens_and_texts(normalizer, 3000, 30)


def test_segments_are_normalized_apart() -> None:
    subject, engine = front([AddedToken(0, "<X>")], {"type": "NFC"})
    for text in ("e<X>\u0301", "e\u0301<X>e\u0301", "<X>\u0301<X>\u1100<X>\u1161", "\u1100\u1161<X>"):
        check(subject, engine, text)
    prepared = subject.prepare("e\u0301<X>e\u0301")
    assert prepared.text == "\u00e9<X>\u00e9"
    assert (prepared.starts.tolist(), prepared.stops.tolist()) == ([1], [4])
    assert not prepared.unchanged


def test_prepend_is_put_before_each_segment_and_before_normalized_contents() -> None:
    prepend = {"type": "Prepend", "prepend": "_"}
    subject, engine = front([AddedToken(0, "<X>"), AddedToken(0, "day", normalized=True)], prepend)
    for text in ("", "a", "<X>", "<X><X>", "a<X>b", "day", "a day", "<X>day<X>", "_day", "dayday"):
        check(subject, engine, text)
    assert subject.prepare("a<X>b").text == "_a<X>_b"


def test_the_second_round_sees_the_ends_of_segments() -> None:
    """A token of the first round is no word and no white space to one of the second."""
    tokens = [
        AddedToken(0, "w_"),
        AddedToken(0, "  "),
        AddedToken(0, "day", single_word=True, lstrip=True, normalized=True),
        AddedToken(0, "go", rstrip=True, normalized=True),
        AddedToken(0, "w_day", normalized=True),
    ]
    subject, engine = front(tokens, None)
    for text in ("w_day", "dayw_", "xday", "   day", " day", "go  w_", "go   go", "w_w_", "   go   day  "):
        check(subject, engine, text)


def test_an_unchanged_text_is_the_same_object() -> None:
    subject, _ = front([AddedToken(0, "<X>"), AddedToken(0, "day", normalized=True)], {"type": "NFC"})
    for text in ("", "plain", "a<X>day", "d\u00e9j\u00e0 <X>", "中文"):
        prepared = subject.prepare(text)
        assert prepared.text is text
        assert prepared.unchanged
    assert subject.prepare("a<X>day").ids.tolist() == [256, 257]


def test_reasons_to_leave_an_artifact_to_the_reference() -> None:
    lower = {"type": "Lowercase"}
    assert "same normalized content" in str(
        front([AddedToken(0, "A", normalized=True), AddedToken(0, "a", normalized=True)], lower)[0].unsupported
    )
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    assert "empty" in str(front([AddedToken(0, " ", normalized=True)], strip)[0].unsupported)
    assert "noncharacter" in str(front([AddedToken(0, "\ufdd1", normalized=True)], None)[0].unsupported)
    assert "white space" in str(front([AddedToken(0, "x", rstrip=True), AddedToken(0, " y")], None)[0].unsupported)
    # In different rounds the two cannot meet.
    subject, engine = front([AddedToken(0, "x", rstrip=True), AddedToken(0, " y", normalized=True)], None)
    assert subject.unsupported is None
    for text in ("x y", "x  y", "a y", " yx y"):
        check(subject, engine, text)
    same_id = replace(parse(json.loads(engine.to_str())), added_tokens=(AddedToken(7, "p"), AddedToken(7, "q")))
    assert "same id" in str(Front(same_id).unsupported)


# --- real tokenizers ------------------------------------------------------------------------


@cache
def front_part(name: str) -> tuple[tuple[AddedToken, ...], dict[str, Any] | None]:
    """Added tokens and normalizer of a real tokenizer."""
    document = parsed(name)
    return parse(document | {"model": {"type": "BPE", "merges": []}}).added_tokens, document["normalizer"]


def bare(name: str) -> tuple[Front, Tokenizer, list[AddedToken]]:
    """Those two over the model of bytes."""
    tokens, normalizer = front_part(name)
    return *front(list(tokens), normalizer), list(tokens)


@pytest.mark.parametrize("name", tokenizers())
def test_real_tokenizers(name: str) -> None:
    subject, engine, tokens = bare(name)
    assert subject.unsupported is None
    rng = random.Random(name)
    literals = [token.content for token in tokens]
    cuts = [content[: rng.randint(1, len(content))] for content in literals]
    for _ in range(60):
        pieces = [rng.choice((rng.choice(literals), rng.choice(cuts), rng.choice(ATOMS))) for _ in range(30)]
        check(subject, engine, "".join(pieces))


@pytest.mark.parametrize("name", tokenizers("qwen3", "gpt-oss", "deepseek-v3", "cl100k", "mistral_tekken_240911"))
def test_ids_of_real_tokenizers(name: str) -> None:
    """The files of the last two number their added tokens otherwise than the reference does."""
    tokens = as_loaded(front_part(name)[0], reference_of(name).get_vocab(with_added_tokens=False))
    decoder = reference_of(name).get_added_tokens_decoder()
    assert {token.id: token.content for token in tokens} == {k: v.content for k, v in decoder.items()}


@pytest.mark.parametrize("name", tokenizers("qwen3", "llama3_1", "phi4", "gpt_neox_pii", "deepseek-v3"))
def test_a_long_text(name: str) -> None:
    subject, engine, tokens = bare(name)
    rng = random.Random(name)
    text = "".join(
        rng.choice(tokens).content
        if rng.random() < 0.02
        else rng.choice(("e\u0301", "a\u0323\u0302", " \n"))
        if rng.random() < 0.02
        else "words and 中文 "
        for _ in range(3000)
    )
    check(subject, engine, text)


def test_threads_share_one_front() -> None:
    subject, engine = front(
        [AddedToken(0, "<X>", single_word=True), AddedToken(0, "day", normalized=True, lstrip=True)],
        {"type": "NFC"},
    )
    rng = random.Random(3)
    texts = ["".join(rng.choices([*ATOMS, "<X>", "day"], k=400)) for _ in range(60)]
    expected = [engine.encode(text).ids for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: spelled(subject, text), texts * 3)) == expected * 3


def test_tables_made_earlier_are_passed_on() -> None:
    engine = reference([], {"type": "NFC"})
    table = {"NFC": np.zeros(0x110000, np.bool_)}
    subject = Front(parse(json.loads(engine.to_str())), inert=table)
    assert subject.normalizer.leaves_alone("abc")
    assert not subject.normalizer.leaves_alone("é")
    check(subject, engine, "é e\u0301")
