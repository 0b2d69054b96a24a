"""Pre-tokenizer stages behind ``ByteLevel`` (Falcon's): they see bytes, each written as a character.

``Digits`` takes some of these for numbers (``¼``, which is the byte 0xBC), so that a piece may end inside a
character.  What stands before ``ByteLevel`` cuts the text into pieces of whole characters, and these stages are a
part of encoding such a piece: a memo of pieces remembers what came of it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..patterns.lanes import Splitter
from ..records import record


@record
class ByteStages:
    """``atom_of``: uint8 (256,), the atom of each byte; ``splitter`` runs over atoms."""

    atom_of: NDArray[np.uint8]
    splitter: Splitter

    def starts(self, data: NDArray[np.uint8], pieces: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where parts begin in pieces that begin at ``pieces``, int64; these are among them."""
        begins = np.zeros(len(data), np.bool_)
        begins[pieces] = True
        return np.flatnonzero(self.splitter.piece_starts(self.atom_of.take(data), begins))

    def cut(self, piece: bytes) -> list[bytes]:
        """The parts of one piece, by the standard library's ``re`` alone."""
        begins = self.splitter.run_alone(self.atom_of.take(np.frombuffer(piece, np.uint8)))
        return [piece[start:stop] for start, stop in pairwise([*np.flatnonzero(begins).tolist(), len(piece)])]
