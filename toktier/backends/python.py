"""The ``python`` backend: the readable path, and the fastest one for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import AnyStr

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
        pieces, before = self._pieces(text)
        ids, counts = self._memo.encode(pieces) if pieces else (NO_IDS, NO_POSITIONS)
        if not len(text.ids):
            return ids, NO_POSITIONS
        ends = np.concatenate(([0], np.cumsum(counts)))[before]
        return np.insert(ids, ends, text.ids), ends + np.arange(len(ends))

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        pieces, before = self._pieces(text)
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        lengths = np.insert(lengths, before, text.stops - text.starts)
        return np.cumsum(lengths) - lengths

    def _pieces(self, text: PreparedText) -> tuple[list[str], NDArray[np.int64]]:
        """The pieces of all stretches between added tokens, and how many come before each added token."""
        edges = [0, *np.column_stack((text.starts, text.stops)).ravel().tolist(), len(text.text)]
        stretches = zip(edges[0::2], edges[1::2], strict=True)
        before: list[int] = []
        if text.text.isascii():
            pieces: list[str] = []
            for start, stop in stretches:
                pieces += _cut(self._split.ascii_patterns, text.text, start, stop)
                before.append(len(pieces))
            return pieces, np.array(before[:-1], np.int64)
        # for other texts the pattern runs over the atoms, one byte a character
        code_points = np.frombuffer(text.text.encode("utf-32-le"), np.uint32)
        atoms = self._split.atom_of.take(code_points, mode="clip").tobytes()
        pieces = []
        for start, stop in stretches:
            ends = accumulate(map(len, _cut(self._split.atom_patterns, atoms, start, stop)), initial=start)
            pieces += [text.text[a:b] for a, b in pairwise(ends)]
            before.append(len(pieces))
        return pieces, np.array(before[:-1], np.int64)


def _cut(patterns: Sequence[re.Pattern[AnyStr]], text: AnyStr, start: int, stop: int) -> list[AnyStr]:
    """Pieces of ``text[start:stop]``: each stage cuts the pieces of the one before."""
    if not patterns:
        return [text[start:stop]] if start < stop else []
    pieces: list[AnyStr] = patterns[0].findall(text, start, stop)
    for pattern in patterns[1:]:
        pieces = list(chain.from_iterable(map(pattern.findall, pieces)))
    return pieces
