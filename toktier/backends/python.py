"""The ``python`` backend: the readable path, and the fastest one for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ..bpe.memo import Memo
from ..bpe.pieces import PieceEncoder
from ..compiled import Split
from ..segments import NO_IDS, NO_POSITIONS, PreparedText


class PythonBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "python"

    def __init__(self, split: Split, pieces: PieceEncoder) -> None:
        self._split = split
        self._memo: Memo[str] = Memo(lambda unknown: pieces.encode([piece.encode("utf-8") for piece in unknown]))

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if not len(text.starts):
            pieces = self.split(text.text)
            return (self._memo.encode(pieces)[0] if pieces else NO_IDS), NO_POSITIONS
        parts, added, length = [], [], 0
        for segment, id in self._segments(text):
            pieces = self.split(segment)
            if pieces:
                parts.append(self._memo.encode(pieces)[0])
                length += len(parts[-1])
            if id is not None:
                parts.append(np.array([id], np.uint32))
                added.append(length)
                length += 1
        return np.concatenate(parts), np.array(added, np.int64)

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        lengths: list[int] = []
        widths = chain((text.stops - text.starts).tolist(), (0,))
        for (segment, added), width in zip(self._segments(text), widths, strict=True):
            lengths += map(len, self.split(segment))
            if added is not None:
                lengths.append(width)
        return np.cumsum([0, *lengths], dtype=np.int64)[:-1]

    @staticmethod
    def _segments(text: PreparedText) -> Iterator[tuple[str, int | None]]:
        """The stretches between added tokens, each with the id of the token after it."""
        end = 0
        for start, stop, id in zip(text.starts.tolist(), text.stops.tolist(), text.ids.tolist(), strict=True):
            yield text.text[end:start], id
            end = stop
        yield text.text[end:], None

    def split(self, segment: str) -> list[str]:
        """The pieces of a text without added tokens."""
        if segment.isascii():
            pieces = [segment] if segment else []
            for pattern in self._split.ascii_patterns:
                pieces = list(chain.from_iterable(map(pattern.findall, pieces)))
            return pieces
        atoms = self._split.atom_of.take(np.frombuffer(segment.encode("utf-32-le"), np.uint32)).tobytes()
        classes = [atoms]
        for atom_pattern in self._split.atom_patterns:
            classes = list(chain.from_iterable(map(atom_pattern.findall, classes)))
        ends = np.cumsum([0, *map(len, classes)]).tolist()
        return [segment[start:stop] for start, stop in pairwise(ends)]
