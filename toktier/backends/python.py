"""The ``python`` backend: the readable path, and the faster of ours for short texts.

A compiled pattern cuts the text into pieces, a bounded memo remembers their ids, and what it does not know is
encoded by exact BPE.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..bpe.barriers import Barriers
from ..bpe.hashing import ABSENT, single_items
from ..bpe.memo import Memo
from ..bpe.pieces import PieceEncoder
from ..compiled import Split
from ..lazy import lazy
from ..patterns.stand_in import STAND_IN
from ..segments import NO_POSITIONS, PreparedText
from .splitting import KeptCharacters, Splitting

if TYPE_CHECKING:
    from ..word_encoder import WordEncoder

#: For texts of at least this many characters the pieces are found on arrays, as the ``numpy`` backend does, which
#: is faster from here on; the pattern stays the way for short texts and :meth:`PythonBackend.piece_starts`.
_LONG = 12_000
#: Control characters that texts hardly ever contain.
_SEPARATORS = "\x00\x01\x02\x03"
#: Below so many bytes of UTF-8 beyond one a character, looking for barriers in a text takes longer than it spares.
_WORTH = 80
#: New pieces are cut at barriers if together they have so many characters, and are no more; more go to arrays.
_MANY = 100
#: In texts of fewer characters each is looked at by itself, which is faster than arrays.
_FEW = 50


class PythonBackend:
    """See :class:`~toktier.backends.base.Backend`."""

    name = "python"

    def __init__(self, split: Split, pieces: PieceEncoder | WordEncoder) -> None:
        self._split = split
        self._barriers = pieces.barriers
        self._splitting = Splitting(split)
        self._encode_new = pieces.encode
        self._parts = Memo(pieces.encode)
        everywhere = self._barriers is not None and self._barriers.everywhere
        self._memo = Memo(self._encode_by_parts if everywhere else pieces.encode)
        self._keeps = KeptCharacters(split)

    def encode(self, text: PreparedText) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        if len(text.text) < _LONG and self._kept is not None:
            pieces = self._kept_pieces(text, self._kept)
        else:
            cut = self._pieces if len(text.text) < _LONG else self._pieces_by_arrays
            pieces = self._without_removed(cut(text, self._barriers))
        ids = np.frombuffer(bytearray().join(self._memo.encode(pieces)), np.uint32)
        if not len(text.ids):
            return ids, NO_POSITIONS
        added = np.flatnonzero(ids == ABSENT)
        ids[added] = text.ids
        return ids, added

    def piece_starts(self, text: PreparedText) -> NDArray[np.int64]:
        pieces = self._pieces(text, None)
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        lengths[lengths == 0] = text.stops - text.starts
        return np.cumsum(lengths) - lengths

    def _encode_by_parts(self, pieces: list[str]) -> list[bytes]:
        """The ids of new pieces; of some texts their parts, which recur more often than they do."""
        text = "".join(pieces)
        if len(text) < _MANY or len(pieces) > _MANY:
            return self._encode_new(pieces)
        assert self._barriers is not None
        ends = [0, *accumulate(map(len, pieces))]
        cuts = sorted({*ends, *self._barriers.find_everywhere(_points(text)).tolist()})
        parts = self._parts.encode([text[a:b] for a, b in pairwise(cuts)])
        return [b"".join(parts[a:b]) for a, b in pairwise([bisect_left(cuts, end) for end in ends])]

    # All that follows makes pieces of the stretches between added tokens, with "" for each added token.

    def _pieces(self, text: PreparedText, barriers: Barriers | None) -> list[str]:
        """The pieces by the patterns, cut further at ``barriers`` where that pays."""
        stand_in, more = self._stand_in(text.text)
        if not more:
            return _by_stretches(text, partial(self._cut, stand_in))
        further: list[int] = []
        if barriers is not None and more > max(_WORTH, len(text.text) // 2):
            further = barriers.find(_points(text.text)).tolist()

        def cut(start: int, stop: int) -> list[str]:
            found = self._cut(stand_in, start, stop)
            ends = list(accumulate(map(len, found), initial=start))
            inside = further and further[bisect_right(further, start) : bisect_left(further, stop)]
            if inside:
                ends = sorted({*ends, *inside})
            if inside or more > len(text.text) // 4:  # hardly a piece is all ASCII
                return [text.text[a:b] for a, b in pairwise(ends)]
            for at, piece in enumerate(found):
                if not piece.isascii():
                    found[at] = text.text[ends[at] : ends[at + 1]]
            return found

        return _by_stretches(text, cut)

    def _without_removed(self, pieces: list[str]) -> list[str]:
        if self._split.removed is None:
            return pieces
        return [piece for piece in pieces if not piece or self._keeps[piece[0]]]

    @lazy
    def _kept(self) -> re.Pattern[str] | None:
        """A pattern that passes over what is left out of the text, where one stage is all that cuts it."""
        removed = self._split.removed
        if removed is None or len(self._split.patterns) > 1 or self._barriers is not None:
            return None
        gone = np.concatenate((removed[self._split.atom_of[:STAND_IN]], removed[:-1]))
        characters = re.escape("".join(map(chr, np.flatnonzero(gone).tolist())))
        return re.compile(f"(?![{characters}])(?:{self._split.patterns[0].pattern})")

    def _kept_pieces(self, text: PreparedText, pattern: re.Pattern[str]) -> list[str]:
        """The pieces that stay in the text, by the pattern."""
        stand_in, more = self._stand_in(text.text)

        def cut(start: int, stop: int) -> list[str]:
            stretch = stand_in[start:stop]  # look-behinds end there
            if not more:
                found: list[str] = pattern.findall(stretch)
                return found
            own = text.text[start:stop]
            return [own[a:b] for a, b in map(re.Match.span, pattern.finditer(stretch))]

        return _by_stretches(text, cut)

    def _pieces_by_arrays(self, text: PreparedText, barriers: Barriers | None) -> list[str]:
        """As :meth:`_pieces`, by the machine instead of the pattern."""
        starts = self._splitting.starts(text, self._splitting.read(text), barriers)
        pieces = _split(text.text, starts)
        for at in np.searchsorted(starts, text.starts).tolist():
            pieces[at] = ""
        return pieces

    def _stand_in(self, text: str) -> tuple[str, int]:
        """What the patterns run over (:mod:`toktier.patterns.stand_in`), and the bytes beyond one a character.

        Raises ``UnicodeEncodeError`` for a lone surrogate.
        """
        if text.isascii():
            return text, 0
        more = len(text.encode("utf-8")) - len(text)
        if len(text) < _FEW:
            return text.translate(self._single_stand_ins), more
        # bytes, as each step over arrays lets go of the interpreter's lock, and threads that take turns at it on
        # two cores lose more time than the step takes
        return self._stand_ins[_points(text)].tobytes().decode("latin-1"), more

    @lazy
    def _stand_ins(self) -> NDArray[np.uint8]:
        """The stand-in of each code point."""
        found = self._split.atom_of + np.uint8(STAND_IN)
        found[:STAND_IN] = np.arange(STAND_IN)
        return found

    @lazy
    def _single_stand_ins(self) -> memoryview:
        """The stand-ins for ``str.translate``, by code point."""
        return single_items(self._stand_ins)

    def _cut(self, text: str, start: int, stop: int) -> list[str]:
        """Pieces of ``text[start:stop]``: each stage cuts the pieces of the one before."""
        if not self._split.patterns:
            return [text[start:stop]] if start < stop else []
        pieces: list[str] = self._split.patterns[0].findall(text[start:stop])  # look-behinds end there
        for pattern in self._split.patterns[1:]:
            pieces = list(chain.from_iterable(map(pattern.findall, pieces)))
        return pieces


def _by_stretches(text: PreparedText, cut: Callable[[int, int], list[str]]) -> list[str]:
    """What ``cut`` makes of all stretches between added tokens, with "" for each of these."""
    if not len(text.starts):
        return cut(0, len(text.text))
    starts, stops = [*text.starts.tolist(), len(text.text)], text.stops.tolist()
    pieces = cut(0, starts[0])
    for start, stop in zip(stops, starts[1:], strict=True):
        pieces.append("")
        pieces += cut(start, stop)
    return pieces


def _points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def _split(text: str, starts: NDArray[np.int64]) -> list[str]:
    """The text cut at ``starts``, of which the first is 0."""
    separator = next((mark for mark in _SEPARATORS if mark not in text), None)
    if separator is None or not text:
        return [text[a:b] for a, b in pairwise([*starts.tolist(), len(text)])]
    # with a mark put between any two, the standard library cuts faster than by one slice each
    codec = "ascii" if text.isascii() else "utf-32-le"
    codes = np.frombuffer(text.encode(codec), np.uint8 if codec == "ascii" else np.uint32)
    return np.insert(codes, starts[1:], ord(separator)).tobytes().decode(codec).split(separator)
