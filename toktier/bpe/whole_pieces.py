"""Looking up pieces that are one token, many at once.

Most pieces have no more bytes than a word of the machine.  Half of the key of such a piece is its number of bytes
and nothing else, so that it has the same few values, and the table's side of it is one byte.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..lazy import lazy
from .hashing import KeyTable, hash_of_high, hash_of_low, ids_or_absent
from .tables import LENGTH_KEYS, LENGTH_SHIFT, LOW_MASKS, short_keys

#: The bytes of a word.
_WORD = 8
#: Pieces that are looked up together, so that what is computed for them stays in the processor's cache.
_BLOCK = 1 << 13


class WholePieces:
    """Finds pieces in a :func:`~toktier.bpe.tables.piece_table`; immutable."""

    def __init__(self, table: KeyTable) -> None:
        self._table = table

    def find(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.uint32]:
        """Ids, uint32, :data:`~toktier.bpe.hashing.ABSENT` for pieces that are not there.  ``starts`` ascend.

        ``buffer`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece; what they hold does
        not matter.
        """
        table = self._table
        if len(starts) <= _BLOCK:
            return table.find(*short_keys(buffer, starts, lengths))
        lengths_there = self._lengths
        multiplier = np.uint64(table.displacement.multiplier)
        of_lengths = hash_of_high(LENGTH_KEYS, multiplier)
        words = np.ndarray((len(buffer) - _WORD + 1,), "<u8", buffer=buffer, strides=(1,))
        ids = np.empty(len(starts), np.uint32)
        for first in range(0, len(starts), _BLOCK):
            block = slice(first, first + _BLOCK)
            at, size = starts[block], lengths[block]
            # numpy takes from an aligned copy of the stretch, which is faster than words that are not, one by one
            low = words[at[0] : at[-1] + 1].take(at - at[0], mode="clip")
            low &= LOW_MASKS.take(size, mode="clip")
            slot = table.displacement.slots(hash_of_low(low, of_lengths.take(size, mode="clip"), multiplier))
            differs = table.low.take(slot, mode="clip") != low
            differs |= lengths_there.take(slot, mode="clip") != size.astype(np.uint8)
            ids[block] = ids_or_absent(table.ids.take(slot, mode="clip"), differs)
        longer = np.flatnonzero(lengths > _WORD)
        ids[longer] = table.find(*short_keys(buffer, starts[longer], lengths[longer]))
        return ids

    @lazy
    def _lengths(self) -> NDArray[np.uint8]:
        """The number of bytes of the piece in each slot."""
        return (self._table.high >> LENGTH_SHIFT).astype(np.uint8)
