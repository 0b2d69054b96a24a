"""The ``numpy`` backend: piece starts, whole-piece look-up and merging on arrays.

The steps of :meth:`NumpyBackend.encode` are those of the paper's GPU path (section 4): class of each
character, piece starts, whole pieces by exact key, BPE for the rest, output.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..bpe.hashing import ABSENT
from ..bpe.span_memo import SpanMemo
from ..bpe.tables import PADDING
from ..compiled import Split
from ..segments import NO_IDS, NO_POSITIONS, PreparedText
from .splitting import Splitting

if TYPE_CHECKING:
    from ..bpe.pieces import PieceEncoder
    from ..word_encoder import WordEncoder


class NumpyBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "numpy"

    def __init__(self, split: Split, pieces: PieceEncoder | WordEncoder) -> None:
        self._end = split.splitter.end
        self._removed = split.removed
        self._pieces = pieces
        merge = pieces.merge_spans
        if pieces.cuts_pieces:  # new words have parts that are not new
            parts = SpanMemo(pieces.merge_words)
            merge = partial(pieces.merge_parts, merge=parts.encode)
        self._memo = SpanMemo(merge)
        self._splitting = Splitting(split)

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if not text.text:
            return NO_IDS, NO_POSITIONS
        encoded = self._splitting.read(text)
        starts = self._splitting.starts(text, encoded, self._pieces.barriers)
        characters, starts = starts, encoded.bytes_at(starts)
        lengths = np.empty_like(starts)  # np.diff takes four times as long
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1] = len(encoded.data) - starts[-1]
        if self._removed is not None:
            kept = np.flatnonzero(~self._removed.take(encoded.atoms.take(characters)))
            characters, starts, lengths = characters[kept], starts[kept], lengths[kept]
        added = NO_POSITIONS
        if len(text.ids):
            added = np.flatnonzero(encoded.atoms.take(characters) == self._end)
        buffer = np.frombuffer(encoded.data + bytes(PADDING), np.uint8)
        ids = self._pieces.whole_pieces(buffer, starts, lengths)
        ids[added] = 0  # any id, so that they do not count as missing
        missing = np.flatnonzero(ids == ABSENT)
        if len(missing):
            fresh, counts = self._memo.encode(buffer, starts.take(missing), lengths.take(missing))
            ids = _replace(ids, missing, fresh, counts)
            if len(added):
                grown = np.concatenate(([0], np.cumsum(counts - 1)))
                added = added + grown[np.searchsorted(missing, added)]
        ids[added] = text.ids
        return ids, added

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        return self._splitting.starts(text, self._splitting.read(text))


def _replace(
    ids: NDArray[np.uint32], at: NDArray[np.int64], fresh: NDArray[np.uint32], counts: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """``ids`` with each that is ABSENT, those ``at``, replaced by the next ``counts`` of ``fresh``."""
    times = np.ones(len(ids), np.int64)
    times[at] = counts
    result = np.repeat(ids, times)
    result[np.flatnonzero(result == ABSENT)] = fresh
    return result
