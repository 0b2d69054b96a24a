"""Exact look-up of 64-bit keys, many at a time: open addressing over numpy arrays.

Keys are compared in full, so a collision costs a probe and never an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: What :meth:`HashTable.find` returns for a key that is not there.
ABSENT = np.uint32(0xFFFFFFFF)

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)

Keys = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class HashTable:
    """``low`` and ``high`` (or None, where keys are 64 bits): uint64 of a power-of-two length.

    ``value``: uint32, :data:`ABSENT` in empty slots.  ``probes``: the most slots a look-up reads.
    """

    low: Keys
    high: Keys | None
    value: NDArray[np.uint32]
    probes: int

    def find(self, low: Keys, high: Keys | None = None) -> NDArray[np.uint32]:
        """The values of keys, uint32 of the shape of ``low``; :data:`ABSENT` for keys not in the table."""
        slot = _slots(low, high, len(self.value))
        found = self.value.take(slot, mode="clip")
        equal = self.low.take(slot, mode="clip") == low
        if self.high is not None and high is not None:
            equal &= self.high.take(slot, mode="clip") == high
        # a key sits in the first slot of its run that was free: an empty slot ends the search
        pending = np.flatnonzero(~equal & (found != ABSENT))
        mask = len(self.value) - 1
        for distance in range(1, self.probes):
            if len(pending) == 0:
                break
            slot_now = (slot[pending] + distance) & mask
            value = self.value[slot_now]
            same = self.low[slot_now] == low[pending]
            if self.high is not None and high is not None:
                same &= self.high[slot_now] == high[pending]
            found[pending] = value
            equal[pending] = same
            pending = pending[~same & (value != ABSENT)]
        found[~equal] = ABSENT
        return found


def _slots(low: Keys, high: Keys | None, size: int) -> NDArray[np.int64]:
    mixed = low * _MULTIPLIER
    if high is not None:
        mixed ^= high * _SECOND
        mixed ^= mixed >> np.uint64(29)
        mixed *= _MULTIPLIER
    mixed >>= np.uint64(64 - (size.bit_length() - 1))
    return mixed.view(np.int64)


def build(low: Keys, high: Keys | None, value: NDArray[np.uint32]) -> HashTable:
    """A table of distinct keys, at most half full."""
    size = 1 << max(4, (2 * len(low)).bit_length())
    table_low = np.zeros(size, np.uint64)
    table_high = None if high is None else np.zeros(size, np.uint64)
    table_value = np.full(size, ABSENT, np.uint32)
    owner = np.full(size, -1, np.int64)
    slot = _slots(low, high, size).copy()
    pending = np.arange(len(low))
    probes = 1
    while True:
        free = pending[owner[slot[pending]] < 0]
        owner[slot[free]] = free  # of several candidates for a slot one wins
        pending = pending[owner[slot[pending]] != pending]
        if len(pending) == 0:
            break
        slot[pending] = (slot[pending] + 1) & (size - 1)
        probes += 1
    table_low[slot] = low
    if table_high is not None and high is not None:
        table_high[slot] = high
    table_value[slot] = value
    return HashTable(table_low, table_high, table_value, probes)
