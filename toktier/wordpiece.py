"""WordPiece: each word is cut into vocabulary entries, from the left, and each time the longest that fits.

An entry that goes on inside a word is written with a prefix (``##`` in BERT's vocabularies).  A word in which some
place fits no entry, or that has too many characters, is one unknown token as a whole.  WordLevel is the same
without entries that go on.

The vocabulary is a trie over code points.  Greedy longest match walks it from the root, keeps in mind the last
entry that it passed, and where it can go no further takes that and begins anew behind it, now from the node that
the prefix leads to.  Of many words all take their steps together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .bpe.hashing import ABSENT, KeyTable, PairTable
from .bpe.memo import IdsAndCounts, ranges
from .bpe.pieces import join
from .bpe.word import NO_RULE
from .records import record
from .word_encoder import Numbers, WordEncoder

#: With fewer words than this left to match, the rest is done one by one.
_FEW = 12
#: So many words are matched together.
_MANY = 48

#: A code point has so many bits.
_POINT = 21

Edges = NDArray[np.uint32]


@record
class WordTables:
    """A vocabulary, ready for matching; immutable.

    ``whole`` finds words of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token.  ``trie``: edges by
    node and code point, the edge of number n leading to node n + 1; the root is 0.  ``accepts``: uint32 (nodes,),
    the token that ends at a node, or ABSENT.  ``inside``: the node from which words go on.  ``unknown``: the id of
    the unknown token.  ``longest``: a word of more characters is unknown.
    """

    whole: KeyTable
    trie: PairTable
    accepts: NDArray[np.uint32]
    inside: int
    unknown: int
    longest: int

    def encoder(self) -> WordPieceEncoder:
        """The encoder that has these tables."""
        return WordPieceEncoder(self)


class WordPieceEncoder(WordEncoder):
    """Encodes words from the tables alone; see :class:`~toktier.bpe.pieces.PieceEncoder`."""

    def __init__(self, tables: WordTables) -> None:
        super().__init__(tables.whole, tables.trie, tables.accepts, _MANY)
        self.tables = tables

    def encode_one(self, piece: str) -> Sequence[int]:
        """The ids of one piece."""
        tables, edges, accepts = self.tables, self._edges, self._accepts
        if len(piece) > tables.longest:
            return [tables.unknown]
        ids: list[int] = []
        points = [*map(ord, piece)]
        start, node = 0, 0
        while start < len(points):
            token, stop = NO_RULE, start
            for at in range(start, len(points)):
                edge = edges[node << edges.shift | points[at]]
                if edge == NO_RULE:
                    break
                node = edge + 1
                if accepts[node] != NO_RULE:
                    token, stop = accepts[node], at + 1
            if token == NO_RULE:
                return [tables.unknown]
            ids.append(token)
            start, node = stop, tables.inside
        return ids

    def encode_points(self, points: NDArray[np.uint32], sizes: Numbers) -> IdsAndCounts:
        """The ids of words of ``sizes`` characters that stand one after another in ``points``; their counts."""
        counts = np.ones(len(sizes), np.int64)
        long = np.flatnonzero(sizes > self.tables.longest)
        if len(long) == 0:
            return self._match(points, sizes)
        parts = [(long, np.full(len(long), self.tables.unknown, np.uint32))]
        short = np.flatnonzero(sizes <= self.tables.longest)
        first, sizes = (np.cumsum(sizes) - sizes)[short], sizes[short]
        ids, counts[short] = self._match(points[ranges(first, sizes)], sizes)
        return join([*parts, (short, ids)], counts), counts

    def _match(self, points: NDArray[np.uint32], sizes: Numbers) -> IdsAndCounts:
        """As :meth:`encode_points`, for words none of which is too long: all walk the trie together."""
        trie, accepts = self.tables.trie, self.tables.accepts
        word = np.arange(len(sizes))
        # behind each word stands something that no edge takes
        text = np.full(len(points) + len(sizes), trie.nothing, np.uint32)
        text[np.arange(len(points)) + np.repeat(word, sizes)] = points
        stop = np.cumsum(sizes + 1) - 1
        start = stop - sizes
        at, behind = start.copy(), start.copy()
        node, token = np.zeros(len(sizes), np.uint32), np.full(len(sizes), ABSENT)
        taken: list[tuple[Numbers, NDArray[np.uint32]]] = []  # words, and the next token of each
        while len(word) >= _FEW:
            edge = trie.find(node, text.take(at))
            node = edge + np.uint32(1)  # where there is no edge that is the root, which accepts nothing
            at += 1
            accepted = accepts.take(node)
            passed = np.flatnonzero(accepted != ABSENT)
            token[passed], behind[passed] = accepted[passed], at[passed]
            stuck = np.flatnonzero(edge == ABSENT)
            if len(stuck) == 0:
                continue
            best, after = token[stuck], behind[stuck]
            taken.append((word[stuck], best))
            at[stuck], node[stuck], token[stuck] = after, self.tables.inside, ABSENT
            going = np.ones(len(word), np.bool_)
            going[stuck[(best == ABSENT) | (after == stop[stuck])]] = False
            word, stop, at, behind = word[going], stop[going], at[going], behind[going]
            node, token = node[going], token[going]
        owner, tokens = (np.concatenate(column) for column in zip((word[:0], token[:0]), *taken, strict=True))
        unknown = np.zeros(len(sizes), np.bool_)
        unknown[owner[tokens == ABSENT]] = True
        apart = unknown.copy()
        apart[word] = True
        tokens, owner = tokens[~apart[owner]], owner[~apart[owner]]
        counts = np.bincount(owner, minlength=len(sizes))
        counts[unknown] = 1
        parts = [
            (np.flatnonzero(~apart), tokens[np.argsort(owner, kind="stable")]),
            (np.flatnonzero(unknown), np.full(np.count_nonzero(unknown), self.tables.unknown, np.uint32)),
        ]
        for i in word.tolist():
            ids = self.encode_one(text[start[i] : start[i] + sizes[i]].tobytes().decode("utf-32-le"))
            counts[i] = len(ids)
            parts.append((np.array([i]), np.array(ids, np.uint32)))
        return join(parts, counts), counts


def make_trie(vocabulary: Mapping[str, int], prefix: str | None) -> tuple[Edges, Edges, NDArray[np.uint32], int]:
    """Nodes and code points of the edges, in order; what the nodes accept; and the node that the prefix leads to.

    The last one is a node that has no edges if the prefix is None.
    """
    texts = [*filter(None, vocabulary)]
    ids = [*map(vocabulary.__getitem__, texts)]
    texts.append(prefix or "")  # it need not be an entry, or the beginning of one
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    first = np.cumsum(sizes) - sizes
    node = np.zeros(len(texts), np.int64)
    edges = [points[:0]]
    nodes = 1
    for depth in range(int(sizes.max())):
        longer = np.flatnonzero(sizes > depth)
        found, which = np.unique(node[longer] << _POINT | points[first[longer] + depth], return_inverse=True)
        node[longer] = nodes + which
        edges.append(found)
        nodes += len(found)
    accepts = np.full(nodes, ABSENT)
    accepts[node[:-1]] = ids
    every = np.concatenate(edges)
    left, right = (every >> _POINT).astype(np.uint32), (every & ((1 << _POINT) - 1)).astype(np.uint32)
    return left, right, accepts, nodes if prefix is None else int(node[-1])
