"""The window engine: ids of stretches of a text that begin and end at certified cuts."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backends.python import PythonBackend
from ..cuts import SafeCuts
from .anchors import Anchors

if TYPE_CHECKING:
    from ..tokenizer import Encoding, Special, Tokenizer

#: Characters of a stretch that are encoded in one go; the cuts between are anchors.
PART = 1 << 15
#: Stretches below this many characters go to the ``python`` backend, piece by piece.
_LONG = 12_000
_ID_SIZE = 4


class Cuts:
    """Certified cuts, from the pairs that close."""

    def __init__(self, cuts: SafeCuts | None, reason: str | None) -> None:
        self._cuts = cuts
        self._inside = cuts._inside if cuts is not None else frozenset()
        self.refusal = reason or (cuts.unavailable if cuts is not None else "no engine of ours runs it")

    def last(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The last certified cut p with ``low < p < high``."""
        reach = 32
        while True:
            start = max(low, high - reach)
            found = self._closing(text, start, high)
            for at in reversed(found):
                if text[at - 1 : at + 1] not in self._inside:
                    return at
            if start == low:
                return None
            reach *= 4

    def first(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The first certified cut p with ``low < p < high``."""
        for at in self._closing(text, low, high):
            if text[at - 1 : at + 1] not in self._inside:
                return at
        return None

    def _closing(self, text: str, low: int, high: int) -> list[int]:
        cuts = self._cuts
        assert cuts is not None
        points = np.frombuffer(text[low:high].encode("utf-32-le"), np.uint32)
        atoms = cuts._atom_of.take(points).astype(np.int64)
        closing = cuts._closes[atoms[:-1] * cuts._width + atoms[1:]]
        if cuts._allowed is not None:
            allowed = cuts._allowed.take(points)
            closing &= allowed[:-1] & allowed[1:]
        found: list[int] = (closing.nonzero()[0] + (low + 1)).tolist()
        return found


class Engine:
    """F of one tokenizer: what a stretch between certified cuts is encoded to.

    ``refusal`` says why a tokenizer's texts cannot be encoded in stretches, or is None.
    ``characters`` counts what was encoded.
    """

    def __init__(self, tokenizer: Tokenizer, special: Special) -> None:
        self.tokenizer = tokenizer
        self.special: Special = "encode" if special == "raise" else special
        self.cuts = Cuts(tokenizer._cuts, tokenizer._unsupported)
        post = tokenizer._post
        self.refusal = self.cuts.refusal
        if post.truncation is not None or post.padding is not None:
            self.refusal = "it truncates or pads every text"
        backend = tokenizer._backends.get("python")
        self._python = backend if isinstance(backend, PythonBackend) else None
        self.characters = 0

    def window(self, text: str, at_start: bool) -> Window:
        """Encode a stretch; ``at_start``: it is the beginning of its text."""
        self.characters += len(text)
        if self._python is not None and len(text) < _LONG:
            return self._by_pieces(self._python, text, at_start)
        if len(text) <= PART + PART // 4:
            return Window(self, text, self._encode(text, at_start), NO_ANCHORS)
        edges = [0]
        while len(text) - edges[-1] > PART + PART // 4:
            wanted = edges[-1] + PART
            found = self.cuts.last(text, edges[-1], wanted, True)
            if found is None:
                found = self.cuts.first(text, wanted - 1, len(text), True)
            if found is None:
                break
            edges.append(found)
        spans = pairwise([*edges, len(text)])
        parts = [self._encode(text[start:stop], at_start and not start) for start, stop in spans]
        tokens = np.cumsum([len(part) for part in parts], dtype=np.int64)[:-1]
        return Window(self, text, np.concatenate(parts), Anchors(np.array(edges[1:], np.int64), tokens))

    def whole(self, text: str, by_reference: bool) -> NDArray[np.uint32]:
        """The ids of a whole text, by the reference or by whatever engine is the fastest."""
        self.characters += len(text)
        backend = "reference" if by_reference else None
        return self.tokenizer.encode_to_numpy(text, False, special=self.special, backend=backend)

    def spans(self, text: str) -> Encoding:
        """The ids of a stretch with their offsets."""
        self.characters += len(text)
        return self.tokenizer.encode_with_offsets(text, False, special=self.special)

    def _encode(self, text: str, at_start: bool) -> NDArray[np.uint32]:
        return self.tokenizer.encode_to_numpy(text, False, special=self.special)

    def _by_pieces(self, backend: PythonBackend, text: str, at_start: bool) -> Window:
        prepared = self.tokenizer._prepare(text, self.special)
        pieces, before = backend._pieces(prepared)
        encoded = backend._memo.encode(pieces)
        ids: NDArray[np.uint32] = np.frombuffer(b"".join(encoded), np.uint32)
        if before:
            ends = [0, *accumulate(map(len, encoded))]
            ids = np.insert(ids, [ends[count] // _ID_SIZE for count in before], prepared.ids)
        window = Window(self, text, ids, NO_ANCHORS)
        if prepared.unchanged:
            window.pieces = _Pieces(pieces, encoded, prepared.starts, before)
        return window


class Window:
    """A stretch that has been encoded.

    ``ids``: uint32.  ``anchors``: those inside it, counted from its beginning; only long stretches have any.
    """

    __slots__ = ("_engine", "anchors", "ids", "pieces", "text")

    def __init__(self, engine: Engine, text: str, ids: NDArray[np.uint32], anchors: Anchors) -> None:
        self._engine = engine
        self.text, self.ids, self.anchors = text, ids, anchors
        self.pieces: _Pieces | None = None

    def behind(self, cut: int) -> int:
        """How many ids lie behind a certified cut.

        They are counted piece by piece, from the right; where the engine shows no pieces, what lies behind the
        cut is encoded once more.
        """
        found = self.pieces.behind(cut, len(self.text)) if self.pieces is not None else None
        return len(self._engine.window(self.text[cut:], False).ids) if found is None else found


class _Pieces(NamedTuple):
    """Pieces with their ids as bytes; the starts of added tokens, and how many pieces come before each."""

    pieces: list[str]
    encoded: list[bytes]
    starts: NDArray[np.int64]
    before: list[int]

    def behind(self, cut: int, size: int) -> int | None:
        """How many ids lie behind ``cut`` in the text of ``size`` characters; None if it is within a piece."""
        place, added, found = len(self.pieces), len(self.before) - 1, 0
        while size > cut:
            if added >= 0 and place == self.before[added]:
                size = int(self.starts[added])
                added -= 1
                found += _ID_SIZE
            else:
                place -= 1
                size -= len(self.pieces[place])
                found += len(self.encoded[place])
        return found // _ID_SIZE if size == cut else None


NO_ANCHORS = Anchors(np.empty(0, np.int64), np.empty(0, np.int64))
