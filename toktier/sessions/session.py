"""A text that grows or changes, with its ids: the paper's main path (section 3), exact after every step."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_special, check_tokenizer, is_one_of, plain_text, position
from ..errors import CheckpointError, LoneSurrogateError, OptionError, PositionError
from ..explanation import counted
from ..records import record, replace
from ..segments import NO_IDS
from . import repair
from .anchors import Anchors
from .engine import Engine
from .ids import IdBuffer
from .patch import Patch, smallest
from .repair import Seam, Splice, State
from .search import search
from .text import BlockText

if TYPE_CHECKING:
    from ..tokenizer import Special, Tokenizer

_TEXT = "the text of a session"  # in messages


@dataclass(slots=True)
class Counters:
    """What a session has done so far.

    ``widenings``: how often the self-check failed and a repair started farther left.  ``fallbacks``: how often
    the whole text was encoded, by reason.  ``characters``: how many the engine was given in all, checks included.
    """

    appends: int = 0
    tail_changes: int = 0
    edits: int = 0
    unchanged: int = 0
    restores: int = 0
    widenings: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    characters: int = 0


@record
class Checkpoint:
    """A session as it was at one moment, immutable.  See :meth:`Session.checkpoint`.

    ``ids``: uint32 (n,), read-only.
    """

    fingerprint: str
    special: str
    text: BlockText
    ids: NDArray[np.uint32]
    anchors: Anchors
    seam: Seam


class Session:
    """A text and its ids, which are at every moment those of the reference for the full text.

    Made by :meth:`toktier.Tokenizer.session`.  The ids are without the post-processor's special ids; those are
    added on reading, by :meth:`prompt`.  One thread at a time may use a session; any number of sessions may share
    a tokenizer.  A call that raises leaves the session as it was, an interrupted one as it was or as it is to be.

    Parameters
    ----------
    tokenizer: encodes; texts of a tokenizer without certified cuts are encoded as a whole at every step.
    text: to begin with.
    special: what becomes of special tokens in the text, as for :class:`~toktier.Tokenizer`.
    strategy: ``"restart"`` starts at the last certified cut; ``"search"`` looks for one as the paper does where
        the end of the text changes, for byte-level models (:mod:`toktier.sessions.search`).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        text: str = "",
        *,
        special: Special = "encode",
        strategy: Literal["restart", "search"] = "restart",
    ) -> None:
        check_tokenizer(tokenizer)
        check_special(special)
        if not is_one_of(strategy, ("restart", "search")):
            raise OptionError(f'strategy must be "restart" or "search", not {strategy!r}')
        self.tokenizer = tokenizer
        self.special: Special = special
        self.strategy: Literal["restart", "search"] = strategy
        self._engine = Engine(tokenizer, special)
        self._widths = self._engine.widths if strategy == "search" else None
        self._counters = Counters()
        self._state = State(BlockText(), IdBuffer(NO_IDS), Anchors.start(), Seam())
        text = _checked(text)
        if text or self._engine.refusal is not None:  # even the empty text may be padded
            if special == "raise":
                tokenizer._raise_special(text)
            self._apply(repair.opened(self._engine, self._state, text))

    # --- reading ----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The full text, put together anew."""
        return str(self._state.text)

    @property
    def version(self) -> BlockText:
        """The text as it is kept: another object after each change, and never changed itself."""
        return self._state.text

    @property
    def ids(self) -> NDArray[np.uint32]:
        """The ids, shape (count,): a read-only view without a copy, which later changes do not touch.

        While a view is held, the first change of ids that it shows copies the array (memory speed); a view that
        has been dropped costs nothing.
        """
        return self._state.ids.view()

    @property
    def count(self) -> int:
        """How many ids there are."""
        return len(self._state.ids)

    def __len__(self) -> int:
        """Characters of the text."""
        return len(self._state.text)

    @property
    def counters(self) -> Counters:
        """What was done so far; grows on."""
        self._counters.characters = self._engine.characters
        return self._counters

    @property
    def nbytes(self) -> int:
        """Bytes that the session holds: ids, text, anchors and their objects; not the tokenizer."""
        state = self._state
        return state.ids.nbytes + state.text.nbytes + state.anchors.nbytes + 16 * sys.getsizeof(self)

    @property
    def fingerprint(self) -> str:
        """That of the tokenizer's artifact."""
        return self.tokenizer.fingerprint

    def prompt(self, add_special_tokens: bool = True) -> NDArray[np.uint32]:
        """The ids of ``tokenizer.encode(text, add_special_tokens)``, for a model: BOS and the like are added."""
        post = self.tokenizer._post
        if post.unsupported is None and post.truncation is None and post.padding is None:
            return post.finish(self.ids, add_special_tokens)
        special = self._engine.special
        return self.tokenizer.encode_to_numpy(self.text, add_special_tokens, special=special)

    def offsets(self, start: SupportsIndex = 0, stop: SupportsIndex | None = None) -> NDArray[np.int64]:
        """Where the ids ``start..stop`` stand in the text: int64 (stop - start, 2), in characters.

        They are those of ``tokenizer.encode_with_offsets(text, False)``, derived from the text around these ids.
        """
        first = position(start, "start")
        last = self.count if stop is None else position(stop, "stop")
        if not 0 <= first <= last <= self.count:
            raise PositionError(f"{first} to {last} is no range of {self.count} ids")
        if first == last:
            return np.empty((0, 2), np.int64)
        return repair.offsets(self._engine, self._state, first, last)

    def __repr__(self) -> str:
        size = f"{counted(len(self), 'character')}, {counted(self.count, 'id')}"
        return f"<toktier.Session {self.tokenizer.name} {size}>"

    # --- changing ---------------------------------------------------------------------

    def append(self, delta: str) -> Patch:
        """Add ``delta`` at the end.  Costs what ``delta`` costs, however long the text is."""
        delta = _checked(delta)
        size = len(self)
        return self._change(size, size, delta)

    def update(self, full_text: str) -> Patch:
        """Make the text ``full_text``, of which as much is kept as both begin and end with.

        Looks at ``full_text`` once: at the speed of ``memcmp`` if it is ASCII, else at a quarter of that and
        less.  The rest costs what the change costs.
        """
        full_text = plain_text(full_text, _TEXT)
        text = self._state.text
        start = text.common_prefix(full_text)
        suffix = text.common_suffix(full_text, min(len(text), len(full_text)) - start)
        new = full_text[start : len(full_text) - suffix]
        _checked(new, start)
        return self._change(start, len(text) - suffix, new)

    def edit(self, start: SupportsIndex, stop: SupportsIndex, new: str) -> Patch:
        """Replace the characters ``start..stop`` by ``new``."""
        first, last = position(start, "start"), position(stop, "stop")
        if not 0 <= first <= last <= len(self):
            raise PositionError(
                f"characters {first} to {last} are no range of a text of {len(self)} characters; positions are "
                "counted from 0, and the first is at most the second"
            )
        new = _checked(new)
        return self._change(first, last, new)

    def truncate(self, length: SupportsIndex) -> Patch:
        """Keep the first ``length`` characters."""
        size = position(length, "a length")
        if not 0 <= size <= len(self):
            raise PositionError(f"a text of {len(self)} characters cannot be cut down to {size}")
        return self._change(size, len(self), "")

    def verify(self) -> Patch:
        """Compare the ids with the reference's of the full text, and take those where they differ.

        The paper's shadow verifier does so with a sample of the traffic (end of section 4).  It costs as much as
        the reference does.  The patch is ``"unchanged"``, or tells what was repaired, which counts as a fallback.
        """
        state = self._state
        right = self._engine.whole(str(state.text), by_reference=True)
        if repair.same(right, state.ids.read(0, len(state.ids))):
            return Patch(self.count, 0, NO_IDS, "unchanged")
        return self._apply(repair.whole(self._engine, state, state.text, "the reference has other ids"))

    # --- branching ----------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """The session as it is now, to go back to with :meth:`restore`.  Nothing is copied.

        Like a view of the ids, a checkpoint that is kept makes the first change of ids in it copy them.
        """
        state = self._state
        return Checkpoint(self.fingerprint, self.special, state.text, self.ids, state.anchors, state.seam)

    def restore(self, checkpoint: Checkpoint) -> Patch:
        """Go back to a checkpoint of this session, or of another one under the same tokenizer."""
        self._check_checkpoint(checkpoint)
        stored = self._state.ids.read(0, self.count)
        patch = smallest(stored, 0, self.count, checkpoint.ids, "restore")
        self._begin_as(checkpoint)
        self._counters.restores += 1
        return replace(patch, ids=patch.ids.copy())

    def fork(self) -> Session:
        """Another session with the same text, which goes its own way.  Ids are copied when either changes them."""
        return self.from_checkpoint(
            self.tokenizer, self.checkpoint(), special=self.special, strategy=self.strategy
        )

    @classmethod
    def from_checkpoint(
        cls,
        tokenizer: Tokenizer,
        checkpoint: Checkpoint,
        *,
        special: Special = "encode",
        strategy: Literal["restart", "search"] = "restart",
    ) -> Session:
        """A session that begins as ``checkpoint``."""
        session = cls(tokenizer, special=special, strategy=strategy)
        session._check_checkpoint(checkpoint)
        session._begin_as(checkpoint)
        session._counters = Counters()
        return session

    def __copy__(self) -> Session:
        return self.fork()

    def __deepcopy__(self, memo: object) -> Session:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        """What is unpickled has tokenized its text itself."""
        return partial(Session, special=self.special, strategy=self.strategy), (self.tokenizer, self.text)

    def _begin_as(self, checkpoint: Checkpoint) -> None:
        ids = IdBuffer(checkpoint.ids, shared=True)
        self._state = State(checkpoint.text, ids, checkpoint.anchors, checkpoint.seam)

    # --- how it is done ---------------------------------------------------------------------

    def _change(self, start: int, stop: int, new: str) -> Patch:
        state, size = self._state, len(self._state.text)
        if start == stop and not new:
            self._counters.unchanged += 1
            return Patch(self.count, 0, NO_IDS, "unchanged")
        if self.special == "raise":
            self._raise_special(start, stop, new)
        splice = None
        if self._engine.refusal is not None:
            splice = repair.whole(self._engine, state, state.text.replaced(start, stop, new), self._engine.refusal)
        elif self._widths is not None and stop == size:
            splice = search(self._engine, state, start, new, self._widths)
        if splice is None:
            if start == size:
                splice = repair.append(self._engine, state, new)
            elif stop == size:
                splice = repair.change_tail(self._engine, state, start, new)
            else:
                splice = repair.edit(self._engine, state, start, stop, new)
        if splice.path == "append" or start == size:
            self._counters.appends += 1
        elif splice.path == "tail" or stop == size:
            self._counters.tail_changes += 1
        else:
            self._counters.edits += 1
        return self._apply(splice)

    def _apply(self, splice: Splice) -> Patch:
        state = self._state
        ids = state.ids
        stored = ids.read(splice.token, splice.token + splice.removed)
        patch = smallest(stored, splice.token, splice.removed, splice.fresh, splice.path)
        try:
            ids.replace(patch.start, patch.removed, patch.ids)
            self._state = State(splice.text, ids, splice.anchors, splice.seam)
        except BaseException:  # an interrupt, say, between the two: which ids are there, nobody knows
            whole = self._engine.whole(str(state.text), by_reference=False)
            self._state = State(state.text, IdBuffer(whole), state.anchors, state.seam)
            raise
        if splice.widenings:
            self._counters.widenings += splice.widenings
        if splice.fallback is not None:
            self._counters.fallbacks[splice.fallback] += 1
        return patch

    def _raise_special(self, start: int, stop: int, new: str) -> None:
        """Raise if the change makes a special token; one cannot lie across a certified cut."""
        state, engine = self._state, self._engine
        low, high = 0, None
        if engine.refusal is None:
            low = repair.cut_before(engine, state, start)
            high = repair.cut_after(engine, state, low, start, stop, new)
        behind = state.text.slice(stop, len(state.text) if high is None else high)
        before = state.text.slice(max(0, low - 1), low)
        self.tokenizer._raise_special(state.text.slice(low, start) + new + behind, low, before)

    def _check_checkpoint(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint, Checkpoint):
            raise CheckpointError(
                f"a session goes back to what its checkpoint() gave, not to {type(checkpoint).__name__}"
            )
        if checkpoint.fingerprint != self.fingerprint:
            raise CheckpointError(
                f"the checkpoint was taken under the tokenizer {checkpoint.fingerprint[:12]}, and this session's "
                f"is {self.fingerprint[:12]}; ids of one tokenizer are never repaired under another"
            )
        if checkpoint.special != self.special:
            raise CheckpointError(
                f"special tokens in the checkpoint's text were taken for {checkpoint.special!r}, and this session "
                f"takes them for {self.special!r}"
            )


def _checked(text: str, offset: int = 0) -> str:
    """A text that UTF-8 can contain; ``offset``: where it begins, for messages."""
    plain = plain_text(text, _TEXT)
    if not plain.isascii():
        try:
            plain.encode("utf-8")
        except UnicodeEncodeError as problem:
            raise LoneSurrogateError(
                f"the character at index {problem.start + offset} is the lone surrogate "
                f"U+{ord(plain[problem.start]):04X}, which no UTF-8 text can contain; halves of a character "
                "must be put together before they are given to a session",
                problem.start + offset,
            ) from None
    return plain
