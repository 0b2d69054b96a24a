"""``special="raise"`` where the normalizer moves characters: neither deaf nor a false alarm, also in parts."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import small
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HuggingFace

from toktier.artifact import Artifact
from toktier.errors import SpecialTokenError
from toktier.tokenizer import Tokenizer

WORD_MARK: list[dict[str, Any]] = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
NORMALIZERS: dict[str, list[dict[str, Any]]] = {
    "Prepend": WORD_MARK[:1],
    "Prepend, Replace": WORD_MARK,
    "Prepend, Replace, Lowercase": [*WORD_MARK, {"type": "Lowercase"}],
    "Prepend, NFC": [WORD_MARK[0], {"type": "NFC"}],
    "Prepend, Strip": [WORD_MARK[0], {"type": "Strip", "strip_left": True, "strip_right": False}],
    "Replace, NFD": [WORD_MARK[1], {"type": "NFD"}],
}
ADDED = [
    small.added("<s>", 1000, "normalized", "special"),
    small.added("A", 1001, "normalized", "special"),
    small.added("</s>", 1002, "special"),
    small.added("q", 1003),
    small.added("é", 1004, "normalized"),
]
TEXTS = st.lists(st.sampled_from([*"aAbq \n", "▁", "<s>", "</s>", "e\u0301", "é", "ab ab "]), max_size=9).map(
    "".join
)


def _document(name: str) -> dict[str, Any]:
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for char in "▁abAeé<s>/q":
        vocab.setdefault(char, len(vocab))
    model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True}
    normalizer = {"type": "Sequence", "normalizers": NORMALIZERS[name]}
    return small.document(added_tokens=ADDED, normalizer=normalizer, model=model, pre_tokenizer=None, decoder=None)


@cache
def ours(name: str) -> Tokenizer:
    return Tokenizer(Artifact.from_bytes(json.dumps(_document(name)).encode(), name))


@cache
def judge_of(name: str) -> HuggingFace:
    """The reference with a model that knows no text, so that all ids are added tokens'."""
    return small.build(_document(name) | {"model": {"type": "BPE", "vocab": {}, "merges": []}})


def first_special(name: str, text: str) -> tuple[str, int] | None:
    """What the reference finds, and where."""
    judge = judge_of(name)
    tokens = judge.get_added_tokens_decoder()
    found = judge.encode(text, add_special_tokens=False)
    for id, (start, _) in zip(found.ids, found.offsets, strict=True):
        if tokens[id].special:
            return tokens[id].content, start
    return None


def raised(call: Any) -> tuple[str, int] | None:
    try:
        call()
    except SpecialTokenError as problem:
        return problem.token, problem.index
    return None


@pytest.mark.parametrize("name", NORMALIZERS)
@settings(max_examples=25)
@given(chunks=st.lists(TEXTS, max_size=4))
def test_raise_is_what_the_reference_finds(name: str, chunks: list[str]) -> None:
    tokenizer, text = ours(name), "".join(chunks)
    expected = first_special(name, text)
    assert raised(lambda: tokenizer.encode(text, special="raise")) == expected

    stream = tokenizer.stream_encoder(special="raise")
    assert raised(lambda: [*map(stream.feed, chunks), stream.flush()]) == expected

    session, before = tokenizer.session(special="raise"), ""
    for chunk in chunks:
        half = len(before) // 2
        for changed in (before + chunk, before[:half] + chunk + before[half:]):
            expected = first_special(name, changed)
            assert raised(lambda changed=changed: session.update(changed)) == expected
            before = before if expected else changed


def test_a_prefix_is_not_put_before_what_goes_on() -> None:
    # "A" is known by its normalized form, which is "▁a"; behind the added token "q" there is a prefix again
    name = "Prepend, Replace, Lowercase"
    stream = ours(name).stream_encoder(special="raise")
    stream.feed("ba")
    assert stream.pending == "a"
    assert raised(lambda: [stream.feed("aqb"), stream.flush()]) is None
    assert first_special(name, "baaqb") is None
    session = ours(name).session("baaqb", special="raise")
    assert raised(lambda: session.append("qa")) == first_special(name, "baaqbqa") == ("A", 6)
    assert session.text == "baaqb"
