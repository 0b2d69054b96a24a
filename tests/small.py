"""A byte-level tokenizer small enough to be built for every example of a property test."""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer

from toktier.bpe.tables import byte_alphabet

CHAR_OF = {byte: char for char, byte in byte_alphabet().items()}
MERGES = [("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("Ġ", "a"), ("a", "b"), ("b", "Ġ"), ("Ã", "©"), ("Ġ", "â"), ("Ġa", "Ġ")]


def vocabulary() -> dict[str, int]:
    """All 256 bytes, byte b having id b, then the results of the merges."""
    vocab = {CHAR_OF[byte]: byte for byte in range(256)}
    for left, right in MERGES:
        vocab.setdefault(left + right, len(vocab))
    return vocab


def document(**parts: Any) -> dict[str, Any]:
    """A ``tokenizer.json``, decoded; ``parts`` replace its members."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    plain: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary(), "merges": [list(pair) for pair in MERGES]},
    }
    return plain | parts


def only_the_reference() -> bytes:
    """A file that no backend of our own can run: its model has no tokens for characters that are not in it."""
    return json.dumps(document(pre_tokenizer=None)).encode()


def build(parts: dict[str, Any]) -> Tokenizer:
    """The reference made from a decoded ``tokenizer.json``."""
    return Tokenizer.from_str(json.dumps(parts))


def added(content: str, token_id: int, *flags: str) -> dict[str, Any]:
    """An entry of ``added_tokens`` with the named flags on."""
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": token_id, "content": content} | {name: name in flags for name in names}


def fallback_model(**options: Any) -> dict[str, Any]:
    """BPE with byte fallback in which one token has a word mark inside."""
    pairs = [
        ("a", "b"),
        ("\u2581", "a"),
        ("\u2581", "\u2581"),
        ("1", "\u2581"),
        ("1\u2581", "a"),
        ("ab", "1"),
        ("\u00e9", "a"),
    ]
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"ab1\u2581\u00e9,<0xA>"]
    tokens += [left + right for left, right in pairs]
    vocabulary = {token: id for id, token in enumerate(dict.fromkeys(tokens))}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [list(pair) for pair in pairs], "byte_fallback": True}
    return model | {"unk_token": "<unk>", "fuse_unk": True} | options
