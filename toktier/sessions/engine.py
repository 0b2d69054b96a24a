"""The window engine: ids of stretches of a text that begin and end at certified cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..cuts import SafeCuts
from ..segments import NO_IDS
from .anchors import Anchors

if TYPE_CHECKING:
    from ..tokenizer import Special, Tokenizer

#: Characters of a stretch that are encoded in one go; the cuts between are anchors.
PART = 1 << 15


class Cuts:
    """Certified cuts, from the pairs that close."""

    def __init__(self, cuts: SafeCuts | None, reason: str | None) -> None:
        self._cuts = cuts
        self.refusal = reason or (cuts.unavailable if cuts is not None else "no engine of ours runs it")

    def last(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The last certified cut p with ``low < p < high``."""
        assert self._cuts is not None
        reach = 32
        while True:
            start = max(low, high - reach)
            found = self.all(text[start:high])
            if len(found):
                return start + int(found[-1])
            if start == low:
                return None
            reach *= 4

    def first(self, text: str, low: int, high: int, closes: bool = False) -> int | None:
        """The first certified cut p with ``low < p < high``."""
        found = self.all(text[low:high])
        return low + int(found[0]) if len(found) else None

    def all(self, text: str, closes: bool = False) -> NDArray[np.int64]:
        """All of them, ascending."""
        cuts = self._cuts
        assert cuts is not None
        found: list[int] = []
        at = 0
        while True:
            position = cuts._within(text, at, len(text))
            if position is None:
                return np.array(found, np.int64)
            found.append(position)
            at = position


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
        self.characters = 0

    def encode(self, text: str, at_start: bool) -> NDArray[np.uint32]:
        """The ids of a stretch; ``at_start``: it is the beginning of its text."""
        self.characters += len(text)
        if not text:
            return NO_IDS
        return self.tokenizer.encode_to_numpy(text, False, special=self.special)

    def encode_long(self, text: str, at_start: bool) -> tuple[NDArray[np.uint32], Anchors]:
        """The same for a stretch of any length, with anchors inside it, relative to its beginning."""
        edges = [0]
        while len(text) - edges[-1] > PART + PART // 4:
            wanted = edges[-1] + PART
            found = self.cuts.last(text, edges[-1], wanted, True)
            if found is None:
                found = self.cuts.first(text, wanted - 1, len(text), True)
            if found is None:
                break
            edges.append(found)
        if len(edges) == 1:
            return self.encode(text, at_start), NO_ANCHORS
        edges.append(len(text))
        parts = [
            self.encode(text[start:stop], at_start and not start)
            for start, stop in zip(edges, edges[1:], strict=False)
        ]
        tokens = np.cumsum([len(part) for part in parts])[:-1]
        return np.concatenate(parts), Anchors(np.array(edges[1:-1], np.int64), tokens.astype(np.int64))

    def encode_whole(self, text: str, by_reference: bool = False) -> NDArray[np.uint32]:
        """The ids of a whole text, by the reference or by whatever engine is the fastest."""
        self.characters += len(text)
        backend = "reference" if by_reference else None
        return self.tokenizer.encode_to_numpy(text, False, special=self.special, backend=backend)


NO_ANCHORS = Anchors(np.empty(0, np.int64), np.empty(0, np.int64))
