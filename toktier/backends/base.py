"""What every engine of our own provides."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..segments import PreparedText


class Backend(Protocol):
    """Encodes prepared text: the stretches between added tokens cut into pieces, the pieces encoded.

    An implementation is immutable, or guards what it remembers, so that threads may share it.
    """

    name: str

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """All ids, those of the added tokens in their places among them, uint32 of shape (tokens,); and the
        indices of the added tokens' ids, int64 of the shape of ``text.ids``."""
        ...

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        """Where pieces begin: character positions, int64, an added token being one piece."""
        ...
