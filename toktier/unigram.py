"""Unigram: of all ways to cut a piece into vocabulary entries, the one with the greatest sum of scores.

The best way is found from the left (Viterbi): the best one to a place is an entry that ends there after the best
way to its beginning.  Of two that are equally good it is the one whose last entry begins first, since a later one
has to be better.  A character that is no entry is unknown, at a score below all others, and neighbouring unknown
characters are one token.  Sums are of 64-bit floats, added from the left, and must be: they decide near ties.
(Kudo, "Subword Regularization", 2018.)

The entries are a trie over code points.  Of many pieces all walk it from all places together, and then take the
steps of the search together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .bpe.hashing import ABSENT, KeyTable, PairTable, single_items
from .bpe.memo import IdsAndCounts, ranges
from .bpe.pieces import join
from .bpe.word import NO_RULE
from .records import record
from .word_encoder import Numbers, WordEncoder

#: So many pieces are encoded together, unless they have more characters than this.
_MANY = 24
_LONG = 512


@record
class UnigramTables:
    """A vocabulary, ready for the search; immutable.

    ``whole`` finds pieces of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token.  ``trie``: edges by
    node and code point, the edge of number n leading to node n + 1; the root is 0.  ``accepts``: uint32 (nodes,),
    the token that ends at a node, or ABSENT; ``scores``: float64 (nodes,), its score.  ``of_bytes``: uint32, the
    tokens of the 256 bytes that unknown characters are written with, ABSENT for none; empty if they are not.
    ``unknown``: the id of the unknown token, and ``unknown_score`` what one unknown character counts.
    """

    whole: KeyTable
    trie: PairTable
    accepts: NDArray[np.uint32]
    scores: NDArray[np.float64]
    of_bytes: NDArray[np.uint32]
    unknown: int
    unknown_score: float

    def encoder(self) -> UnigramEncoder:
        """The encoder that has these tables."""
        return UnigramEncoder(self)


class UnigramEncoder(WordEncoder):
    """Encodes pieces from the tables alone; see :class:`~toktier.bpe.pieces.PieceEncoder`."""

    def __init__(self, tables: UnigramTables) -> None:
        super().__init__(tables.whole, tables.trie, tables.accepts, _MANY)
        self.tables = tables
        self._scores = single_items(tables.scores)

    def encode_one(self, piece: str) -> list[int]:
        """The ids of one piece."""
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
        """The same for pieces of ``sizes`` characters, which stand one after another in ``points``."""
        counts = np.ones(len(sizes), np.int64)
        first = np.cumsum(sizes) - sizes
        short = np.flatnonzero(sizes <= _LONG)
        if len(short) < _MANY:
            short = short[:0]
        one_by_one = np.ones(len(sizes), np.bool_)
        parts = []
        if len(short):
            ids, counts[short], known = self._search(points[ranges(first[short], sizes[short])], sizes[short])
            parts.append((short[known], ids))
            one_by_one[short[known]] = False
        for i in np.flatnonzero(one_by_one).tolist():
            own = points[first[i] : first[i] + sizes[i]]
            found = (
                self._encode_long(own) if sizes[i] > _LONG else self.encode_one(own.tobytes().decode("utf-32-le"))
            )
            counts[i] = len(found)
            parts.append((np.array([i]), np.array(found, np.uint32)))
        return join(parts, counts), counts

    def _search(
        self, points: NDArray[np.uint32], sizes: Numbers
    ) -> tuple[NDArray[np.uint32], Numbers, NDArray[np.bool_]]:
        """Ids and counts of all pieces, and which have no unknown token; the ids are of these alone."""
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
        owner, taken = np.arange(len(sizes)), []
        while len(owner):
            entry = last[ends]
            taken.append((owner, token[entry]))
            ends = start[entry]
            going = np.flatnonzero(ends > first)
            owner, ends, first = owner[going], ends[going], first[going]
        owner, ids = (np.concatenate(column) for column in zip(*taken[::-1], strict=True))
        known = np.ones(len(sizes), np.bool_)
        known[owner[ids == self.tables.unknown]] = False
        counts = np.bincount(owner, minlength=len(sizes))
        owner, ids = owner[known[owner]], ids[known[owner]]
        return ids[np.argsort(owner, kind="stable")], counts, known

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
