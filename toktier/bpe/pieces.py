"""From pieces to ids: whole-piece look-up, and BPE for what is left."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..lazy import lazy
from ..records import record
from .barriers import Barriers
from .batch import merge_words, word_bounds
from .byte_stages import ByteStages
from .hashing import ABSENT, KeyReader, KeyTable, single_items
from .memo import EncodeSpans, IdsAndCounts, ranges
from .pumping import lengthened, longest_run, run_token, shortened
from .rounds import merge_in_rounds, mergeable_at_once
from .symbols import FirstSymbols, WordSymbols
from .tables import PADDING, SHORT, Merges, TokenBytes
from .whole_pieces import WholePieces
from .windows import merge_long
from .word import PairRanks, merge_long_word, merge_word

#: Pieces above this many bytes are encoded by windows.
_LONG = 400
#: Fewer pieces than this are encoded one by one, without arrays.
_FEW_PIECES = 100
#: Fewer pieces of a batch than this are merged one by one, and so are fewer of over ``_MEDIUM`` bytes, for
#: each round of a batch costs the same however few words are left in it.
_FEW = 24
_MEDIUM = 40
#: Bytes of pieces merged in one batch, so that its arrays stay in the processor's cache.
_BATCH = 1 << 18
#: A word of at most so many symbols is merged without a queue; a longer one of at most ``_ALONE`` without windows.
_QUICK, _ALONE = 64, 2000
#: A word repeats itself if at most so many pairs of neighbours occur among its first symbols.
_FEW_PAIRS, _BEGINNING = 9, 64

Ids = NDArray[np.uint32]


@record
class PieceTables:
    """All that encoding pieces needs, immutable.

    ``whole`` finds pieces of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token.  ``whole_long``
    holds longer ones, but only those that merging does not make (which a model with ``ignore_merges`` takes all
    the same).  ``barriers``: where a piece may be cut further and its parts encoded like pieces; None where that
    is not known to be exact.  ``byte_stages``: those that cut a piece of the text further before it is encoded, if
    there are any; the tokens of ``whole`` are none that they cut.
    """

    merges: Merges
    first: FirstSymbols
    whole: KeyTable
    whole_long: dict[bytes, int]
    barriers: Barriers | None
    byte_stages: ByteStages | None = None


def long_tokens(tokens: TokenBytes, wanted: NDArray[np.bool_]) -> dict[bytes, int]:
    """Those of the ``wanted`` tokens that have more than :data:`~toktier.bpe.tables.SHORT` bytes."""
    lengths = np.diff(tokens.offsets)
    blob = tokens.blob.tobytes()
    ids = np.flatnonzero(wanted & (lengths > SHORT))
    spans = zip(tokens.offsets[ids].tolist(), tokens.offsets[ids + 1].tolist(), ids.tolist(), strict=True)
    return {blob[start:stop]: id for start, stop, id in spans}


class PieceEncoder:
    """Encodes pieces from the tables alone; immutable but for what it remembers of single pairs and runs.

    ``reference`` encodes one piece by the reference's model, for the rare long piece that windows cannot join.
    """

    def __init__(self, tables: PieceTables, reference: Callable[[bytes], list[int]]) -> None:
        self.tables = tables
        self.barriers = tables.barriers
        self._reference = reference
        self._ranks = PairRanks(tables.merges.table)
        self._whole = KeyReader(tables.whole)
        self._whole_pieces = WholePieces(tables.whole)
        self._first = WordSymbols(tables.first)
        self._results = single_items(tables.merges.result)
        self._run_token = lru_cache(256)(lambda symbol: run_token(symbol, self._merge_long_word))

    def encode(self, pieces: Sequence[str]) -> list[bytes]:
        """The ids of each of the non-empty ``pieces``, as the bytes of a uint32 array.

        Meant for distinct pieces: each is encoded anew.
        """
        if len(pieces) < _FEW_PIECES:
            return [array("I", self.encode_one(piece)).tobytes() for piece in pieces]
        data = [piece.encode("utf-8") for piece in pieces]
        lengths = np.fromiter(map(len, data), np.int64, len(data))
        text = np.frombuffer(b"".join(data) + bytes(PADDING), np.uint8)
        ids, counts = self.encode_spans(text, np.cumsum(lengths) - lengths, lengths)
        flat = ids.tobytes()
        return [flat[a:b] for a, b in pairwise([0, *(ids.itemsize * np.cumsum(counts)).tolist()])]

    def encode_one(self, piece: str) -> Sequence[int]:
        """The ids of one piece, without arrays on the way unless it is long."""
        data = piece.encode("utf-8")
        whole = self._whole_piece(data)
        if whole is not None:
            return [whole]
        if self.tables.byte_stages is None:
            return self._merge_one(data)
        found: list[int] = []
        for part in self.tables.byte_stages.cut(data):
            whole = self._whole_piece(part)
            found += self._merge_one(part) if whole is None else [whole]
        return found

    def _whole_piece(self, data: bytes) -> int | None:
        """The id of a piece that is one token, as far as tables tell."""
        if len(data) <= SHORT:
            return self._whole.find(int.from_bytes(data, "little") | len(data) << 120)
        return self.tables.whole_long.get(data)

    def encode_spans(
        self,
        text: NDArray[np.uint8],
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        merge: EncodeSpans | None = None,
    ) -> IdsAndCounts:
        """The ids of non-empty pieces of UTF-8 ``text``, in a row, and how many each piece has.

        Piece i is ``text[starts[i] : starts[i] + lengths[i]]``.  ``text`` must have
        :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.  ``merge`` encodes those that are not one
        token, :meth:`merge_spans` unless given.
        """
        whole = self.whole_pieces(text, starts, lengths)
        rest = np.flatnonzero(whole == ABSENT)
        counts = np.ones(len(starts), np.int64)
        ids, counts[rest] = (merge or self.merge_spans)(text, starts[rest], lengths[rest])
        solved = np.flatnonzero(whole != ABSENT)
        return join([(solved, whole[solved]), (rest, ids)], counts), counts

    def merge_spans(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> IdsAndCounts:
        """As :meth:`encode_spans`, for pieces that :meth:`whole_pieces` did not find."""
        if self.cuts_pieces:
            return self.merge_parts(text, starts, lengths, self.merge_words)
        return self.merge_words(text, starts, lengths)

    def merge_words(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> IdsAndCounts:
        """As :meth:`merge_spans`, for pieces that are not cut further."""
        counts = np.ones(len(starts), np.int64)
        parts: list[tuple[NDArray[np.int64], NDArray[np.uint32]]] = []  # piece numbers, their ids in a row
        rest = np.argsort(lengths, kind="stable")  # words of a length finish together
        if self.tables.whole_long:
            whole = np.full(len(starts), ABSENT)
            for i in np.flatnonzero(lengths > SHORT).tolist():
                piece = text[starts[i] : starts[i] + lengths[i]].tobytes()
                whole[i] = self.tables.whole_long.get(piece, ABSENT)
            solved = np.flatnonzero(whole != ABSENT)
            parts.append((solved, whole[solved]))
            rest = rest[whole[rest] == ABSENT]
        medium, last = np.searchsorted(lengths[rest], (_MEDIUM, _LONG), side="right").tolist()
        one_by_one = rest[medium:last] if last - medium < _FEW else rest[:0]
        together = rest[: last - len(one_by_one)]
        if len(together) < _FEW:
            one_by_one, together = rest[:last], rest[:0]
        long = rest[last:]
        if len(long):
            data = [text[a : a + n].tobytes() for a, n in zip(starts[long], lengths[long], strict=True)]
            for i, ids in zip(long.tolist(), self._merge_long_pieces(data), strict=True):
                counts[i] = len(ids)
                parts.append((np.array([i]), ids))
        for i in one_by_one.tolist():
            piece = text[starts[i] : starts[i] + lengths[i]].tobytes()
            ids = np.array(self._merge_one(piece), np.uint32)
            counts[i] = len(ids)
            parts.append((np.array([i]), ids))
        size = np.cumsum(lengths[together])
        for batch in np.split(together, np.searchsorted(size, np.arange(_BATCH, int(lengths.sum()), _BATCH))):
            if len(batch):
                ids, counts[batch] = self._merge_batch(text, starts[batch], lengths[batch])
                parts.append((batch, ids))
        return join(parts, counts), counts

    def merge_parts(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], merge: EncodeSpans
    ) -> IdsAndCounts:
        """As :meth:`merge_spans`, where :attr:`cuts_pieces`: has ``merge`` encode the parts."""
        words, first = text[ranges(starts, lengths)], np.cumsum(lengths) - lengths
        if self.tables.byte_stages is not None:
            parts = self.tables.byte_stages.starts(words, first)
        else:
            assert self.barriers is not None
            points = np.frombuffer(words.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
            characters = np.flatnonzero(words.view(np.int8) >= -64)
            begins = np.zeros(len(words), np.bool_)
            begins[first] = begins[characters[self.barriers.find_everywhere(points)]] = True
            parts = np.flatnonzero(begins)
        buffer = np.concatenate((words, np.zeros(PADDING, np.uint8)))
        ids, counts = self.encode_spans(buffer, parts, np.diff(parts, append=len(words)), merge)
        return ids, np.add.reduceat(counts, np.searchsorted(parts, first))

    @property
    def cuts_pieces(self) -> bool:
        """Whether pieces are cut into parts that are encoded apart, and that recur more often than they do."""
        return self._has_barriers_everywhere or self.tables.byte_stages is not None

    def whole_pieces(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> NDArray[np.uint32]:
        """Ids of pieces that are one token, ABSENT for others and for those above SHORT bytes.

        ``starts`` ascend; ``text`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.
        """
        return self._whole_pieces.find(text, starts, lengths)

    def _merge_batch(
        self, text: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> IdsAndCounts:
        words = text[ranges(starts, lengths)].tobytes()
        return self._merge_words(*self.tables.first.of(words, np.cumsum(lengths) - lengths))

    def _merge_words(self, symbols: Ids, first: NDArray[np.int64]) -> IdsAndCounts:
        """BPE of many words of symbols, which begin at ``first``."""
        ids, kept = merge_words(symbols, first, self.tables.merges, self._merge_long_word)
        return ids, np.diff(word_bounds(kept, first))

    def _merge_one(self, piece: bytes) -> Sequence[int]:
        """BPE of one piece."""
        if len(piece) <= _LONG:
            symbols = self._first.of(piece)
            if len(symbols) <= _QUICK:
                return merge_word(symbols, self._ranks, self._results)
            return self._merge_long_word(symbols)[0]
        if self._has_barriers_everywhere:
            text = np.frombuffer(piece + bytes(PADDING), np.uint8)
            ids, _ = self.merge_spans(text, np.zeros(1, np.int64), np.array([len(piece)]))
            return ids.tolist()  # type: ignore[no-any-return]
        return self._merge_long_pieces([piece])[0].tolist()  # type: ignore[no-any-return]

    def _merge_long_pieces(self, pieces: Sequence[bytes]) -> list[Ids]:
        """BPE of pieces of over :data:`_LONG` bytes."""
        words = {piece: self.tables.first.of(piece, np.zeros(1, np.int64))[0] for piece in pieces}
        short = dict(words)
        cut: dict[bytes, tuple[int, int, int]] = {}
        for piece, word in words.items():
            run = longest_run(word)
            token = None if run is None else self._run_token(int(word[run[0]]))
            if run is not None and token is not None:
                short[piece], number = shortened(word, run, token[1])
                cut[piece] = (*token, number)
        found = dict(zip(short, self._merge_long_words(list(short.values())), strict=True))
        for piece, left_out in cut.items():
            ids = found[piece]
            found[piece] = None if ids is None else lengthened(ids, *left_out)
            if found[piece] is None:
                found[piece] = self._merge_long_words([words[piece]])[0]
        return [
            np.array(self._reference(piece), np.uint32) if ids is None else ids
            for piece, ids in ((piece, found[piece]) for piece in pieces)
        ]

    def _merge_long_words(self, words: Sequence[Ids]) -> list[Ids | None]:
        """BPE of all as one word, parted by a symbol that no rule takes; None for what cannot be merged here.

        Those that repeat themselves are a word of their own: there rules apply in many places at once.
        """
        distinct = {word.tobytes(): word for word in words}
        repeating = {key: word for key, word in distinct.items() if _repeats(word)}
        others = {key: word for key, word in distinct.items() if key not in repeating}
        found = self._merge_joined(repeating, self._in_rounds) | self._merge_joined(others, self._by_windows)
        # a few of many may keep the others from being merged
        return [
            found[key] if key in found else self._by_windows(distinct[key])
            for key in (word.tobytes() for word in words)
        ]

    def _merge_joined(self, words: Mapping[bytes, Ids], merge: Callable[[Ids], Ids | None]) -> dict[bytes, Ids]:
        """The ids of each word, or nothing if ``merge`` gives up."""
        if not words:
            return {}
        between = np.array([self.tables.merges.table.nothing], np.uint32)
        ids = merge(np.concatenate([part for word in words.values() for part in (word, between)]))
        if ids is None:
            return {}
        ends = np.flatnonzero(ids == between)
        return dict(zip(words, np.split(np.delete(ids, ends), (ends - np.arange(len(ends)))[:-1]), strict=True))

    def _in_rounds(self, symbols: Ids) -> Ids | None:
        return merge_in_rounds(symbols, self.tables.merges, self._at_once)

    @property
    def _has_barriers_everywhere(self) -> bool:
        return self.barriers is not None and self.barriers.everywhere

    def _by_windows(self, symbols: Ids) -> Ids | None:
        if len(symbols) <= _ALONE:
            return np.array(self._merge_long_word(symbols.tolist())[0], np.uint32)
        return merge_long(symbols, self.tables.merges, self._merge_long_word)

    @lazy
    def _at_once(self) -> NDArray[np.bool_]:
        return mergeable_at_once(self.tables.merges)

    def _merge_long_word(self, symbols: list[int]) -> tuple[list[int], list[int]]:
        return merge_long_word(symbols, self._ranks, self._results)


def _repeats(symbols: Ids) -> bool:
    """Whether few pairs of symbols make up the beginning of a word, and so, perhaps, the rest."""
    beginning = symbols[:_BEGINNING].tolist()
    return len(set(pairwise(beginning))) <= _FEW_PAIRS


def join(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[np.uint32]]], counts: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The ids of all pieces in order, from parts: numbers of pieces, and the ids of these in a row."""
    starts = np.cumsum(counts) - counts
    ids = np.empty(int(counts.sum()), np.uint32)
    for numbers, flat in parts:
        ids[ranges(starts[numbers], counts[numbers])] = flat
    return ids
