"""What a certificate says, as :mod:`~toktier.certificates.derive` finds it and the cuts use it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import record

#: Bits of a table's entries: a text may be cut here and goes on from its right side; both sides are texts of
#: their own; only if the very characters at the place, and what lies around it, allow it; whatever the other bits
#: say, a text may be cut here if an added token ends here that is sure to be found.
RESTARTS, CLOSES, ASK, ENDS = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)

#: The names of a certificate's arrays.
ARRAYS = ("atom_of", "restarts", "closes", "adjacent", "class_of", "table", "mapped")


@record
class Certificate:
    """What is derived once per artifact.

    ``refusal``: why no place is certified, or None.  ``prefix``: the normalizer puts something before every text.
    ``states``: how many a position of a text can have (1 for barriers).  ``atom_of``: uint8 (0x110000,), the
    atom of each *normalized* code point, and ``restarts``, ``closes``: bool (atoms, atoms).  ``adjacent``: for
    barriers, see :func:`~toktier.certificates.barriers.adjacent_pairs`; else empty.  ``class_of``: uint8
    (0x110000,), the class of each raw code point; ``table``: uint8 (classes, classes), bits RESTARTS, CLOSES and
    ASK.  ``mapped``: int64 (k, 2), the raw code points that the normalizer replaces by another one and beside
    which a cut may stand.
    """

    refusal: str | None
    prefix: bool
    states: int
    atom_of: NDArray[np.uint8]
    restarts: NDArray[np.bool_]
    closes: NDArray[np.bool_]
    adjacent: NDArray[np.uint64]
    class_of: NDArray[np.uint8]
    table: NDArray[np.uint8]
    mapped: NDArray[np.int64]
