"""What pieces were encoded to before: a bounded memo from a piece to its ids.

It only remembers.  Every id in it comes from exact BPE, and a piece that is not in it is encoded again, so
that the ids never depend on what was encoded before.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .hashing import ABSENT

#: Ids of pieces in a row, uint32, and how many each piece has, int64.
IdsAndCounts: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.int64]]
#: Encodes pieces that are stretches of a text, given with where each begins and its length in bytes.
EncodeSpans: TypeAlias = Callable[[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], IdsAndCounts]

#: Longer pieces are not remembered; they hardly recur.
_LONGEST = 400
#: What stands for a piece without characters, which is an added token: no id, for the caller to put one there.
_ADDED = {"": ABSENT.tobytes()}
#: What an entry costs besides the piece's characters and its ids (objects, dictionary slot), in bytes.
_ENTRY = 200


class Memo:
    """Encodes pieces by ``encode``, remembering them; safe to share between threads.

    The ids of a piece are the bytes of a uint32 array: joining them is all that a text of known pieces costs.
    ``budget`` bounds what is held, in bytes; when it is full it is emptied.
    """

    def __init__(self, encode: Callable[[list[str]], list[bytes]], budget: int = 64 << 20) -> None:
        self._encode: Callable[[list[str]], list[bytes]] = encode
        self._budget = budget
        self._known: dict[str, bytes] = {**_ADDED}
        self._cost = 0
        self._lock = threading.Lock()
        renew_lock_after_fork(self)

    def encode(self, pieces: Sequence[str]) -> list[bytes]:
        """The ids of each of the ``pieces``; an empty one has :data:`~toktier.bpe.hashing.ABSENT` for its id."""
        found = list(map(self._known.get, pieces))
        if all(found):
            return found  # type: ignore[return-value]  # no None is true
        unknown = [at for at, ids in enumerate(found) if ids is None]
        names = [pieces[at] for at in unknown]
        distinct = list(dict.fromkeys(names))
        fresh = dict(zip(distinct, self._encode(distinct), strict=True))
        self._remember(fresh)
        for at, ids in zip(unknown, map(fresh.__getitem__, names), strict=True):
            found[at] = ids
        return found  # type: ignore[return-value]

    def _remember(self, fresh: dict[str, bytes]) -> None:
        if max(map(len, fresh), default=0) > _LONGEST:
            fresh = {piece: ids for piece, ids in fresh.items() if len(piece) <= _LONGEST}
        cost = sum(map(len, fresh)) + sum(map(len, fresh.values())) + _ENTRY * len(fresh)
        if self._lock.locked():
            return  # rather than wait for another thread
        with self._lock:  # an interrupt right after acquire() would leave it locked
            if self._cost + cost > self._budget:
                self._known, self._cost = {**_ADDED}, 0
            if cost <= self._budget:
                self._known.update(fresh)
                self._cost += cost


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64], step: int = 1) -> NDArray[np.int64]:
    """``starts[0], starts[0] + step, …``, as many as ``counts[0]`` says, then those from ``starts[1]``, …."""
    if bool((counts == 1).all()):  # as is usual
        return starts
    if not counts.all():
        filled = np.flatnonzero(counts)
        starts, counts = starts[filled], counts[filled]
    ends = np.cumsum(counts, dtype=np.int64)
    steps = np.full(int(ends[-1]) if len(ends) else 0, step, np.int64)
    steps[:1] = starts[:1]
    steps[ends[:-1]] = starts[1:] - starts[:-1] - step * (counts[:-1] - 1)
    return np.cumsum(steps, out=steps)


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
