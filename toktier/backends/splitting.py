"""Piece starts on arrays: a text as atoms, the machine's lanes over it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..bpe.memo import ranges
from ..compiled import Split
from ..records import record
from ..segments import NO_POSITIONS, PreparedText


@record
class EncodedText:
    """A text in the forms that the steps need.

    ``wide``: where the characters of more than one byte are, if they are few, and ``extra`` the bytes beyond
    the first that they and those before them have.  If they are many, ``at_byte`` tells where every character
    begins.  All are None where a character is a byte.
    """

    data: bytes  # UTF-8
    atoms: NDArray[np.uint8]  # (characters,)
    points: NDArray[np.uint32] | None = None  # code points, if many are beyond ASCII
    wide: NDArray[np.int64] | None = None
    extra: NDArray[np.int64] | None = None
    at_byte: NDArray[np.int64] | None = None

    def bytes_at(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where characters, given in ascending order, begin in ``data``."""
        if self.at_byte is not None:
            return self.at_byte.take(characters)
        if self.wide is None or self.extra is None:
            return characters
        after = np.searchsorted(characters, self.wide, side="right")
        counts = np.diff(after, prepend=0, append=len(characters))
        shifts: NDArray[np.int64] = np.repeat(np.concatenate(([0], self.extra)), counts)
        return characters + shifts


class Splitting:
    """Reads texts and cuts them into pieces; immutable."""

    def __init__(self, split: Split) -> None:
        self._split = split
        self._ascii_atoms = split.atom_of[:256].tobytes()

    def read(self, text: PreparedText) -> EncodedText:
        """The text in the forms that the steps need; raises ``UnicodeEncodeError`` for a lone surrogate."""
        data = text.text.encode("utf-8")
        atoms: NDArray[np.uint8]
        wide = extra = at_byte = many = None
        if len(data) == len(text.text):
            atoms = np.frombuffer(data.translate(self._ascii_atoms), np.uint8)
        else:
            points = np.frombuffer(text.text.encode("utf-32-le"), np.uint32)
            beyond = points >= 0x80
            if np.count_nonzero(beyond) < len(points) // 8:
                wide = np.flatnonzero(beyond)
                own = points[wide]
                extra = np.cumsum(1 + (own >= 0x800) + (own >= 0x10000), dtype=np.int64)
                # all but those few are bytes, for which the standard library is faster than a table look-up
                atoms = np.frombuffer(bytearray(points.astype(np.uint8)).translate(self._ascii_atoms), np.uint8)
                atoms[wide] = self._split.atom_of[own]
            else:
                atoms = self._split.atom_of.take(points, mode="clip")
                many = points
                at_byte = np.flatnonzero(np.frombuffer(data, np.int8) >= -64)  # not a continuation byte
        if len(text.starts):
            atoms = atoms if atoms.flags.writeable else atoms.copy()
            atoms[ranges(text.starts, text.stops - text.starts)] = self._split.splitter.end
        return EncodedText(data, atoms, many, wide, extra, at_byte)

    def starts(
        self, text: PreparedText, atoms: NDArray[np.uint8], barriers: NDArray[np.int64] = NO_POSITIONS
    ) -> NDArray[np.int64]:
        """Where pieces begin, an added token being one piece: characters, int64.

        ``barriers``: where to cut them further.
        """
        begins = self._split.splitter.piece_starts(atoms)
        begins[barriers] = True
        if len(text.starts):
            begins[ranges(text.starts, text.stops - text.starts)] = False
            begins[text.starts] = True
        return np.flatnonzero(begins)
