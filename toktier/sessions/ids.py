"""The ids of a session: one growing array, of which callers hold views.

A view is read-only, costs no copy, and never changes under its holder.  So before ids are rewritten that a view
still in use can see, the array is copied once, at the speed of memory; where nobody holds a view any more, or
none reaches as far as the change, ids are written in place.
"""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import NDArray


class IdBuffer:
    """A growable uint32 array with copy on write.

    An agent that reads :meth:`view`, uses it and drops it costs nothing; one that keeps every view costs a copy
    of the array whenever ids that it has seen change.
    """

    __slots__ = ("_count", "_memory", "_owned", "_views")

    def __init__(self, ids: NDArray[np.uint32], *, shared: bool = False) -> None:
        """Take ``ids`` over; ``shared`` if others hold them too, so that they are copied before any change."""
        self._memory = ids
        self._count = len(ids)
        self._owned = not shared
        self._views: list[tuple[int, weakref.ref[NDArray[np.uint32]]]] = []

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the array, room to grow included."""
        return self._memory.nbytes

    def view(self) -> NDArray[np.uint32]:
        """All ids, read-only."""
        # numpy lets slices of this view refer to the view itself, because the memory below is not an array: so
        # the view lives as long as anything made from it.
        found = np.frombuffer(self._memory.data.toreadonly(), np.uint32, self._count)
        self._views = [entry for entry in self._views if entry[1]() is not None]
        self._views.append((self._count, weakref.ref(found)))
        return found

    def read(self, start: int, stop: int) -> NDArray[np.uint32]:
        """Ids for a moment's use inside the package: later changes show in them."""
        return self._memory[start : min(stop, self._count)]

    def replace(self, start: int, removed: int, fresh: NDArray[np.uint32]) -> None:
        """Put ``fresh`` in place of ``removed`` ids from ``start`` on.

        Costs what is new, plus one move of what follows if the number of ids changes, plus a copy of all if a
        view in use would see the change or there is no room left.
        """
        stop = start + removed
        shift = len(fresh) - removed
        count = self._count + shift
        if count > len(self._memory) or not self._owned or (start < self._count and self._is_seen(start)):
            memory = np.empty(count + (count >> 3) + 1024, np.uint32)
            memory[:start] = self._memory[:start]
            memory[stop + shift : count] = self._memory[stop : self._count]
            self._memory, self._owned, self._views = memory, True, []
        elif shift and stop < self._count:
            raw = self._memory.data
            raw[stop + shift : count] = raw[stop : self._count]  # one memmove, where numpy would copy twice
        self._memory.data[start : start + len(fresh)] = fresh.data  # numpy would let go of the interpreter's lock
        self._count = count

    def _is_seen(self, start: int) -> bool:
        return any(count > start and view() is not None for count, view in self._views)
