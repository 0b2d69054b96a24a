"""A BPE vocabulary and its merges as arrays.

Everything that an engine looks up is here, is derived once per artifact, and is kept on disk between
processes (:mod:`toktier.compiled`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ArtifactError
from ..records import record
from . import hashing
from .hashing import KeyTable, PairTable, Seeds
from .memo import ranges

#: The longest piece, in bytes, that is looked up by two 64-bit words (the top byte is its length).
SHORT = 15


@lru_cache(maxsize=1)
def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: character to byte."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


def shown_bytes(data: bytes) -> str:
    """Bytes written in the characters of :func:`byte_alphabet`."""
    return "".join(map(_shown_byte().__getitem__, data))


@lru_cache(maxsize=1)
def _shown_byte() -> list[str]:
    return sorted(byte_alphabet(), key=byte_alphabet().__getitem__)


@record
class TokenBytes:
    """The bytes of every token of the model's vocabulary.

    ``blob[offsets[i] : offsets[i + 1]]`` are those of id i: for byte-level tokenizers the bytes that the token
    stands for, if ``in_alphabet[i]``, and the UTF-8 of the token's string otherwise.  Ids that the vocabulary
    leaves out have no bytes and ``present[i]`` is False.
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    present: NDArray[np.bool_]
    in_alphabet: NDArray[np.bool_]


def token_bytes(vocabulary: Mapping[str, int] | Sequence[str], byte_level: bool) -> TokenBytes:
    """Lay out a vocabulary, which may be a list in order of ids, where an entry may stand twice.

    Raises :class:`ArtifactError` for ids that are not small natural numbers.
    """
    ids = [*vocabulary.values()] if isinstance(vocabulary, Mapping) else [*range(len(vocabulary))]
    if not {*map(type, ids)} <= {int}:
        raise ArtifactError("the vocabulary has an id that is not an integer")
    size = max(ids, default=-1) + 1
    if size > 1 << 24 or min(ids, default=0) < 0:
        raise ArtifactError(f"the vocabulary has ids outside 0..{(1 << 24) - 1}")
    texts = [""] * size
    present = np.zeros(size, np.bool_)
    for text, id in zip(vocabulary, ids, strict=True):
        texts[id] = text
    present[ids] = True
    in_alphabet = np.zeros(size, np.bool_)
    if byte_level:
        shown, in_alphabet = _from_alphabet(texts)
        in_alphabet &= present
        for id in np.flatnonzero(present & ~in_alphabet).tolist():
            shown[id] = texts[id].encode("utf-8", "surrogatepass")
    else:
        shown = [text.encode("utf-8", "surrogatepass") for text in texts]
    offsets = np.zeros(size + 1, np.int64)
    np.cumsum([*map(len, shown)], out=offsets[1:])
    return TokenBytes(np.frombuffer(b"".join(shown), np.uint8), offsets, present, in_alphabet)


def _from_alphabet(texts: list[str]) -> tuple[list[bytes], NDArray[np.bool_]]:
    """The bytes that texts in the byte alphabet stand for, and which of them are in it."""
    byte_of = np.zeros(0x110000, np.uint16)
    byte_of[0x200:] = beyond = 1 << 8
    byte_of[:0x200] = [byte_alphabet().get(chr(code), beyond) for code in range(0x200)]
    codes = byte_of[np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)]
    data = codes.astype(np.uint8).tobytes()
    ends = np.cumsum([*map(len, texts)])
    strange = np.searchsorted(ends, np.flatnonzero(codes == beyond), side="right")
    known = np.ones(len(texts), np.bool_)
    known[strange] = False
    return [data[a:b] for a, b in pairwise([0, *ends.tolist()])], known


def word_ends(tokens: TokenBytes, suffix: str) -> TokenBytes:
    """What ends a word, of a vocabulary whose tokens say so by ``suffix``: those tokens without it.

    The others are not ``present``.  The same tokens if there is no suffix.
    """
    if not suffix:
        return tokens
    sign = np.frombuffer(suffix.encode("utf-8"), np.uint8)
    lengths = np.diff(tokens.offsets)
    ids = np.flatnonzero(tokens.present & (lengths > len(sign)))
    places = tokens.offsets[1:][ids, None] + np.arange(-len(sign), 0)
    ends = np.zeros(len(lengths), np.bool_)
    ends[ids] = (tokens.blob[places] == sign).all(axis=1)
    lengths = np.where(ends, lengths - len(sign), 0)
    blob = tokens.blob[ranges(tokens.offsets[:-1], lengths)]
    return TokenBytes(blob, np.append(0, np.cumsum(lengths)), ends, ends & tokens.in_alphabet)


@record
class Merges:
    """The merge rules, in order of rank.

    ``left``, ``right``, ``result``: uint32 of shape (rules,), the index is the rank.
    ``table`` finds the rank of a pair of ids.
    """

    left: NDArray[np.uint32]
    right: NDArray[np.uint32]
    result: NDArray[np.uint32]
    table: PairTable


def merges(model: Mapping[str, Any]) -> Merges:
    """Resolve the merges of a decoded BPE model against its vocabulary, as the reference does.

    Of rules for the same pair the last one counts.
    """
    vocabulary: Mapping[str, int] = model["vocab"]
    rules = model.get("merges")
    if not isinstance(rules, list):
        raise ArtifactError("the model's merges are not a list")
    if len({*map(type, rules)}) > 1:
        raise ArtifactError("the model's merges are of two kinds: texts of two tokens, and pairs of them")
    prefix = len(model.get("continuing_subword_prefix") or "")
    if rules and isinstance(rules[0], str):
        pairs = [rule.split(" ") for rule in rules if not rule.startswith("#version")]
    else:
        pairs = rules
    try:
        if {*map(len, pairs)} - {2}:
            raise ValueError("a rule names other than two tokens")
        lefts, rights = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        ends = [right[prefix:] for right in rights] if prefix else rights
        ids = vocabulary.__getitem__
        columns = [
            np.fromiter(map(ids, names), np.uint32, len(pairs))
            for names in (lefts, rights, map(operator.add, lefts, ends))
        ]
    except (KeyError, ValueError, TypeError) as problem:
        raise ArtifactError(
            f"a merge is not a pair of tokens whose concatenation is a token ({type(problem).__name__}: {problem})"
        ) from problem
    key = (columns[0].astype(np.uint64) << np.uint64(32)) | columns[1]
    if (np.diff(np.sort(key)) == 0).any():
        _, last_from_end = np.unique(key[::-1], return_index=True)
        kept = np.sort(len(key) - 1 - last_from_end)
        columns = [column[kept] for column in columns]
    table = hashing.pair_table(columns[0], columns[1], max(vocabulary.values(), default=0) + 1)
    return Merges(columns[0], columns[1], columns[2], table)


# By length in bytes; the last element is for all pieces above SHORT, whose key no token has.
LOW_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [(1 << 64) - 1] * 8 + [0], np.uint64)
_HIGH_MASKS = np.array([0] * 9 + [(1 << (8 * n)) - 1 for n in range(1, 8)] + [0], np.uint64)
LENGTH_SHIFT = np.uint64(56)
LENGTH_KEYS = np.arange(17, dtype=np.uint64) << LENGTH_SHIFT

#: Bytes that must follow the last piece of a buffer given to :func:`short_keys`.
PADDING = 16


def short_keys(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Exact keys of pieces of at most :data:`SHORT` bytes: the bytes, and the length in the top byte.

    All longer pieces have one key.  ``buffer`` must have :data:`PADDING` bytes after the last piece; what they
    hold does not matter.
    """
    both = np.ndarray((len(buffer) - 15,), "V16", buffer=buffer, strides=(1,))
    words = both[starts].view("<u8").reshape(-1, 2)
    low = words[:, 0] & LOW_MASKS.take(lengths, mode="clip")
    high = words[:, 1] & _HIGH_MASKS.take(lengths, mode="clip")
    high |= LENGTH_KEYS.take(lengths, mode="clip")
    return low, high


def piece_table(tokens: TokenBytes, usable: NDArray[np.bool_], known: Seeds | None = None) -> KeyTable:
    """A table from the keys of whole pieces to ids, for the tokens marked ``usable`` that are short enough.

    ``known``: the seeds of an earlier table of the same tokens.
    """
    lengths = np.diff(tokens.offsets)
    ids = np.flatnonzero(usable & (lengths > 0) & (lengths <= SHORT))
    padded = np.concatenate((tokens.blob, np.zeros(PADDING, np.uint8)))
    low, high = short_keys(padded, tokens.offsets[:-1][ids], lengths[ids])
    return hashing.key_table(low, high, ids.astype(np.uint32), known)
