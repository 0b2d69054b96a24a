"""What models of characters have in common that look at each word by itself: WordPiece, WordLevel and Unigram."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .bpe.hashing import KeyTable, PairTable, single_items
from .bpe.memo import EncodeSpans, IdsAndCounts, ranges
from .bpe.whole_pieces import WholePieces
from .bpe.word import PairRanks

Numbers = NDArray[np.int64]


class WordEncoder(ABC):
    """Encodes words from tables alone; see :class:`~toktier.bpe.pieces.PieceEncoder`.

    ``whole`` finds words of up to :data:`~toktier.bpe.tables.SHORT` bytes that are one token; ``trie`` and
    ``accepts`` are the vocabulary's, for single steps; ``many`` words are encoded together, fewer one by one.
    """

    #: Texts are not cut further than into words.
    barriers = None
    #: Whether words are cut into parts that recur more often than they do.
    cuts_pieces = False

    def __init__(self, whole: KeyTable, trie: PairTable, accepts: NDArray[np.uint32], many: int) -> None:
        self._whole = WholePieces(whole)
        self._edges = PairRanks(trie)
        self._accepts = single_items(accepts)
        self._many = many

    @abstractmethod
    def encode_one(self, piece: str) -> Sequence[int]:
        """The ids of one piece."""

    @abstractmethod
    def encode_points(self, points: NDArray[np.uint32], sizes: Numbers) -> IdsAndCounts:
        """The ids of words of ``sizes`` characters, which stand one after another in ``points``."""

    def encode(self, pieces: Sequence[str]) -> list[bytes]:
        """The ids of each of the non-empty ``pieces``, as the bytes of a uint32 array."""
        if len(pieces) < self._many:
            return [array("I", self.encode_one(piece)).tobytes() for piece in pieces]
        points = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        ids, counts = self.encode_points(points, np.fromiter(map(len, pieces), np.int64, len(pieces)))
        flat = ids.tobytes()
        return [flat[a:b] for a, b in pairwise([0, *(ids.itemsize * np.cumsum(counts)).tolist()])]

    def whole_pieces(self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> NDArray[np.uint32]:
        """Ids of pieces that are one token, ABSENT for others and for those above SHORT bytes.

        ``starts`` ascend; ``text`` must have :data:`~toktier.bpe.tables.PADDING` bytes after the last piece.
        """
        return self._whole.find(text, starts, lengths)

    def merge_spans(self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> IdsAndCounts:
        """The ids of non-empty pieces that are stretches of UTF-8, and how many each piece has."""
        return self.encode_points(*characters(text[ranges(starts, lengths)], np.cumsum(lengths) - lengths))

    def merge_words(self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers) -> IdsAndCounts:
        """As :meth:`merge_spans`, for the parts of pieces where :attr:`cuts_pieces`."""
        return self.merge_spans(text, starts, lengths)

    def merge_parts(
        self, text: NDArray[np.uint8], starts: Numbers, lengths: Numbers, merge: EncodeSpans
    ) -> IdsAndCounts:
        """As :meth:`merge_spans`, where :attr:`cuts_pieces`: has ``merge`` encode the parts."""
        return merge(text, starts, lengths)


def characters(words: NDArray[np.uint8], first: Numbers) -> tuple[NDArray[np.uint32], Numbers]:
    """The code points of words in UTF-8 that begin at ``first``, and how many each has."""
    points = np.frombuffer(words.tobytes().decode("utf-8").encode("utf-32-le"), np.uint32)
    begins = words.view(np.int8) >= -64
    return points, np.add.reduceat(begins, first, dtype=np.int64)
