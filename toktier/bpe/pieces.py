"""From pieces to ids: whole-piece look-up, and BPE for what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batch import merge_words
from .hashing import ABSENT, KeyTable
from .memo import IdsAndCounts, ranges
from .symbols import FirstSymbols
from .tables import PADDING, SHORT, Merges, TokenBytes, short_keys
from .windows import merge_long
from .word import PairRanks, merge_long_word, merge_word

#: Pieces above this many bytes are encoded by windows.
_LONG = 400
#: Fewer pieces than this are merged one by one, and so are fewer than this of over ``_MEDIUM`` bytes, for
#: each round of a batch costs the same however few words are left in it.
_FEW = 24
_MEDIUM = 40
#: Bytes of pieces merged in one batch, so that its arrays stay in the processor's cache.
_BATCH = 1 << 17


@dataclass(frozen=True, slots=True)
class PieceTables:
    """All that encoding pieces needs, immutable.

    ``whole`` finds pieces of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token.  ``whole_long``
    holds longer ones, but only those that merging does not make (which a model with ``ignore_merges`` takes all
    the same).
    """

    merges: Merges
    first: FirstSymbols
    whole: KeyTable
    whole_long: dict[bytes, int]


def long_tokens(tokens: TokenBytes, wanted: NDArray[np.bool_]) -> dict[bytes, int]:
    """Those of the ``wanted`` tokens that have more than :data:`~toktier.bpe.tables.SHORT` bytes."""
    lengths = np.diff(tokens.offsets)
    blob = tokens.blob.tobytes()
    ids = np.flatnonzero(wanted & (lengths > SHORT))
    spans = zip(tokens.offsets[ids].tolist(), tokens.offsets[ids + 1].tolist(), ids.tolist(), strict=True)
    return {blob[start:stop]: id for start, stop, id in spans}


class PieceEncoder:
    """Encodes pieces from the tables alone; immutable but for what it remembers of single pairs.

    ``reference`` encodes one piece by the reference's model, for the rare long piece that windows cannot join.
    """

    def __init__(self, tables: PieceTables, reference: Callable[[bytes], list[int]]) -> None:
        self.tables = tables
        self._reference = reference
        self._ranks = PairRanks(tables.merges.table)
        self._results = memoryview(tables.merges.result)  # type: ignore[arg-type]  # arrays are buffers

    def encode(self, pieces: Sequence[bytes]) -> IdsAndCounts:
        """The ids of non-empty pieces in a row, uint32, and how many each piece has, int64.

        Meant for distinct pieces: each is encoded anew.
        """
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        starts = np.cumsum(lengths) - lengths
        text = np.frombuffer(b"".join(pieces) + bytes(PADDING), np.uint8)
        whole = self.whole_pieces(text, starts, lengths)
        if self.tables.whole_long:
            long = np.flatnonzero(lengths > SHORT)
            whole[long] = [self.tables.whole_long.get(pieces[i], ABSENT) for i in long.tolist()]

        rest = np.flatnonzero(whole == ABSENT)
        counts = np.ones(len(pieces), np.int64)
        results: list[tuple[NDArray[np.int64], NDArray[np.uint32]]] = []  # piece numbers, their ids in a row
        rest = rest[np.argsort(lengths[rest], kind="stable")]  # words of a length finish together
        medium, last = np.searchsorted(lengths[rest], (_MEDIUM, _LONG), side="right").tolist()
        one_by_one = rest[medium:last] if last - medium < _FEW else rest[:0]
        together = rest[: last - len(one_by_one)]
        if len(together) < _FEW:
            one_by_one, together = rest[:last], rest[:0]
        for i in one_by_one.tolist():
            results.append(self._merge_one(pieces, counts, i))
        size = np.cumsum(lengths[together])
        for batch in np.split(together, np.searchsorted(size, np.arange(_BATCH, int(lengths.sum()), _BATCH))):
            if len(batch):
                results.append(self._merge_batch(pieces, lengths, counts, batch))
        for i in rest[last:].tolist():
            results.append(self._merge_long(pieces, counts, i))

        starts = np.cumsum(counts) - counts
        ids = np.empty(int(counts.sum()), np.uint32)
        ids[starts] = whole
        for numbers, flat in results:
            ids[ranges(starts[numbers], counts[numbers])] = flat
        return ids, counts

    def whole_pieces(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.uint32]:
        """Ids of pieces that are one token, ABSENT for others and for those above SHORT bytes.

        ``text`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.
        """
        long = lengths > SHORT
        if np.count_nonzero(long) > len(lengths) // 2:
            short = np.flatnonzero(~long)
            found = np.full(len(lengths), ABSENT)
            found[short] = self.tables.whole.find(*short_keys(text, starts[short], lengths[short]))
        else:
            found = self.tables.whole.find(*short_keys(text, starts, np.minimum(lengths, SHORT)))
            found[long] = ABSENT
        return found

    def _merge_one(
        self, pieces: Sequence[bytes], counts: NDArray[np.int64], number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        first, _ = self.tables.first.of(pieces[number], np.zeros(1, np.int64))
        ids = merge_word(first.tolist(), self._ranks, self._results)
        counts[number] = len(ids)
        return np.array([number]), np.array(ids, np.uint32)

    def _merge_batch(
        self,
        pieces: Sequence[bytes],
        lengths: NDArray[np.int64],
        counts: NDArray[np.int64],
        numbers: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        text = b"".join(map(pieces.__getitem__, numbers.tolist()))
        first, starts = self.tables.first.of(text, np.cumsum(lengths[numbers]) - lengths[numbers])
        ids, kept = merge_words(first, starts, self.tables.merges)
        counts[numbers] = np.diff(np.append(np.searchsorted(kept, starts), len(kept)))
        return numbers, ids

    def _merge_long(
        self, pieces: Sequence[bytes], counts: NDArray[np.int64], number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        first, _ = self.tables.first.of(pieces[number], np.zeros(1, np.int64))
        ids = merge_long(first, self.tables.merges, self._merge_long_word)
        if ids is None:
            ids = np.array(self._reference(pieces[number]), np.uint32)
        counts[number] = len(ids)
        return np.array([number]), ids

    def _merge_long_word(self, symbols: list[int]) -> tuple[list[int], list[int]]:
        return merge_long_word(symbols, self._ranks, self._results)
