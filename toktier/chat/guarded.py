"""Rendered chats in which only the template's own added tokens count.

The tokens that count cut the text into stretches, which are separate texts to the pre-tokenizer and the model.
So the ids are put together stretch by stretch, each encoded as plain text, and an update encodes the stretches
that are new; they are as long as a message.  Tokens are looked for from the last special one on that stands
where nothing has changed.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import BackendUnsupportedError
from ..segments import NO_IDS, NO_POSITIONS, PreparedText
from ..sessions.ids import IdBuffer
from ..sessions.patch import Patch, smallest
from ..sessions.text import common_prefix
from .literals import ChatLiterals
from .provenance import Origin, Runs, origins

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer


class GuardedText:
    """A text that is replaced as a whole, with its ids; starts empty.

    Raises :class:`~toktier.errors.BackendUnsupportedError` for tokenizers that only the reference runs, and where
    added tokens are looked for in normalized text.
    """

    def __init__(self, tokenizer: Tokenizer, written: str) -> None:
        pipeline = tokenizer._compiled.pipeline
        self._tokenizer = tokenizer
        self._literals = ChatLiterals(pipeline.added_tokens, written)
        reason = tokenizer._unsupported or self._literals.unsupported
        if (
            any(token.normalized for token in pipeline.added_tokens)
            and not tokenizer._front.normalizer.is_identity
        ):
            reason = reason or "some of its added tokens are looked for in the normalized text"
        if reason:
            raise BackendUnsupportedError(
                f'special="text" is not available in chats of {tokenizer.name}: {reason}; use special="encode", '
                "and take special tokens out of messages that you do not trust"
            )
        self.text = ""
        self._ids = IdBuffer(NO_IDS)
        # What the text consists of, stretches of plain text and ids of added tokens, and how many ids each has.
        self._items: list[str | int] = []
        self._counts: list[int] = []
        self._starts: list[int] = [0]  # where each begins, and where the last one ends
        self._runs: Runs = ()

    @property
    def ids(self) -> NDArray[np.uint32]:
        """A read-only view of the ids."""
        return self._ids.view()

    @property
    def count(self) -> int:
        """How many ids there are."""
        return len(self._ids)

    def update(self, rendered: str) -> Patch:
        """Make the text ``rendered``, a traced string (see :mod:`~toktier.chat.provenance`)."""
        from ..tokenizer import _own_errors

        text, runs = str.__str__(rendered), origins(rendered)
        kept = self._kept(text, runs)
        items, starts = self._split(text, runs, kept)
        shorter = min(len(items), len(self._items))
        first = _common(items, self._items, shorter)
        # what a text begins with may have ids of its own, so it is never taken for what another one ends with
        last = _common(items[::-1], self._items[::-1], max(shorter - max(first, 1), 0))
        with _own_errors(text):
            changed = enumerate(items[first : len(items) - last], first)
            new = [self._encode(item, begins=number == 0) for number, item in changed]
        old_counts = self._counts[first : len(self._counts) - last]
        fresh = np.concatenate(new) if new else NO_IDS
        start, removed = sum(self._counts[:first]), sum(old_counts)
        path = "unchanged" if not new and not removed else "tail" if not last else "edit"
        if path == "tail" and not removed:
            path = "append"
        patch = smallest(self._ids.read(start, start + removed), start, removed, fresh, path)
        # All or nothing, even if this is interrupted: what there is already is not written over.
        ids = IdBuffer(self._ids.read(0, self.count), shared=True)
        ids.replace(patch.start, patch.removed, patch.ids)
        counts = [*self._counts[:first], *map(len, new), *self._counts[len(self._counts) - last :]]
        self.text, self._ids, self._counts = text, ids, counts
        self._runs, self._items, self._starts = runs, items, starts
        return patch

    def _kept(self, text: str, runs: Runs) -> int:
        """How many items come first in ``text``, too, up to a token at which a search can begin."""
        if any(origin is Origin.UNKNOWN for _, origin in runs):
            return 0
        same = 0
        for one, other in zip(self._runs, runs, strict=False):
            if one != other:
                break
            same = one[0]
        same = min(same, common_prefix(self.text, text))
        number = bisect_left(self._starts, same - self._literals.longest) - 1
        while number > 0 and (
            self._items[number] not in self._literals.restarts or self._starts[number + 1] >= same
        ):
            number -= 1
        return max(number, 0)

    def _split(self, text: str, runs: Runs, kept: int) -> tuple[list[str | int], list[int]]:
        """The items of a text and where they begin; the first ``kept`` are as they were."""
        items, starts = self._items[:kept], self._starts[:kept]
        begin = end = self._starts[kept]
        found = self._literals.find(text, runs, begin)
        spans = (found.starts + begin).tolist(), (found.stops + begin).tolist()
        for start, stop, id in zip(*spans, found.ids.tolist(), strict=True):
            if start > end:
                items.append(text[end:start])
                starts.append(end)
            items.append(id)
            starts.append(start)
            end = stop
        if end < len(text):
            items.append(text[end:])
            starts.append(end)
        return items, [*starts, len(text)]

    def _encode(self, item: str | int, begins: bool) -> NDArray[np.uint32]:
        """The ids of one item, with which the text ``begins`` or not.

        Those of a stretch are the model's, as of a text without added tokens.
        """
        if isinstance(item, int):
            return np.array([item], np.uint32)
        tokenizer = self._tokenizer
        normal = tokenizer._front.stretch(item, begins)
        prepared = PreparedText(normal, NO_POSITIONS, NO_POSITIONS, NO_IDS, normal == item)
        return tokenizer._engine(normal, "auto").encode(prepared)[0]


def _common(one: list[str | int], other: list[str | int], limit: int) -> int:
    """How many items are the same at the start, at most ``limit``."""
    for number in range(limit):
        if one[number] != other[number]:
            return number
    return limit
