"""What a change of a text changes of its ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import record


@record
class Patch:
    """A change of an id sequence: ``ids[start : start + removed] = patch.ids``.

    It is as small as can be: ``start`` ids are as they were, which is what a cache of prefixes wants to know.
    ``ids``: uint32 (n,), the caller's own.  ``path`` says how it was got:

    ``"unchanged"``
        The text is the same.
    ``"append"``, ``"tail"``, ``"edit"``
        The end was continued; the end was replaced; something in the middle was.  The engine saw the change
        and what lies between it and the nearest certified cuts.
    ``"search"``
        The same as the first two, by the other strategy.
    ``"restore"``
        A checkpoint was put back.
    ``"widened"``
        The stored ids did not fit the stored text close to the change; more was encoded again.
    ``"whole: …"``
        The whole text was encoded, for the reason given.
    """

    start: int
    removed: int
    ids: NDArray[np.uint32]
    path: str


def smallest(stored: NDArray[np.uint32], start: int, removed: int, fresh: NDArray[np.uint32], path: str) -> Patch:
    """The patch without the ids that are the same at either end."""
    if stored.tobytes() == fresh[:removed].tobytes():  # as is usual
        return Patch(start + removed, 0, fresh[removed:], path)
    shorter = min(len(stored), len(fresh))
    before = (stored[:shorter] != fresh[:shorter]).tobytes().find(1)
    before = shorter if before < 0 else before
    shorter -= before
    differ = stored[len(stored) - shorter :] != fresh[len(fresh) - shorter :]
    after = shorter - 1 - differ.tobytes().rfind(1)
    return Patch(start + before, removed - before - after, fresh[before : len(fresh) - after], path)
