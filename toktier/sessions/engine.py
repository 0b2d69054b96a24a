"""The window engine: ids of stretches of a text that begin and end at certified cuts."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..bpe.hashing import single_items
from ..parallel import map_parts
from ..pipeline import BPE
from ..segments import NO_IDS
from .anchors import NO_ANCHORS, Anchors

if TYPE_CHECKING:
    from ..tokenizer import Encoding, Special, Tokenizer

#: Characters of a stretch that are encoded in one go, on one core.
PART = 1 << 18
#: The cuts inside it that are anchors are about so many characters apart.
EVERY = 1 << 14
#: Behind a cut so many characters at most are counted token by token.
_COUNTED = 256


class Engine:
    """F of one tokenizer: what a stretch between certified cuts is encoded to.

    The tokenizer's own backends do it, chosen by the length of the stretch: for a few thousand characters that is
    a pattern and a memo, whose bytes are bounded and which all sessions of the tokenizer share.

    ``refusal`` says why a tokenizer's texts cannot be encoded in stretches, or is None.
    ``spans_alone``: whether a stretch has the same offsets by itself.  The reference counts a BPE's marks of
    subwords as characters, and spans that lie beyond their piece from elsewhere.
    ``characters`` counts what was encoded.
    """

    def __init__(self, tokenizer: Tokenizer, special: Special) -> None:
        self.tokenizer = tokenizer
        self.special: Special = "encode" if special == "raise" else special
        self.cuts = tokenizer._cuts_where(self.special)
        post = tokenizer._post
        self.refusal = self.cuts.refusal
        if post.truncation is not None or post.padding is not None:
            self.refusal = "it truncates or pads every text"
        model = tokenizer._compiled.pipeline.model
        marks = isinstance(model, BPE) and bool(model.continuing_subword_prefix or model.end_of_word_suffix)
        self.spans_alone = self.refusal is None and not marks
        self.widths = token_widths(tokenizer) if self.refusal is None else None
        self._width_of = None if self.widths is None else single_items(self.widths)
        self._leaves_alone = tokenizer._front.normalizer.leaves_alone
        self.characters = 0

    def encode(self, text: str, at_start: bool) -> NDArray[np.uint32]:
        """The ids of a stretch; ``at_start``: it is the beginning of its text."""
        self.characters += len(text)
        return self.tokenizer._encode_part(text, self.special, continuing=not at_start) if text else NO_IDS

    def window(self, text: str, at_start: bool) -> Window:
        """Encode a stretch that may be long; ``at_start``: it is the beginning of its text."""
        if len(text) < 2 * EVERY:
            return Window(self, text, self.encode(text, at_start), NO_ANCHORS)
        self.characters += len(text)
        edges = self.cuts.parts(text, PART)
        parts = [(text[start:stop], at_start and not start) for start, stop in pairwise(edges)]
        stretches = [stretch for part in map_parts(self._in_stretches, parts, None) for stretch in part]
        sizes, ids = zip(*stretches, strict=True)
        places, tokens = np.cumsum(sizes)[:-1], np.cumsum([*map(len, ids)])[:-1]
        return Window(self, text, np.concatenate(ids), Anchors(places, tokens))

    def _in_stretches(self, part: tuple[str, bool]) -> list[tuple[int, NDArray[np.uint32]]]:
        """The ids of each of the stretches of a part, and how many characters it has."""
        text, at_start = part
        stretches = [text[start:stop] for start, stop in pairwise(self.cuts.parts(text, EVERY))]
        encoded = self.tokenizer._encode_group(stretches, self.special, None, None, continuing=not at_start)
        return list(zip(map(len, stretches), encoded, strict=True))

    def inside(self, text: str, ids: NDArray[np.uint32]) -> Anchors:
        """Anchors within a stretch whose ids are known, found by the bytes that these stand for.

        About :data:`EVERY` characters apart; none where the bytes are not known.
        """
        if self.widths is None:
            return NO_ANCHORS
        places: list[int] = []
        for wanted in range(EVERY, len(text) - EVERY // 2, EVERY):
            found = self.cuts.near(text, wanted, places[-1] if places else 0, len(text))
            if found is not None and found < len(text):
                places.append(found)
        if not places:
            return NO_ANCHORS
        sizes = [self._size(text[start:stop]) for start, stop in pairwise([0, *places])]
        ends = self.widths.take(ids, mode="clip").cumsum()  # damaged ids may be any number
        wanted_ends = np.cumsum(sizes)
        at = ends.searchsorted(wanted_ends)
        sure = ends.take(at, mode="clip") == wanted_ends
        return Anchors(np.array(places)[sure], at[sure] + 1)

    def count(self, text: str, ids: NDArray[np.uint32]) -> int | None:
        """How many of the first ``ids`` make up a stretch, by their bytes; None if that cannot be told."""
        if self.widths is None:
            return None
        size = self._size(text)
        if not size:
            return 0
        ends = self.widths.take(ids[:size], mode="clip").cumsum()
        found = int(ends.searchsorted(size))
        return found + 1 if found < len(ends) and ends[found] == size else None

    def count_back(self, text: str, ids: NDArray[np.uint32]) -> int | None:
        """How many of the last ``ids`` make up a short stretch; None if that cannot be told."""
        if self._width_of is None:
            return None
        size = self._size(text)
        for count, id in enumerate(reversed(ids[max(0, len(ids) - size) :].tolist()), 1):
            size -= self._width_of[id]
            if size <= 0:
                return None if size else count
        return None

    def _size(self, text: str) -> int:
        """UTF-8 bytes that the ids of a stretch stand for, where ``widths`` are known."""
        return len(self.normal(text).encode("utf-8"))

    def normal(self, text: str) -> str:
        """What the ids of a stretch stand for."""
        return text if self._leaves_alone(text) else self.tokenizer._prepare(text, self.special).text

    def whole(self, text: str, by_reference: bool) -> NDArray[np.uint32]:
        """The ids of a whole text, by the reference or by whatever engine is the fastest."""
        self.characters += len(text)
        backend = "reference" if by_reference else None
        return self.tokenizer.encode_to_numpy(text, False, special=self.special, backend=backend)

    def spans(self, text: str) -> Encoding:
        """The ids of a stretch with their offsets."""
        self.characters += len(text)
        return self.tokenizer.encode_with_offsets(text, False, special=self.special)


class Window:
    """A stretch that has been encoded.

    ``ids``: uint32.  ``anchors``: those inside it, counted from its beginning; only long stretches have any.
    """

    __slots__ = ("_engine", "anchors", "ids", "text")

    def __init__(self, engine: Engine, text: str, ids: NDArray[np.uint32], anchors: Anchors) -> None:
        self._engine = engine
        self.text, self.ids, self.anchors = text, ids, anchors

    def behind(self, cut: int) -> int:
        """How many ids lie behind a certified cut: as many as what lies behind it has by itself."""
        rest = self.text[cut:]
        found = self._engine.count_back(rest, self.ids) if len(rest) <= _COUNTED else None
        return len(self._engine.encode(rest, cut == 0)) if found is None else found


_widths: weakref.WeakKeyDictionary[Tokenizer, NDArray[np.int64] | None] = weakref.WeakKeyDictionary()


def token_widths(tokenizer: Tokenizer) -> NDArray[np.int64] | None:
    """UTF-8 bytes that each id of a byte-level model stands for, in the normalized text.

    None for other models, where an added token covers more or less than its content, and where its id is another
    token's, too.
    """
    if tokenizer not in _widths:
        _widths[tokenizer] = _token_widths(tokenizer)
    return _widths[tokenizer]


def _token_widths(tokenizer: Tokenizer) -> NDArray[np.int64] | None:
    added = tokenizer._compiled.pipeline.added_tokens
    if not tokenizer._gives_offsets or tokenizer._is_lossy:
        return None
    normalize = tokenizer._front.normalizer.normalize
    if any(token.lstrip or token.rstrip or normalize(token.content) != token.content for token in added):
        return None
    widths = np.zeros(tokenizer.vocab_size, np.int64)
    own = np.diff(tokenizer._compiled.tokens.offsets)
    widths[: len(own)] = own
    for token in added:
        width = len(token.content.encode("utf-8"))
        if widths[token.id] not in (0, width):  # some published files give one id to two tokens
            return None
        widths[token.id] = width
    return widths
