"""WordPiece and WordLevel against the reference."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import small
from judge import assert_words
from tokenizers import Tokenizer as HuggingFace

import toktier
from toktier.artifact import Artifact
from toktier.errors import BackendUnsupportedError, ReferenceFailedError

ENGINES = ("python", "numpy")
#: Words of ``a`` alone are cut in many ways, and some have a beginning that cannot be gone on with.
ENTRIES = ("[U]", "a", "aaa", "b", "é", "#", "##", "#a", "##a", "##aa", "##aab", "##é", "##" + "c" * 20, "中", "")
LONG = 130


def tokenizer(**options: Any) -> tuple[toktier.Tokenizer, HuggingFace]:
    """A model with these options; ``pre`` is the pre-tokenizer."""
    pre_tokenizer = options.pop("pre", {"type": "BertPreTokenizer"})
    model: dict[str, Any] = {"type": "WordPiece", "unk_token": "[U]"}
    model["vocab"] = {entry: id for id, entry in enumerate(ENTRIES)}
    if options.get("type") != "WordLevel":
        model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    document = small.document(pre_tokenizer=pre_tokenizer, decoder=None, model=model | options)
    content = json.dumps(document)
    return toktier.Tokenizer(Artifact.from_bytes(content.encode(), "wordpiece")), HuggingFace.from_str(content)


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    parts = ["a", "aa", "b", "é", "c", "c" * 20, "#", "##", "中", " ", " ", "\n", ",", "[U]", "\u0301", "a" * LONG]
    return ["".join(draw.choices(parts, k=draw.choice((1, 2, 3, 5, 8, 40)))) for _ in range(count)]


VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"max_input_chars_per_word": 5},
    {"max_input_chars_per_word": 0},
    {"max_input_chars_per_word": 1 << 63, "pre": None},
    {"continuing_subword_prefix": "", "pre": {"type": "WhitespaceSplit"}},
    {"continuing_subword_prefix": "é", "pre": {"type": "CharDelimiterSplit", "delimiter": "a"}},
    {"continuing_subword_prefix": "?"},  # with which nothing begins
    {"type": "WordLevel", "pre": {"type": "Whitespace"}},
)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_words(options: dict[str, Any]) -> None:
    tok, judge = tokenizer(**options)
    assert tok.backends == ("reference", *ENGINES)
    some = texts(80, 1)
    right = assert_words(tok, judge, some)
    for backend in ENGINES:
        for text, ids in zip(some, right, strict=True):
            assert tok.count(text, 3, backend=backend) == min(4, len(ids))
    for text in some[:20]:
        found = judge.encode(text)
        assert tok.encode_with_offsets(text).offsets.tolist() == [list(span) for span in found.offsets]
        normal, pieces = tok.pieces(text)
        assert normal == text == "".join(piece.text for piece in pieces)
        assert [id for piece in pieces for id in piece.ids] == found.ids


@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel"])
def test_without_an_unknown_token(kind: str) -> None:
    """The reference gives up on words that it does not know, and on no others."""
    tok, judge = tokenizer(type=kind, unk_token="[V]")
    assert tok.backends == ("reference",) and "unknown token" in str(tok.explain())
    assert tok.encode("a b") == judge.encode("a b").ids
    with pytest.raises(ReferenceFailedError, match="UNK"):
        tok.encode("a c")


def test_left_to_the_reference() -> None:
    for options, why in (
        ({"vocab": {"[U]": 0, "a": 1, "b": 1}}, "same id"),
        ({"pre": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}}, "ByteLevel"),
    ):
        tok, judge = tokenizer(**options)
        assert tok.backends == ("reference",) and why in str(tok.explain())
        assert tok.encode("a aa bé") == judge.encode("a aa bé").ids


def test_no_jax() -> None:
    tok, _ = tokenizer()
    for call in (tok.encode, tok.encode_to_device):
        with pytest.raises(BackendUnsupportedError, match="WordPiece"):
            call("a", **({"backend": "jax"} if call == tok.encode else {}))
