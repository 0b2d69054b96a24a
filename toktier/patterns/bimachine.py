"""The two automata of a stage as tables; :mod:`~toktier.patterns.machine` derives them from a pattern."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import record


@record
class Machine:
    """The two automata of one stage, as arrays.

    ``oracle``
        uint8, shape (oracle states, atoms + 1): state at ``i`` from the state at ``i + 1`` and the atom at
        ``i``.  The last column is the end marker, which always leads to state 0, "the text ends here".
    ``walk``
        uint16, shape (walk states, oracle states): the walk state at ``i + 1`` from the one at ``i`` and the
        oracle's state at ``i``.  Walk state 0 is the start of the text.
    ``first``
        The least walk state that is entered by a step that *begins a piece*: a character begins a piece if
        the walk state after it is ``first`` or greater.
    ``has_gaps``
        Whether some text has characters that no match covers.
    ``looks_behind``
        Whether the walk, where it begins a piece, may still remember the character before.
    """

    oracle: NDArray[np.uint8]
    walk: NDArray[np.uint16]
    first: int
    has_gaps: bool
    looks_behind: bool = False
