"""Cutting words into parts that merge apart.

**Lemma.**  Let u and v be neighbouring characters of a word that are certified starts both
(:mod:`~toktier.bpe.symbols`).  If no rule merges a symbol whose text ends with u and one whose text begins with
v, the tokens of the word are those of its part up to u, followed by those of its part from v on.

*Proof.*  Merging may begin from the word in which u and v are whole.  What a merge makes is a row of those first
symbols, so the first merge that joins something left of v with something right of u has u at the end of its left
part and v at the beginning of its right one, and is by such a rule.  There is none, so each merge lies on one
side; it changes no pair on the other, and BPE takes pairs by rank and then from the left, so either side merges as
it does alone.  Alone, u and v are still certified starts: an edge asks less of a character than a neighbour.  ∎

In Chinese text half to two thirds of all neighbours are such a barrier.  The parts recur many times more often
than the words do: 93,000 distinct words of a million characters have 18,000 (gpt-oss) to 55,000 (qwen3) distinct
parts, so that a memo knows them even in a text of new words.

In a vocabulary of characters (Llama 2, Gemma) every word has one row of first symbols, so that the lemma holds for
any two neighbours, ASCII or not.  A fifth of those in English and code are barriers there.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..lazy import lazy
from .hashing import ABSENT, MULTIPLIER
from .symbols import FirstSymbols
from .tables import TokenBytes

_HASH_BITS = 21
#: Characters that are looked at together.  Arrays of 128 KiB and more may come from the system each time anew.
_BLOCK = (1 << 14) - 64
#: Most pairs of a block are looked at together if one in so many may be a barrier.
_MANY = 3
#: The bytes of a set of bytes, in :class:`~toktier.bpe.symbols.Neighbours`.
_SET = 32


class Barriers:
    """Finds barriers; immutable.  ``crossed``: see :func:`crossed_pairs`."""

    def __init__(self, first: FirstSymbols, crossed: NDArray[np.uint8]) -> None:
        self.first = first
        self.crossed = crossed

    def find(self, points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The places in a text, given as code points, at which the word around them may be cut, ascending.

        Not all of them: none beside ASCII, as the edges of words are not known here, and a pair may be taken for
        another one.
        """
        found = [np.empty(0, np.int64)]
        for begin in range(0, len(points) - 1, _BLOCK):
            first = max(0, begin - 1)  # what stands beside the block is looked at, too
            inside = slice(begin - first, begin - first + _BLOCK)
            found.append(self._between(points[first : begin + _BLOCK + 2], inside) + (first + 1))
        return np.concatenate(found)

    def _between(self, points: NDArray[np.uint32], inside: slice) -> NDArray[np.int64]:
        """The numbers of the characters, of those ``inside``, behind which there is a barrier."""
        sets, before, after = self._sets
        own = sets.take(points, mode="clip")
        sometimes = own < len(before) - _SET
        pairs = np.zeros(len(points), np.bool_)
        pairs[:-1][inside] = (sometimes[:-1] & sometimes[1:])[inside]
        kept = None
        if np.count_nonzero(pairs) < len(points) // _MANY:  # look at these and what stands beside them only
            near = pairs.copy()
            for shift in (1, 2):
                near[shift:] |= pairs[:-shift]
            near[:-1] |= pairs[1:]
            kept = np.flatnonzero(near)
            points, own, pairs = points.take(kept), own.take(kept), pairs.take(kept)
        # of ASCII the first byte and the last one are the character; np.where would take most of the time
        wide, low = (points >= 0x80).view(np.uint8), points.astype(np.uint8)
        lead = low ^ ((low ^ _leads().take(points >> 6, mode="clip")) & (wide * np.uint8(0xFF)))
        last = low & ~(wide * np.uint8(0x40)) | wide * np.uint8(0x80)
        certified = np.ones(len(points), np.uint8)  # whether or not a word begins or ends at a character
        certified[1:] = _bits(before, own[1:], last[:-1])
        certified[:-1] &= _bits(after, own[:-1], lead[1:])
        found = pairs[:-1] & (certified[:-1] & certified[1:] & 1).view(np.bool_)
        places = np.flatnonzero(found > self._are_crossed(points[:-1], points[1:]))
        return places if kept is None else kept.take(places)

    @property
    def everywhere(self) -> bool:
        """Whether :meth:`find_everywhere` may be asked: the vocabulary is one of characters."""
        return self.first.neighbours is None

    def find_everywhere(self, points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """As :meth:`find`, beside ASCII, too."""
        return np.flatnonzero(~self._are_crossed(points[:-1], points[1:])) + 1

    def _are_crossed(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.bool_]:
        bit = pair_hash(left, right)
        return (self.crossed.take(bit >> 3) >> (bit.astype(np.uint8) & 7) & 1).view(np.bool_)

    @lazy
    def _sets(self) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
        """By code point where the sets of its neighbours' bytes begin, and the bytes of these sets.

        Characters that are always certified starts have the set of all bytes, the last but one; those that never
        are have the empty one, the last.
        """
        neighbours = self.first.neighbours
        more = np.repeat(np.array([0xFF, 0], np.uint8), _SET)
        if neighbours is None:
            return np.repeat(np.array([_SET, 0], np.int32), [0x80, 1]), more, more
        count = len(neighbours.before)
        row = np.where(neighbours.row < 0, count, neighbours.row)
        row[self.first.of_character == ABSENT] = count + 1
        before, after = (np.append(sets, more) for sets in (neighbours.before, neighbours.after))
        return (row * _SET).astype(np.int32), before, after


def _bits(sets: NDArray[np.uint8], own: NDArray[np.int32], byte: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """In the lowest bit, whether each ``byte`` is in the set that begins at ``own``."""
    bits = sets.take(own + (byte >> 3), mode="clip")
    bits >>= byte & 7
    return bits


def crossed_pairs(tokens: TokenBytes, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """A bit for each hash of a pair of characters that some rule merges across, uint8, little-endian bits.

    ``left``, ``right``: the ids that the rules merge.  The pair is the last character of the one and the first of
    the other, unless one of these is not complete.
    """
    u, v = _edge_characters(tokens, -1)[left], _edge_characters(tokens, 0)[right]
    both = (u != ABSENT) & (v != ABSENT)
    found = np.zeros(1 << _HASH_BITS, np.bool_)
    found[pair_hash(u[both], v[both])] = True
    return np.packbits(found, bitorder="little")


def _edge_characters(tokens: TokenBytes, edge: int) -> NDArray[np.uint32]:
    """The first (0) or last (-1) character of each token if it is complete, or else ABSENT."""
    found = np.full(len(tokens.present), ABSENT)
    lengths = np.diff(tokens.offsets)
    for size, lead, bits in ((1, 0x00, 7), (2, 0xC0, 5), (3, 0xE0, 4), (4, 0xF0, 3)):
        ids = np.flatnonzero(lengths >= size)
        at = tokens.offsets[:-1][ids] if edge == 0 else tokens.offsets[1:][ids] - size
        code: NDArray[np.uint32] = tokens.blob[at].astype(np.uint32)
        complete = code >> bits == lead >> bits
        code &= np.uint32((1 << bits) - 1)
        for place in range(1, size):
            byte = tokens.blob[at + place]
            complete &= byte & 0xC0 == 0x80
            code = code << np.uint32(6) | byte & np.uint8(0x3F)
        found[ids[complete]] = code[complete]
    return found


def pair_hash(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.int64]:
    """A number below ``2 ** _HASH_BITS`` for each pair of ids or characters."""
    mixed = left.astype(np.uint64)
    mixed <<= np.uint64(21)
    mixed |= right
    mixed *= MULTIPLIER
    mixed >>= np.uint64(64 - _HASH_BITS)
    return mixed.view(np.int64)


@cache
def _leads() -> NDArray[np.uint8]:
    """The first byte of UTF-8 of each 64 characters, which they share beyond ASCII."""
    points = np.arange(0, 0x110000, 64)
    found = np.where(points < 0x800, 0xC0 | points >> 6, 0xE0 | points >> 12)
    return np.where(points < 0x10000, found, 0xF0 | points >> 18).astype(np.uint8)
