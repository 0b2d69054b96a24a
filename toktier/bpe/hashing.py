"""Exact look-up of many keys at once: open addressing over numpy arrays.

Keys are compared in full, so a collision costs a probe and never an answer.  A look-up is one gather per
probe: what decides and what is wanted stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ArtifactError

#: What look-ups return for a key that is not there.
ABSENT = np.uint32(0xFFFFFFFF)

#: Odd, from the golden ratio; multiplying by it and keeping the top bits spreads keys (Knuth, volume 3, 6.4).
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_HINT_BITS = 22
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
# the same as Python's integers, which are faster one by one
_ABSENT_INT, _EMPTY_INT = int(ABSENT), int(_EMPTY)
_MULTIPLIER_INT, _SECOND_INT = int(MULTIPLIER), int(_SECOND)

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Ranks of pairs of ids.

    ``entries``: uint64 of a power-of-two length.  An entry is left id, right id and rank, ``id_bits``,
    ``id_bits`` and ``rank_bits`` wide, or all ones if it is empty.  ``hint``: uint8, a bit for every hash of
    ``_HINT_BITS`` bits that some pair has; it is small enough for the processor's cache, and sorts out most of
    the pairs that are not there.  ``probes``: the most entries a look-up reads.
    """

    entries: Words
    hint: NDArray[np.uint8]
    id_bits: int
    rank_bits: int
    probes: int

    def find(self, left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Ranks, uint32; :data:`ABSENT` for pairs that no rule merges.  Ids may be :attr:`nothing`."""
        key = (left.astype(np.uint64) << np.uint64(self.id_bits)) | right
        mixed = key * MULTIPLIER
        ranks = np.full(len(key), ABSENT)
        bit = (mixed >> np.uint64(64 - _HINT_BITS)).view(np.int64)
        hinted = self.hint.take(bit >> 3, mode="clip") >> (bit.astype(np.uint8) & 7)
        pending = np.flatnonzero(hinted & 1)
        key, slot = key[pending], self._slots(mixed[pending])
        # a key sits in the first slot of its run that was free, so an empty slot ends the search
        for _ in range(self.probes):
            if len(pending) == 0:
                break
            entry = self.entries.take(slot, mode="clip")
            same = (entry >> np.uint64(self.rank_bits)) == key
            ranks[pending[same]] = entry[same] & np.uint64((1 << self.rank_bits) - 1)
            more = np.flatnonzero(~same & (entry != _EMPTY))
            pending, slot, key = pending[more], (slot[more] + 1) & (len(self.entries) - 1), key[more]
        return ranks

    @property
    def nothing(self) -> int:
        """A number that is no id, for a neighbour that is not there."""
        return (1 << self.id_bits) - 1

    def _slots(self, mixed: Words) -> NDArray[np.int64]:
        return (mixed >> np.uint64(64 - (len(self.entries).bit_length() - 1))).view(np.int64)


def pair_table(left: NDArray[np.uint32], right: NDArray[np.uint32], size: int) -> PairTable:
    """A table of distinct pairs of ids below ``size``; a pair's rank is its index."""
    id_bits, rank_bits = size.bit_length(), len(left).bit_length()
    if 2 * id_bits + rank_bits > 63:  # a key must never look like an empty entry
        raise ArtifactError(f"a vocabulary of {size} ids with {len(left)} merges is too large")
    key = (left.astype(np.uint64) << np.uint64(id_bits)) | right
    mixed = key * MULTIPLIER
    hint = np.zeros(1 << _HINT_BITS, np.bool_)
    hint[(mixed >> np.uint64(64 - _HINT_BITS)).view(np.int64)] = True
    bits = np.packbits(hint, bitorder="little")
    entries = np.full(_table_size(len(left)), _EMPTY)
    slot, probes = _place(PairTable(entries, bits, id_bits, rank_bits, 0)._slots(mixed), len(entries))
    entries[slot] = (key << np.uint64(rank_bits)) | np.arange(len(key), dtype=np.uint64)
    return PairTable(entries, bits, id_bits, rank_bits, probes)


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Ids of 128-bit keys.

    ``low``, ``high``: uint64 of a power-of-two length, the halves of the keys; ``ids``: uint32,
    :data:`ABSENT` in empty slots.  ``probes``: the most slots a look-up reads.
    """

    low: Words
    high: Words
    ids: NDArray[np.uint32]
    probes: int

    def find(self, low: Words, high: Words) -> NDArray[np.uint32]:
        """Ids, uint32; :data:`ABSENT` for keys that are not there."""
        slot = _slots_of_halves(low, high, len(self.ids))
        ids = self.ids.take(slot, mode="clip")
        differs = self.low.take(slot, mode="clip") != low
        differs |= self.high.take(slot, mode="clip") != high
        pending = np.flatnonzero(differs)
        occupied = ids[pending] != ABSENT
        ids[pending] = ABSENT
        pending = pending[occupied]
        slot, low, high = slot[pending], low[pending], high[pending]
        for _ in range(1, self.probes):
            if len(pending) == 0:
                break
            slot = (slot + 1) & (len(self.ids) - 1)
            here = self.ids[slot]
            same = (self.low[slot] == low) & (self.high[slot] == high)
            ids[pending[same]] = here[same]
            more = np.flatnonzero(~same & (here != ABSENT))
            pending, slot, low, high = pending[more], slot[more], low[more], high[more]
        return ids


class KeyReader:
    """Looks single keys up in a :class:`KeyTable`, where arrays would cost more than the look-up."""

    def __init__(self, table: KeyTable) -> None:
        # numpy's arrays are buffers, and reading single items is faster through a memoryview
        self._low, self._high = memoryview(table.low), memoryview(table.high)  # type: ignore[arg-type]
        self._ids = memoryview(table.ids)  # type: ignore[arg-type]
        self._mask = len(table.ids) - 1
        self._down = 64 - self._mask.bit_length()

    def find(self, low: int, high: int) -> int | None:
        """The id of a key, or None."""
        slot = ((high * _SECOND_INT ^ low) * _MULTIPLIER_INT & _EMPTY_INT) >> self._down
        while self._low[slot] != low or self._high[slot] != high:
            if self._ids[slot] == _ABSENT_INT:
                return None
            slot = (slot + 1) & self._mask
        id: int = self._ids[slot]
        return None if id == _ABSENT_INT else id


def key_table(low: Words, high: Words, ids: NDArray[np.uint32]) -> KeyTable:
    """A table of distinct keys, the frequent ones first."""
    size = _table_size(len(low))
    slot, probes = _place(_slots_of_halves(low, high, size), size)
    table = KeyTable(np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.full(size, ABSENT), probes)
    table.low[slot], table.high[slot], table.ids[slot] = low, high, ids
    return table


def _slots_of_halves(low: Words, high: Words, size: int) -> NDArray[np.int64]:
    mixed = high * _SECOND
    mixed ^= low
    mixed *= MULTIPLIER
    mixed >>= np.uint64(64 - (size.bit_length() - 1))
    return mixed.view(np.int64)


def _table_size(count: int) -> int:
    """A power of two of which ``count`` fills a quarter to a half."""
    return int(max(16, 1 << (2 * count).bit_length()))


def _place(slot: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], int]:
    """Where keys go that hash to ``slot``: each to the first free slot from there on.

    Of several keys for a slot the first gets it.  Keys come with the frequent ones first (low ids, low ranks),
    so most look-ups end at their first probe.
    """
    owner = np.full(size, -1, np.int64)
    slot = slot.copy()
    pending = np.arange(len(slot))
    probes = 1
    while True:
        free = pending[owner[slot[pending]] < 0]
        owner[slot[free[::-1]]] = free[::-1]  # the last to be written stays
        pending = pending[owner[slot[pending]] != pending]
        if len(pending) == 0:
            return slot, probes
        slot[pending] = (slot[pending] + 1) & (size - 1)
        probes += 1
