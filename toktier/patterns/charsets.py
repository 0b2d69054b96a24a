"""What the reference engine's character sets contain, found by asking it.

The engine's Unicode tables are neither Python's nor the ``regex`` module's
(the paper, section 5.2, counts thousands of differing characters), so a set
such as ``\\p{L}`` is *probed*: the installed ``tokenizers`` deletes its members
from a text that holds every code point once.  Sets that were probed before
with the same version of ``tokenizers`` ship with the package.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .. import cache, packing
from ..backends.reference import engine_version
from ..errors import UnsupportedPatternError
from .syntax import Chars, Intersection, Not, Property, SetExpr, Union

CODE_POINTS = 0x110000
SURROGATES = slice(0xD800, 0xE000)
_CHUNK = 4096

#: The sources under which the sets of pre-tokenizers that bring their own are known here.
DIGITS, WHITE_SPACE, PUNCTUATION, WORDS = "Digits", "WhitespaceSplit", "Punctuation", "Whitespace"

CharSet = NDArray[np.bool_]


def _all_code_points() -> list[str]:
    """All of them but the surrogates, in order, in chunks."""
    every = np.delete(np.arange(CODE_POINTS, dtype="<u4"), SURROGATES).tobytes().decode("utf-32-le")
    return [every[i : i + _CHUNK] for i in range(0, len(every), _CHUNK)]


def probe(source: str) -> CharSet:
    """The members of the one-character pattern ``source``, shape (0x110000,).

    Takes about 0.2 s: the engine is shown every code point.
    """
    from tokenizers import Regex, normalizers

    if source in (DIGITS, WHITE_SPACE, PUNCTUATION, WORDS):
        kept = [piece for chunk in _all_code_points() for piece in _beside(source, chunk)]
    else:
        try:
            pattern = Regex(f"(?:{source})+")
        except Exception as problem:  # the binding raises a bare Exception
            raise UnsupportedPatternError(f"the engine does not know the set {source}: {problem}", 0) from problem
        delete = normalizers.Replace(pattern, "")
        kept = [delete.normalize_str(chunk) for chunk in _all_code_points()]
    rest = np.frombuffer("".join(kept).encode("utf-32-le"), np.uint32)
    members = np.ones(CODE_POINTS, np.bool_)
    members[rest] = False
    members[SURROGATES] = False
    return members


def _beside(source: str, text: str) -> list[str]:
    """The pieces of a text that have no member of a pre-tokenizer's own set."""
    from tokenizers import PreTokenizedString, pre_tokenizers

    if source == WORDS:  # it leaves out white space, and what it leaves in is words and others
        words = pre_tokenizers.Whitespace()
        pieces = [piece for piece, _ in words.pre_tokenize_str(text)]
        inside = {char for p in pieces if len(words.pre_tokenize_str("a" + p[0])) == 1 for char in p}
        return [char for char in text if char not in inside]
    digits = pre_tokenizers.Digits(individual_digits=False)
    splitter = {
        DIGITS: digits,
        WHITE_SPACE: pre_tokenizers.WhitespaceSplit(),
        PUNCTUATION: pre_tokenizers.Punctuation("removed"),
    }[source]
    split = PreTokenizedString(text)
    splitter.pre_tokenize(split)
    pieces = [piece for piece, _, _ in split.get_splits(offset_type="byte")]  # others take ten times as long
    if source == DIGITS:  # digits and others make pieces in turn; a digit is cut off from a letter
        pieces = [piece for piece in pieces if len(digits.pre_tokenize_str("a" + piece[0])) == 1]
    return pieces


@lru_cache(maxsize=1)
def _shipped() -> dict[str, NDArray[np.uint8]]:
    """Probed sets that come with the package, as packed bits; empty for another engine version."""
    bundle = packing.load("charsets.bundle")
    if bundle is None or bundle.header.get("tokenizers") != engine_version():
        return {}
    return {str(k): bundle.arrays[str(i)] for i, k in enumerate(bundle.header["sources"])}


@lru_cache(maxsize=64)
def _members_packed(source: str) -> NDArray[np.uint8]:
    shipped = _shipped().get(source)
    if shipped is not None:
        return shipped
    key = f"charset {engine_version()} {source}"
    bundle = cache.load(key)
    if bundle is not None:
        return bundle.arrays["bits"]
    bits = np.packbits(probe(source))
    cache.store(key, {}, {"bits": bits})
    return bits


def members(expression: SetExpr) -> CharSet:
    """The code points of a set expression, shape (0x110000,); surrogates are never members."""
    match expression:
        case Chars(ranges):
            result = np.zeros(CODE_POINTS, np.bool_)
            for low, high in ranges:
                result[low : high + 1] = True
        case Property(source):
            result = np.unpackbits(_members_packed(source)).view(np.bool_)
        case Not(operand):
            result = ~members(operand)
        case Union(operands):
            result = np.zeros(CODE_POINTS, np.bool_)
            for operand in operands:
                result |= members(operand)
        case Intersection(operands):
            result = np.ones(CODE_POINTS, np.bool_)
            for operand in operands:
                result &= members(operand)
    result[SURROGATES] = False
    return result
