"""The ``python`` backend: the readable path, and the fastest one for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ..bpe.pieces import PieceEncoder
from ..compiled import Split
from ..segments import NO_POSITIONS, PreparedText

#: Pieces longer than this are not remembered.
_LONGEST_REMEMBERED = 128
#: What the memo may hold, in entries of a few hundred bytes each.
_MOST_REMEMBERED = 1 << 17


class PythonBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "python"

    def __init__(self, split: Split, pieces: PieceEncoder) -> None:
        self._split = split
        self._pieces = pieces
        self._memo: dict[str, tuple[int, ...]] = {}

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if not len(text.starts):
            return np.array(self._encode_plain(text.text), np.uint32), NO_POSITIONS
        ids: list[int] = []
        added: list[int] = []
        for segment, id in self._segments(text):
            ids += self._encode_plain(segment)
            if id is not None:
                added.append(len(ids))
                ids.append(id)
        return np.array(ids, np.uint32), np.array(added, np.int64)

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

    def _encode_plain(self, segment: str) -> list[int]:
        pieces = self.split(segment)
        ids = list(map(self._memo.get, pieces))
        if None in ids:
            unknown = list(dict.fromkeys(p for p, known in zip(pieces, ids, strict=True) if known is None))
            fresh = self._encode_unknown(unknown)
            ids = [fresh[p] if known is None else known for p, known in zip(pieces, ids, strict=True)]
        return list(chain.from_iterable(ids))  # type: ignore[arg-type]

    def _encode_unknown(self, pieces: list[str]) -> dict[str, tuple[int, ...]]:
        flat, counts = self._pieces.encode_afresh([piece.encode("utf-8") for piece in pieces])
        ids = flat.tolist()
        ends = np.cumsum(counts).tolist()
        fresh = {p: tuple(ids[a:b]) for p, (a, b) in zip(pieces, pairwise([0, *ends]), strict=True)}
        if len(self._memo) + len(fresh) > _MOST_REMEMBERED:
            self._memo = {}
        self._memo.update((p, found) for p, found in fresh.items() if len(p) <= _LONGEST_REMEMBERED)
        return fresh
