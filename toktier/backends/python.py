"""The ``python`` backend: the readable path, and the faster of ours for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain, compress, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..bpe.barriers import Barriers
from ..bpe.memo import Memo
from ..bpe.pieces import PieceEncoder
from ..compiled import Split
from ..lazy import lazy
from ..patterns.stand_in import STAND_IN
from ..segments import NO_IDS, NO_POSITIONS, PreparedText
from .splitting import KeptCharacters, Splitting

if TYPE_CHECKING:
    from ..word_encoder import WordEncoder

#: For texts of at least this many characters the pieces are found on arrays, as the ``numpy`` backend does, which
#: is faster from here on; the pattern stays the way for short texts and :meth:`PythonBackend.piece_starts`.
_LONG = 12_000
#: Control characters that texts hardly ever contain.
_SEPARATORS = "\x00\x01\x02\x03"
#: With fewer characters that are not ASCII, a text is not cut at barriers.
_WORTH = 40
#: What the stand-in of an ASCII text is made of.
_ASCII = bytes(range(STAND_IN))


class PythonBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "python"

    def __init__(self, split: Split, pieces: PieceEncoder | WordEncoder) -> None:
        self._split = split
        self._barriers = pieces.barriers
        self._splitting = Splitting(split)
        self._memo = Memo(pieces.encode)
        self._keeps = KeptCharacters(split)

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if len(text.text) < _LONG and self._kept is not None:
            pieces, before = self._kept_pieces(text, self._kept)
        else:
            cut = self._pieces if len(text.text) < _LONG else self._pieces_by_arrays
            pieces, before = self._without_removed(*cut(text, self._barriers))
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
        ends = np.fromiter(map(len, woven), np.int64, len(woven)).cumsum()
        places = ends[np.array(before) + np.arange(len(before))] // size - 1
        return np.frombuffer(bytearray().join(woven), np.uint32), places

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        pieces, before = self._pieces(text, None)
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        lengths = np.insert(lengths, before, text.stops - text.starts)
        return np.cumsum(lengths) - lengths

    def _pieces(self, text: PreparedText, barriers: Barriers | None) -> tuple[list[str], list[int]]:
        """The pieces of all stretches between added tokens, and how many come before each added token.

        Where that pays, pieces are cut further at ``barriers``.
        """
        stand_in, points, wide = self._stand_in(text.text)
        if not wide:
            return _by_stretches(text, partial(self._cut, stand_in))
        further: list[int] = []
        if barriers is not None and wide > max(_WORTH, len(text.text) // 4):
            further = barriers.find(points).tolist()

        def cut(start: int, stop: int) -> list[str]:
            found = self._cut(stand_in, start, stop)
            ends = list(accumulate(map(len, found), initial=start))
            inside = further[bisect_right(further, start) : bisect_left(further, stop)]
            if inside:
                ends = sorted({*ends, *inside})
            if inside or wide > len(text.text) // 2:
                return [text.text[a:b] for a, b in pairwise(ends)]
            for at, piece in enumerate(found):
                if not piece.isascii():
                    found[at] = text.text[ends[at] : ends[at + 1]]
            return found

        return _by_stretches(text, cut)

    def _without_removed(self, pieces: list[str], before: list[int]) -> tuple[list[str], list[int]]:
        if self._split.removed is None:
            return pieces, before
        kept = [self._keeps[piece[0]] for piece in pieces]
        total = list(accumulate(kept, initial=0))
        return list(compress(pieces, kept)), [total[count] for count in before]

    @lazy
    def _kept(self) -> re.Pattern[str] | None:
        """A pattern that passes over what is left out of the text, where one stage is all that cuts it."""
        removed = self._split.removed
        if removed is None or len(self._split.patterns) > 1 or self._barriers is not None:
            return None
        gone = np.concatenate((removed[self._split.atom_of[:STAND_IN]], removed[:-1]))
        characters = re.escape("".join(map(chr, np.flatnonzero(gone).tolist())))
        return re.compile(f"(?![{characters}])(?:{self._split.patterns[0].pattern})")

    def _kept_pieces(self, text: PreparedText, pattern: re.Pattern[str]) -> tuple[list[str], list[int]]:
        """The pieces that stay in the text, and how many of them come before each added token."""
        stand_in, _, wide = self._stand_in(text.text)

        def cut(start: int, stop: int) -> list[str]:
            stretch = stand_in[start:stop]  # look-behinds end there
            if not wide:
                found: list[str] = pattern.findall(stretch)
                return found
            own = text.text[start:stop]
            return [own[a:b] for a, b in map(re.Match.span, pattern.finditer(stretch))]

        return _by_stretches(text, cut)

    def _pieces_by_arrays(self, text: PreparedText, barriers: Barriers | None) -> tuple[list[str], list[int]]:
        """As :meth:`_pieces`, by the machine instead of the pattern."""
        starts = self._splitting.starts(text, self._splitting.read(text), barriers)
        pieces = _split(text.text, starts)
        if not len(text.starts):
            return pieces, []
        added = np.searchsorted(starts, text.starts)
        stretches = zip([-1, *added.tolist()], [*added.tolist(), len(pieces)], strict=True)
        kept = [piece for before, behind in stretches for piece in pieces[before + 1 : behind]]
        return kept, (added - np.arange(len(added))).tolist()

    def _stand_in(self, text: str) -> tuple[str, NDArray[np.uint32], int]:
        """What the patterns run over (:mod:`toktier.patterns.stand_in`), and how many characters are not ASCII.

        Before the latter come the code points of the text; there are none for an ASCII text.
        """
        if text.isascii():
            return text, NO_IDS, 0
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        # bytes, as each step over arrays lets go of the interpreter's lock, and threads that take turns at it on
        # two cores lose more time than the step takes
        codes = self._stand_ins[points].tobytes()
        return codes.decode("latin-1"), points, len(codes.translate(None, _ASCII))

    @lazy
    def _stand_ins(self) -> NDArray[np.uint8]:
        """The stand-in of each code point."""
        found = self._split.atom_of + np.uint8(STAND_IN)
        found[:STAND_IN] = np.arange(STAND_IN)
        return found

    def _cut(self, text: str, start: int, stop: int) -> list[str]:
        """Pieces of ``text[start:stop]``: each stage cuts the pieces of the one before."""
        if not self._split.patterns:
            return [text[start:stop]] if start < stop else []
        pieces: list[str] = self._split.patterns[0].findall(text[start:stop])  # look-behinds end there
        for pattern in self._split.patterns[1:]:
            pieces = list(chain.from_iterable(map(pattern.findall, pieces)))
        return pieces


def _by_stretches(text: PreparedText, cut: Callable[[int, int], list[str]]) -> tuple[list[str], list[int]]:
    """What ``cut`` makes of all stretches between added tokens, and how many come before each added token."""
    pieces: list[str] = []
    before: list[int] = []
    starts, stops = [0, *text.stops.tolist()], [*text.starts.tolist(), len(text.text)]
    for start, stop in zip(starts, stops, strict=True):
        pieces += cut(start, stop)
        before.append(len(pieces))
    return pieces, before[:-1]


def _split(text: str, starts: NDArray[np.int64]) -> list[str]:
    """The text cut at ``starts``, of which the first is 0."""
    separator = next((mark for mark in _SEPARATORS if mark not in text), None)
    if separator is None or not text:
        return [text[a:b] for a, b in pairwise([*starts.tolist(), len(text)])]
    # with a mark put between any two, the standard library cuts faster than by one slice each
    codec = "ascii" if text.isascii() else "utf-32-le"
    codes = np.frombuffer(text.encode(codec), np.uint8 if codec == "ascii" else np.uint32)
    return np.insert(codes, starts[1:], ord(separator)).tobytes().decode(codec).split(separator)
