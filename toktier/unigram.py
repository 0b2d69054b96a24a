"""Unigram: of all ways to cut a piece into vocabulary entries, the one with the greatest sum of scores.

The best way is found from the left (Viterbi): the best one to a place is an entry that ends there after the best
way to its beginning.  Of two that are equally good it is the one whose last entry begins first, since a later one
has to be better.  A character that is no entry is unknown, at a score below all others, and neighbouring unknown
characters are one token.  Sums are of 64-bit floats, added from the left, and must be: they decide near ties.
(Kudo, "Subword Regularization", 2018.)

The entries are a trie over code points.  Of many pieces all walk it from all places together, and then take the
steps of the search together.

**Parts.**  Between two characters that stand side by side in no entry there is no entry either, so all ways pass
that place.  Which one is best behind it is not a matter of what stands before, but for what sums are rounded to;
and where the best way to each place that it passes is better than the others by more than :data:`_CLOSE`,
rounding cannot change that.  So a piece is cut at such places, and its parts, which recur more often than it
does, are encoded for themselves.  Where a part has ways that are close, or unknown tokens meet at a cut, the
piece is encoded as a whole.

Adding up to ``_LONG`` terms, to a sum that stays below ``_GREATEST``, gives an error of ``_LONG * _GREATEST /
2**53`` at most.  A comparison has two such sums, in the piece and in the part alone: four errors, less than
``_CLOSE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .bpe.hashing import ABSENT, KeyTable, PairTable, single_items
from .bpe.memo import EncodeSpans, IdsAndCounts, ranges
from .bpe.pieces import join
from .bpe.tables import PADDING
from .bpe.word import NO_RULE
from .records import record
from .word_encoder import Numbers, WordEncoder, characters

#: So many pieces are encoded together, unless they have more characters than this.
_MANY = 24
_LONG = 512
#: Entries of a piece of more characters are found for all places together, also if it is the only one.
_ALONE = 200
#: Characters of pieces that are searched at once, so that the arrays stay in the processor's cache.
_BATCH = 1 << 15
#: Odd, of 32 bits, and how many bits of a hash are kept.
_FACTORS, _HASH_BITS = np.array([0x9E3779B1, 0x85EBCA77], np.uint32), 21
#: A piece whose sum may be greater is not cut; ways that differ by less are close.
_GREATEST, _CLOSE = 2.0**28, 2.0**-13


@record
class UnigramTables:
    """A vocabulary, ready for the search; immutable.

    ``whole`` finds pieces of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token.  ``trie``: edges by
    node and code point, the edge of number n leading to node n + 1; the root is 0.  ``accepts``: uint32 (nodes,),
    the token that ends at a node, or ABSENT; ``scores``: float64 (nodes,), its score.  ``of_bytes``: uint32, the
    tokens of the 256 bytes that unknown characters are written with, ABSENT for none; empty if they are not.
    ``neighbours``: the characters that stand side by side in entries, see :func:`neighbours`.
    ``unknown``: the id of the unknown token, and ``unknown_score`` what one unknown character counts.
    """

    whole: KeyTable
    trie: PairTable
    accepts: NDArray[np.uint32]
    scores: NDArray[np.float64]
    of_bytes: NDArray[np.uint32]
    neighbours: NDArray[np.uint8]
    unknown: int
    unknown_score: float

    def encoder(self) -> UnigramEncoder:
        """The encoder that has these tables."""
        return UnigramEncoder(self)


class UnigramEncoder(WordEncoder):
    """Encodes pieces from the tables alone; see :class:`~toktier.bpe.pieces.PieceEncoder`."""

    cuts_pieces = True

    def __init__(self, tables: UnigramTables) -> None:
        super().__init__(tables.whole, tables.trie, tables.accepts, _MANY)
        self.tables = tables
        self._scores = single_items(tables.scores)
        greatest = max(abs(tables.unknown_score), float(np.abs(tables.scores).max()))
        self._longest_cut = _GREATEST / greatest

    def encode_one(self, piece: str) -> list[int]:
        """The ids of one piece."""
        if len(piece) > _ALONE:
            return self._encode_long(np.frombuffer(piece.encode("utf-32-le"), np.uint32))
        edges, accepts, scores = self._edges, self._accepts, self._scores
        shift = edges.shift
        points = [*map(ord, piece)]
        size = len(points)
        best = [0.0] + [float("-inf")] * size
        origin, token = [0] * (size + 1), [self.tables.unknown] * (size + 1)
        for start in range(size):
            here, node, alone = best[start], 0, False
            for stop in range(start + 1, size + 1):
                edge = edges[node << shift | points[stop - 1]]
                if edge == NO_RULE:
                    break
                node = edge + 1
                id = accepts[node]
                if id == NO_RULE:
                    continue
                alone = alone or stop == start + 1
                if scores[node] + here > best[stop]:
                    best[stop], origin[stop], token[stop] = scores[node] + here, start, id
            if not alone and self.tables.unknown_score + here > best[start + 1]:
                best[start + 1], origin[start + 1] = self.tables.unknown_score + here, start
                token[start + 1] = self.tables.unknown
        return self._best(piece, origin, token)

    def _best(self, piece: str, origin: Sequence[int], token: Sequence[int]) -> list[int]:
        """The ids of the best way: where the last entry of the best way to each place begins, and which it is."""
        unknown = self.tables.unknown
        ids: list[int] = []
        stop = len(piece)
        while stop:
            start = origin[stop]
            if token[stop] == unknown:
                while start and token[start] == unknown:
                    start = origin[start]
                ids += reversed(self._unknown(piece[start:stop]))
            else:
                ids.append(token[stop])
            stop = start
        return ids[::-1]

    def _encode_long(self, points: NDArray[np.uint32]) -> list[int]:
        """The ids of one piece, of which all entries are found together."""
        size = len(points)
        entries = self._entries(np.append(points, np.uint32(self.tables.trie.nothing)), np.arange(size))
        order = np.argsort(entries[0], kind="stable")
        best = [0.0] + [float("-inf")] * size
        origin, token = [0] * (size + 1), [0] * (size + 1)
        for start, stop, id, score in zip(*(column[order].tolist() for column in entries), strict=True):
            total = score + best[start]
            if total > best[stop]:
                best[stop], origin[stop], token[stop] = total, start, id
        return self._best(points.tobytes().decode("utf-32-le"), origin, token)

    def _unknown(self, text: str) -> list[int]:
        """The ids of unknown characters in a row: they may be an entry all the same, or be written as bytes."""
        node = 0
        for char in text:
            edge = self._edges[node << self._edges.shift | ord(char)]
            node = edge + 1
            if edge == NO_RULE:
                break
        else:
            if self._accepts[node] != NO_RULE:
                return [self._accepts[node]]
        if len(self.tables.of_bytes):
            found: list[int] = self.tables.of_bytes[[*text.encode()]].tolist()
            if NO_RULE not in found:
                return found
        return [self.tables.unknown]

    def encode_points(self, points: NDArray[np.uint32], sizes: Numbers) -> IdsAndCounts:
        """The ids of pieces of ``sizes`` characters that stand one after another in ``points``; their counts."""
        first = np.cumsum(sizes) - sizes
        counts = np.zeros(len(sizes), np.int64)
        parts = []
        short = np.flatnonzero(sizes <= _LONG)
        if len(short) >= _MANY:
            ids, counts[short] = self._search(points, first[short], sizes[short])
            parts.append((np.flatnonzero(counts), ids))
        for i in np.flatnonzero(counts == 0).tolist():
            found = self.encode_one(points[first[i] : first[i] + sizes[i]].tobytes().decode("utf-32-le"))
            counts[i] = len(found)
            parts.append((np.array([i]), np.array(found, np.uint32)))
        return join(parts, counts), counts

    def merge_words(self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> IdsAndCounts:
        """The ids of parts of pieces, none for a part that has to be seen in its piece, and how many each has."""
        points, sizes = characters(text[ranges(starts, lengths)], np.cumsum(lengths) - lengths)
        counts = np.zeros(len(sizes), np.int64)
        short = np.flatnonzero(sizes <= _LONG)
        ids, counts[short] = self._search(points, (np.cumsum(sizes) - sizes)[short], sizes[short], parts=True)
        return ids, counts

    def merge_parts(
        self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers, merge: EncodeSpans
    ) -> IdsAndCounts:
        """As :meth:`merge_spans`: has the parts merged, and sees to it that no piece is without ids."""
        if len(starts) < _MANY and lengths.sum() < _LONG:
            return self.merge_spans(text, starts, lengths)
        words, first = text[ranges(starts, lengths)], np.cumsum(lengths) - lengths
        points = np.frombuffer(words.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
        begins = np.flatnonzero(words.view(np.int8) >= -64)  # characters
        cut = np.zeros(len(words), np.bool_)
        cut[first] = cut[begins[1:][~_are_neighbours(self.tables.neighbours, points)]] = True
        parts = np.flatnonzero(cut)
        ids, counts = merge(
            np.concatenate((words, np.zeros(PADDING, np.uint8))), parts, np.diff(parts, append=len(words))
        )
        number = np.searchsorted(parts, first)
        together = np.add.reduceat(counts, number)
        unsure = (np.add.reduceat(counts == 0, number) > 0) | (lengths > self._longest_cut)
        unknown = np.flatnonzero(ids == self.tables.unknown)
        fused = unknown[np.flatnonzero(np.diff(unknown) == 1)]
        unsure[np.searchsorted(np.cumsum(together), fused, side="right")] = True
        if not unsure.any():
            return ids, together
        again, sure = np.flatnonzero(unsure), np.flatnonzero(~unsure)
        kept = ids[np.repeat(~unsure, together)]
        fresh, together[again] = self.merge_spans(text, starts[again], lengths[again])
        return join([(sure, kept), (again, fresh)], together), together

    def _search(
        self, points: NDArray[np.uint32], first: Numbers, sizes: Numbers, parts: bool = False
    ) -> IdsAndCounts:
        """Ids and counts of pieces of ``sizes`` characters from ``first`` on; none where more has to be looked at.

        That is so where an unknown token may stand for several characters, or for bytes.  ``parts``: and where
        other ways are nearly as good.
        """
        counts = np.zeros(len(sizes), np.int64)
        found = []
        order = np.argsort(sizes, kind="stable")
        for batch in np.split(
            order, np.searchsorted(np.cumsum(sizes[order]), np.arange(_BATCH, len(points), _BATCH))
        ):
            if len(batch):
                own = points[ranges(first[batch], sizes[batch])]
                ids, counts[batch] = self._search_batch(own, sizes[batch], parts)
                found.append((batch, ids))
        return join(found, counts), counts

    def _search_batch(self, points: NDArray[np.uint32], sizes: Numbers, parts: bool) -> IdsAndCounts:
        """As :meth:`_search`, for pieces that stand one after another in ``points``, all at once."""
        ends = np.cumsum(sizes + 1) - 1  # behind each piece stands something that no edge takes
        first = ends - sizes
        text = np.full(len(points) + len(sizes), self.tables.trie.nothing, np.uint32)
        inside = ranges(first, sizes)
        text[inside] = points
        start, stop, token, score = self._entries(text, inside)
        step = start - np.repeat(first, sizes + 1)[start]
        order = np.argsort(step.astype(np.uint16), kind="stable")  # of 16 bits, which numpy sorts by radix
        start, stop, token, score = start[order], stop[order], token[order], score[order]
        best, last = np.full(len(text), -np.inf), np.zeros(len(text), np.int64)
        best[first] = 0.0
        for a, b in pairwise([0, *np.cumsum(np.bincount(step)).tolist()]):
            total = score[a:b] + best[start[a:b]]
            better = np.flatnonzero(total > best[stop[a:b]])
            best[stop[a:b][better]], last[stop[a:b][better]] = total[better], a + better
        near = np.zeros(len(text), np.bool_)
        if parts:
            close = np.flatnonzero(score + best[start] > best[stop] - _CLOSE)
            near[stop[close[close != last[stop[close]]]]] = True
        right = np.ones(len(sizes), np.bool_)
        owner, taken = np.arange(len(sizes)), []
        while len(owner):
            entry = last[ends]
            taken.append((owner, token[entry]))
            right[owner[near[ends]]] = False
            ends = start[entry]
            going = np.flatnonzero(ends > first)
            owner, ends, first = owner[going], ends[going], first[going]
        owner, ids = (np.concatenate(column) for column in zip(*taken[::-1], strict=True))
        order = np.argsort(owner, kind="stable")
        owner, ids = owner[order], ids[order]
        unknown = np.flatnonzero(ids == self.tables.unknown)
        if len(self.tables.of_bytes) == 0:  # one by itself is as it should be
            unknown = unknown[np.flatnonzero((np.diff(unknown) == 1) & (np.diff(owner[unknown]) == 0))]
        right[owner[unknown]] = False
        return ids[right[owner]], np.bincount(owner, minlength=len(sizes)) * right

    def _entries(
        self, text: NDArray[np.uint32], starts: Numbers
    ) -> tuple[Numbers, Numbers, NDArray[np.uint32], NDArray[np.float64]]:
        """All entries that begin at ``starts``: where, where they end, which, and their scores."""
        trie, accepts, scores = self.tables.trie, self.tables.accepts, self.tables.scores
        alone = np.zeros(len(text), np.bool_)
        found: list[tuple[Numbers, Numbers, NDArray[np.uint32]]] = []
        at, node, size = starts, np.zeros(len(starts), np.uint32), 0
        while len(at):
            edge = trie.find(node, text.take(at + size))
            size += 1
            going = np.flatnonzero(edge != ABSENT)
            at, node = at[going], edge[going] + np.uint32(1)
            entries = np.flatnonzero(accepts.take(node) != ABSENT)
            found.append((at[entries], at[entries] + size, node[entries]))
            if size == 1:
                alone[at[entries]] = True
        start, stop, node = (np.concatenate(column) for column in zip(*found, strict=True))
        unknown = starts[~alone[starts]]
        return (
            np.concatenate((start, unknown)),
            np.concatenate((stop, unknown + 1)),
            np.concatenate((accepts[node], np.full(len(unknown), self.tables.unknown, np.uint32))),
            np.concatenate((scores[node], np.full(len(unknown), self.tables.unknown_score))),
        )


def neighbours(points: NDArray[np.uint32], sizes: Numbers) -> NDArray[np.uint8]:
    """A bit for each hash of two characters side by side in entries, uint8, little-endian bits.

    ``points``: the code points of entries in a row, each of ``sizes``.
    """
    inside = np.ones(len(points), np.bool_)
    inside[np.cumsum(sizes) - 1] = False
    left = np.flatnonzero(inside)
    found = np.zeros(1 << _HASH_BITS, np.bool_)
    found[_hashes(points[left], points[left + 1])] = True
    return np.packbits(found, bitorder="little")


def _are_neighbours(bits: NDArray[np.uint8], points: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Whether each character and the next may be side by side in an entry."""
    hashes = _hashes(points[:-1], points[1:])
    return (bits.take(hashes >> 3) >> (hashes.astype(np.uint8) & 7) & 1).view(np.bool_)


def _hashes(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A number below ``2 ** _HASH_BITS`` for each pair of code points."""
    mixed: NDArray[np.uint32] = left * _FACTORS[0] + right * _FACTORS[1]
    return mixed >> np.uint32(32 - _HASH_BITS)
