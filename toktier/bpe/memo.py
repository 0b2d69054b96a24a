"""What pieces were encoded to before: a bounded memo from a piece to its ids.

It only remembers.  Every id in it comes from exact BPE, and a piece that is not in it is encoded again, so
that the ids never depend on what was encoded before.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Ids of pieces in a row, uint32, and how many each piece has, int64.
IdsAndCounts: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.int64]]

#: Longer pieces are not remembered; they hardly recur.
_LONGEST = 400
#: What an entry costs besides the piece's characters and its ids (objects, dictionary slot), in bytes.
_ENTRY = 200
_COUNT_BITS = 32
_COUNT_MASK = (1 << _COUNT_BITS) - 1


@dataclass(slots=True)
class _Entries:
    """``slot[piece]`` is position and count in ``ids``, packed into one number."""

    slot: dict[str, int] = field(default_factory=dict)
    ids: NDArray[np.uint32] = field(default_factory=lambda: np.empty(1 << 12, np.uint32))
    used: int = 0
    cost: int = 0


class Memo:
    """Encodes pieces by ``encode``, remembering them; safe to share between threads.

    ``budget`` bounds what it holds, in bytes; when it is full it is emptied.
    """

    def __init__(self, encode: Callable[[list[str]], IdsAndCounts], budget: int = 64 << 20) -> None:
        self._encode: Callable[[list[str]], IdsAndCounts] = encode
        self._budget = budget
        self._entries: _Entries = _Entries()
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    def encode(self, pieces: Sequence[str]) -> IdsAndCounts:
        """The ids of non-empty pieces."""
        entries = self._entries
        slots = list(map(entries.slot.get, pieces))
        if None in slots:
            unknown = [piece for piece, slot in zip(pieces, slots, strict=True) if slot is None]
            distinct = list(dict.fromkeys(unknown))
            fresh = self._remember(entries, distinct, *self._encode(distinct))
            found = map(fresh.__getitem__, unknown)
            slots = [next(found) if slot is None else slot for slot in slots]
        packed = np.array(slots, np.int64)
        counts = packed & _COUNT_MASK
        return entries.ids[ranges(packed >> _COUNT_BITS, counts)], counts

    def _remember(
        self, entries: _Entries, pieces: list[str], ids: NDArray[np.uint32], counts: NDArray[np.int64]
    ) -> dict[str, int]:
        """Append to ``entries`` and return the new slots.

        Readers take no lock: ids are written before the slots that point at them, and the array is replaced by
        a longer copy, never shortened.  Full entries are left to the calls that hold them.
        """
        with self._lock:
            start, stop = entries.used, entries.used + len(ids)
            if stop > len(entries.ids):
                longer = np.empty(2 * stop, np.uint32)
                longer[:start] = entries.ids[:start]
                entries.ids = longer
            entries.ids[start:stop] = ids
            entries.used = stop
            slots = ((start + np.cumsum(counts) - counts) << _COUNT_BITS | counts).tolist()
            fresh = dict(zip(pieces, slots, strict=True))
            if max(map(len, pieces)) <= _LONGEST:
                entries.slot.update(fresh)
            else:
                entries.slot.update((p, slot) for p, slot in fresh.items() if len(p) <= _LONGEST)
            entries.cost += 4 * len(ids) + sum(map(len, pieces)) + _ENTRY * len(pieces)
            if entries.cost > self._budget and entries is self._entries:
                self._entries = _Entries()
        return fresh


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``starts[0], …, starts[0] + counts[0] - 1, starts[1], …``."""
    if bool((counts == 1).all()):  # as is usual
        return starts
    ends = np.cumsum(counts, dtype=np.int64)
    shifts: NDArray[np.int64] = np.repeat(starts - (ends - counts), counts)
    return np.arange(len(shifts)) + shifts


class _Locked(Protocol):
    _lock: threading.Lock


_locked: weakref.WeakSet[_Locked] = weakref.WeakSet()


def renew_lock_after_fork(memo: _Locked) -> None:
    """A lock that another thread held at the moment of a fork would stay locked in the child."""
    _locked.add(memo)


def _renew_locks() -> None:
    for memo in list(_locked):
        memo._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
