"""The ``python`` backend: the readable path, and the faster of ours for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

from itertools import accumulate, chain, compress, pairwise

import numpy as np
from numpy.typing import NDArray

from ..bpe.memo import Memo
from ..bpe.pieces import PieceEncoder
from ..compiled import Split
from ..lazy import lazy
from ..patterns.stand_in import STAND_IN
from ..segments import NO_POSITIONS, PreparedText
from .splitting import Splitting

#: For texts of at least this many characters the pieces are found on arrays, as the ``numpy`` backend does: three
#: times as fast as the pattern, which stays the way for short texts and for :meth:`PythonBackend.piece_starts`.
_LONG = 1 << 15
#: Control characters that texts hardly ever contain.
_SEPARATORS = "\x00\x01\x02\x03"


class PythonBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "python"

    def __init__(self, split: Split, pieces: PieceEncoder) -> None:
        self._split = split
        self._splitting = Splitting(split)
        barriers = pieces.word_barriers
        self._memo = Memo(pieces.encode, parts=None if barriers is None else barriers.parts)

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        cut = self._pieces if len(text.text) < _LONG else self._pieces_by_arrays
        pieces, before = cut(text)
        encoded = self._memo.encode(pieces)
        if not before:
            return np.frombuffer(bytearray().join(encoded), np.uint32), NO_POSITIONS
        # the added tokens' ids among the others
        added, size = text.ids.tobytes(), text.ids.itemsize
        woven: list[bytes] = []
        for number, (start, stop) in enumerate(pairwise([0, *before])):
            woven += encoded[start:stop]
            woven.append(added[size * number : size * (number + 1)])
        woven += encoded[before[-1] :]
        ends = list(accumulate(map(len, woven)))
        places = [ends[at + number] // size - 1 for number, at in enumerate(before)]
        return np.frombuffer(bytearray().join(woven), np.uint32), np.array(places, np.int64)

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        pieces, before = self._pieces(text)
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        lengths = np.insert(lengths, before, text.stops - text.starts)
        return np.cumsum(lengths) - lengths

    def _pieces(self, text: PreparedText) -> tuple[list[str], list[int]]:
        """The pieces of all stretches between added tokens, and how many come before each added token."""
        stand_in = self._stand_in(text.text)
        pieces: list[str] = []
        before: list[int] = []
        starts, stops = [0, *text.stops.tolist()], [*text.starts.tolist(), len(text.text)]
        for start, stop in zip(starts, stops, strict=True):
            found = self._cut(stand_in[start:stop])  # look-behinds end there
            if stand_in is not text.text:
                ends = list(accumulate(map(len, found), initial=start))
                for at, is_ascii in enumerate(map(str.isascii, found)):
                    if not is_ascii:
                        found[at] = text.text[ends[at] : ends[at + 1]]
            pieces += found
            before.append(len(pieces))
        return pieces, before[:-1]

    def _pieces_by_arrays(self, text: PreparedText) -> tuple[list[str], list[int]]:
        """The same, by the machine instead of the pattern."""
        starts = self._splitting.starts(text, self._splitting.read(text).atoms)
        pieces = _split(text.text, starts)
        if not len(text.starts):
            return pieces, []
        added = np.searchsorted(starts, text.starts)
        kept = np.ones(len(starts), np.bool_)
        kept[added] = False
        return list(compress(pieces, kept.tolist())), (added - np.arange(len(added))).tolist()

    def _stand_in(self, text: str) -> str:
        """What the patterns run over (:mod:`toktier.patterns.stand_in`)."""
        if text.isascii():
            return text
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        return self._stand_ins[points].tobytes().decode("latin-1")

    @lazy
    def _stand_ins(self) -> NDArray[np.uint8]:
        """The stand-in of each code point."""
        found = self._split.atom_of + np.uint8(STAND_IN)
        found[:STAND_IN] = np.arange(STAND_IN)
        return found

    def _cut(self, text: str) -> list[str]:
        """Pieces of a text: each stage cuts the pieces of the one before."""
        if not self._split.patterns:
            return [text] if text else []
        pieces: list[str] = self._split.patterns[0].findall(text)
        for pattern in self._split.patterns[1:]:
            pieces = list(chain.from_iterable(map(pattern.findall, pieces)))
        return pieces


def _split(text: str, starts: NDArray[np.int64]) -> list[str]:
    """The text cut at ``starts``, of which the first is 0."""
    separator = next((mark for mark in _SEPARATORS if mark not in text), None)
    if separator is None or not text:
        return [text[a:b] for a, b in pairwise([*starts.tolist(), len(text)])]
    # with a mark put between any two, the standard library cuts faster than by one slice each
    codec = "ascii" if text.isascii() else "utf-32-le"
    codes = np.frombuffer(text.encode(codec), np.uint8 if codec == "ascii" else np.uint32)
    return np.insert(codes, starts[1:], ord(separator)).tobytes().decode(codec).split(separator)
