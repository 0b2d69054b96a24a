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

import numpy as np
from numpy.typing import NDArray

from ..records import record
from .hashing import ABSENT, MULTIPLIER
from .symbols import FirstSymbols, has_bit
from .tables import TokenBytes

_HASH_BITS = 21


@record
class Barriers:
    """Finds barriers.  ``crossed``: see :func:`crossed_pairs`."""

    first: FirstSymbols
    crossed: NDArray[np.uint8]

    def find(self, points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The places in a text, given as code points, at which the word around them may be cut, ascending.

        Not all of them: none beside ASCII, as the edges of words are not known here, and a pair may be taken for
        another one.
        """
        whole = self._certified(points)
        left = np.flatnonzero(whole[:-1] & whole[1:])
        return left[np.flatnonzero(~self._are_crossed(points[left], points[left + 1]))] + 1

    @property
    def everywhere(self) -> bool:
        """Whether :meth:`find_everywhere` may be asked: the vocabulary is one of characters."""
        return self.first.neighbours is None

    def find_everywhere(self, points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The same, beside ASCII, too."""
        return np.flatnonzero(~self._are_crossed(points[:-1], points[1:])) + 1

    def _are_crossed(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.bool_]:
        bit = pair_hash(left, right)
        return (self.crossed.take(bit >> 3) >> (bit.astype(np.uint8) & 7) & 1).view(np.bool_)

    def _certified(self, points: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which characters are certified starts, whether or not a word begins or ends at them."""
        neighbours = self.first.neighbours
        if neighbours is None:
            return points >= 0x80
        certified: NDArray[np.bool_] = self.first.of_character.take(points, mode="clip") != ABSENT
        row = neighbours.row.take(points, mode="clip")
        asked = np.flatnonzero(row >= 0)
        row = row[asked]
        allowed = has_bit(neighbours.before, row, _last_byte(points[asked - 1]))
        allowed &= has_bit(neighbours.after, row, _first_byte(points.take(asked + 1, mode="clip")))
        certified[asked[~allowed]] = False
        return certified


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
    mixed = (left.astype(np.uint64) << np.uint64(21) | right) * MULTIPLIER
    return (mixed >> np.uint64(64 - _HASH_BITS)).view(np.int64)


def _first_byte(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The first byte of each character's UTF-8."""
    found = np.where(points < 0x800, 0xC0 | points >> 6, 0xE0 | points >> 12)
    found = np.where(points < 0x10000, found, 0xF0 | points >> 18)
    return np.where(points < 0x80, points, found).astype(np.uint8)


def _last_byte(points: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The last byte of each character's UTF-8."""
    return np.where(points < 0x80, points, 0x80 | points & 0x3F).astype(np.uint8)
