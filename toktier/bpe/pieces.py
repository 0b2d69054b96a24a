"""From pieces to ids: whole-piece look-up, a bounded memo, and BPE for what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .batch import merge_words
from .hashing import ABSENT, KeyTable
from .symbols import FirstSymbols
from .tables import PADDING, SHORT, Merges, TokenBytes, short_keys
from .windows import merge_long
from .word import PairRanks, merge_word

#: Pieces above this many bytes are encoded by windows.
_LONG = 400
#: Fewer pieces than this are merged one by one.
_FEW = 24
#: Bytes of pieces merged in one batch, so that its arrays stay in the processor's cache.
_BATCH = 1 << 17
#: What an entry of the memo costs besides the piece's own bytes (dictionary slot, objects, ids), in bytes.
_ENTRY = 200


@dataclass(frozen=True, slots=True)
class PieceTables:
    """All that encoding pieces needs, immutable.

    ``whole`` finds pieces of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token, ``whole_long``
    longer ones.
    """

    merges: Merges
    first: FirstSymbols
    whole: KeyTable
    whole_long: dict[bytes, int]


def whole_long_tokens(tokens: TokenBytes, usable: NDArray[np.bool_]) -> dict[bytes, int]:
    """Tokens of more than :data:`~toktier.bpe.tables.SHORT` bytes that a whole piece may be looked up as."""
    lengths = np.diff(tokens.offsets)
    blob = tokens.blob.tobytes()
    ids = np.flatnonzero(usable & (lengths > SHORT))
    spans = zip(tokens.offsets[ids].tolist(), tokens.offsets[ids + 1].tolist(), ids.tolist(), strict=True)
    return {blob[start:stop]: id for start, stop, id in spans}


@dataclass(slots=True)
class _Memo:
    """Ids of pieces seen before: ``slot[piece]`` is position and count in ``ids``, packed."""

    slot: dict[bytes, int] = field(default_factory=dict)
    ids: NDArray[np.uint32] = field(default_factory=lambda: np.empty(1 << 12, np.uint32))
    used: int = 0
    cost: int = 0


_COUNT_BITS = 24
_COUNT_MASK = (1 << _COUNT_BITS) - 1


class PieceEncoder:
    """Encodes pieces; safe to share between threads.

    ``reference`` encodes one piece by the reference's model, for the rare long piece that windows cannot join.
    ``budget`` bounds the memo, in bytes; when it is full it is emptied.
    """

    def __init__(
        self,
        tables: PieceTables,
        reference: Callable[[bytes], list[int]],
        budget: int = 64 << 20,
    ) -> None:
        self.tables = tables
        self._reference = reference
        self._budget = budget
        self._memo = _Memo()
        self._lock = threading.Lock()
        self._ranks = PairRanks(tables.merges.table)
        self._results = memoryview(tables.merges.result)  # type: ignore[arg-type]  # arrays are buffers

    def encode(self, pieces: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The ids of non-empty pieces in a row, uint32, and how many each piece has, int64."""
        memo = self._memo
        slots = list(map(memo.slot.get, pieces))
        if None in slots:
            unknown = list(dict.fromkeys(p for p, slot in zip(pieces, slots, strict=True) if slot is None))
            fresh = self._remember(memo, unknown, *self.encode_afresh(unknown))
            slots = [fresh[p] if slot is None else slot for p, slot in zip(pieces, slots, strict=True)]
        packed = np.array(slots, np.int64)
        counts = packed & _COUNT_MASK
        return memo.ids[ranges(packed >> _COUNT_BITS, counts)], counts

    def _remember(
        self, memo: _Memo, pieces: list[bytes], ids: NDArray[np.uint32], counts: NDArray[np.int64]
    ) -> dict[bytes, int]:
        """Append to ``memo`` and return the new slots.

        Readers take no lock: ids are written before the slots that point at them, and an array is replaced by
        a longer copy, never shortened.  A full memo is left to the calls that hold it.
        """
        with self._lock:
            start, stop = memo.used, memo.used + len(ids)
            if stop > len(memo.ids):
                longer = np.empty(2 * stop, np.uint32)
                longer[:start] = memo.ids[:start]
                memo.ids = longer
            memo.ids[start:stop] = ids
            memo.used = stop
            slots = ((start + np.cumsum(counts) - counts) << _COUNT_BITS | counts).tolist()
            fresh = dict(zip(pieces, slots, strict=True))
            memo.slot.update((p, slot) for p, slot in fresh.items() if len(p) <= _LONG)
            memo.cost += 4 * len(ids) + sum(map(len, pieces)) + _ENTRY * len(pieces)
            if memo.cost > self._budget and memo is self._memo:
                self._memo = _Memo()
        return fresh

    def encode_afresh(self, pieces: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The same as :meth:`encode`, from the tables alone; meant for distinct pieces."""
        lengths = np.array([len(piece) for piece in pieces], np.int64)
        starts = np.cumsum(lengths) - lengths
        text = np.frombuffer(b"".join(pieces) + bytes(PADDING), np.uint8)
        whole = self.whole_pieces(text, starts, lengths)
        get_long = self.tables.whole_long.get
        for i in np.flatnonzero(lengths > SHORT).tolist():
            whole[i] = get_long(pieces[i], ABSENT)

        rest = np.flatnonzero(whole == ABSENT)
        counts = np.ones(len(pieces), np.int64)
        results: list[tuple[NDArray[np.int64], NDArray[np.uint32]]] = []  # piece numbers, their ids in a row
        short = rest[lengths[rest] <= _LONG]
        if len(short) < _FEW:
            for i in short.tolist():
                results.append(self._merge_one(pieces, counts, i))
        else:
            order = short[np.argsort(lengths[short], kind="stable")]  # words of a length finish together
            batches = np.searchsorted(
                np.cumsum(lengths[order]), np.arange(_BATCH, lengths[order].sum(), _BATCH)
            )
            for batch in np.split(order, batches):
                results.append(self._merge_batch(pieces, counts, batch))
        for i in rest[lengths[rest] > _LONG].tolist():
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
        low, high = short_keys(text, starts, np.minimum(lengths, SHORT))
        found = self.tables.whole.find(low, high)
        found[lengths > SHORT] = ABSENT
        return found

    def _merge_one(
        self, pieces: Sequence[bytes], counts: NDArray[np.int64], number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        first, _ = self.tables.first.of(np.frombuffer(pieces[number], np.uint8), np.zeros(1, np.int64))
        ids = merge_word(first.tolist(), self._ranks, self._results)
        counts[number] = len(ids)
        return np.array([number]), np.array(ids, np.uint32)

    def _merge_batch(
        self, pieces: Sequence[bytes], counts: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        words = [pieces[i] for i in numbers.tolist()]
        lengths = np.array([len(word) for word in words], np.int64)
        first, starts = self.tables.first.of(
            np.frombuffer(b"".join(words), np.uint8), np.cumsum(lengths) - lengths
        )
        ids, kept = merge_words(first, starts, self.tables.merges)
        counts[numbers] = np.diff(np.append(np.searchsorted(kept, starts), len(kept)))
        return numbers, ids

    def _merge_long(
        self, pieces: Sequence[bytes], counts: NDArray[np.int64], number: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        first, _ = self.tables.first.of(np.frombuffer(pieces[number], np.uint8), np.zeros(1, np.int64))
        ids = merge_long(first, self.tables.merges)
        if ids is None:
            ids = np.array(self._reference(pieces[number]), np.uint32)
        counts[number] = len(ids)
        return np.array([number]), ids


def ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """``starts[0], …, starts[0] + counts[0] - 1, starts[1], …``."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)
