"""The ``numpy`` backend: piece starts, whole-piece look-up and merging on arrays.

The steps of :meth:`NumpyBackend.encode` are those of the paper's GPU path (section 4): class of each
character, piece starts, whole pieces by exact key, BPE for the rest, output.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..bpe.hashing import ABSENT
from ..bpe.memo import Memo, ranges
from ..bpe.pieces import PieceEncoder
from ..bpe.tables import PADDING
from ..compiled import Split
from ..segments import NO_IDS, NO_POSITIONS, PreparedText


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A text in the forms that the steps need.

    ``wide``: where the characters of more than one byte are, if they are few, and ``extra`` the bytes beyond
    the first that they and those before them have.  If they are many, ``at_byte`` tells where every character
    begins.  All are None where a character is a byte.
    """

    data: bytes  # UTF-8
    atoms: NDArray[np.uint8]  # (characters,)
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


class NumpyBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "numpy"

    def __init__(self, split: Split, pieces: PieceEncoder) -> None:
        self._split = split
        self._pieces = pieces
        self._memo: Memo[bytes] = Memo(pieces.encode)
        self._ascii_atoms = split.atom_of[:256].tobytes()

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if not text.text:
            return NO_IDS, NO_POSITIONS
        encoded = self._read(text)
        starts = self._starts(text, encoded.atoms)
        added = NO_POSITIONS
        if len(text.ids):
            added = np.flatnonzero(encoded.atoms.take(starts) == self._split.splitter.end)
        starts = encoded.bytes_at(starts)
        lengths = np.diff(starts, append=len(encoded.data))
        buffer = np.frombuffer(encoded.data + bytes(PADDING), np.uint8)
        ids = self._pieces.whole_pieces(buffer, starts, lengths)
        ids[added] = 0  # any id, so that they do not count as missing
        missing = np.flatnonzero(ids == ABSENT)
        if len(missing):
            spans = zip(starts[missing].tolist(), (starts + lengths)[missing].tolist(), strict=True)
            fresh, counts = self._memo.encode([encoded.data[start:stop] for start, stop in spans])
            ids = _replace(ids, missing, fresh, counts)
            if len(added):
                grown = np.concatenate(([0], np.cumsum(counts - 1)))
                added = added + grown[np.searchsorted(missing, added)]
        ids[added] = text.ids
        return ids, added

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        return self._starts(text, self._read(text).atoms)

    def _read(self, text: PreparedText) -> _Encoded:
        data = text.text.encode("utf-8")
        atoms: NDArray[np.uint8]
        wide = extra = at_byte = None
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
                at_byte = np.flatnonzero(np.frombuffer(data, np.int8) >= -64)  # not a continuation byte
        if len(text.starts):
            atoms = atoms if atoms.flags.writeable else atoms.copy()
            atoms[ranges(text.starts, text.stops - text.starts)] = self._split.splitter.end
        return _Encoded(data, atoms, wide, extra, at_byte)

    def _starts(self, text: PreparedText, atoms: NDArray[np.uint8]) -> NDArray[np.int64]:
        begins = self._split.splitter.piece_starts(atoms)
        if len(text.starts):
            begins[ranges(text.starts, text.stops - text.starts)] = False
            begins[text.starts] = True
        return np.flatnonzero(begins)


def _replace(
    ids: NDArray[np.uint32], at: NDArray[np.int64], fresh: NDArray[np.uint32], counts: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """``ids`` with the one at each of ``at`` replaced by the next ``counts`` of ``fresh``."""
    result = np.empty(len(ids) + len(fresh) - len(at), np.uint32)
    target = ranges(at + np.cumsum(counts) - counts - np.arange(len(at)), counts)
    old = np.ones(len(result), np.bool_)
    old[target] = False
    kept = np.ones(len(ids), np.bool_)
    kept[at] = False
    result[target] = fresh
    result[old] = ids[kept]
    return result
