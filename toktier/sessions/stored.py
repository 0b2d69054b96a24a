"""A session of a store, as its callers hold it: the same methods, for any number of threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from .patch import Patch
from .session import Checkpoint, Counters, Session

if TYPE_CHECKING:
    from .entries import Entry
    from .store import SessionStore

Result = TypeVar("Result")


class StoredSession:
    """A :class:`~toktier.sessions.Session` that a store keeps.  Made by :meth:`SessionStore.session`.

    Its methods are those of a session.  Each holds the session's lock, so that threads take turns call by call;
    each is a use that keeps the session from being let go.
    """

    def __init__(self, store: SessionStore, entry: Entry) -> None:
        self._store = store
        self._entry = entry

    # --- reading ----------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The full text, put together anew."""
        return self._read(lambda session: session.text)

    @property
    def ids(self) -> NDArray[np.uint32]:
        """The ids, shape (count,): a read-only view, which later changes do not touch."""
        return self._read(lambda session: session.ids)

    @property
    def count(self) -> int:
        """How many ids there are."""
        return self._read(lambda session: session.count)

    def __len__(self) -> int:
        """Characters of the text."""
        return self._read(len)

    @property
    def nbytes(self) -> int:
        """Bytes that the session holds."""
        return self._read(lambda session: session.nbytes)

    @property
    def counters(self) -> Counters:
        """What the session has done since it was made or read from the file; a snapshot."""
        return self._read(lambda session: replace(session.counters, fallbacks=Counter(session.counters.fallbacks)))

    @property
    def fingerprint(self) -> str:
        """That of the tokenizer's artifact."""
        return self._entry.tokenizer.fingerprint

    def prompt(self, add_special_tokens: bool = True) -> NDArray[np.uint32]:
        """The ids for a model: BOS and the like are added."""
        return self._read(lambda session: session.prompt(add_special_tokens))

    def offsets(self, start: SupportsIndex = 0, stop: SupportsIndex | None = None) -> NDArray[np.int64]:
        """Where the ids ``start..stop`` stand in the text: int64 (stop - start, 2), in characters."""
        return self._read(lambda session: session.offsets(start, stop))

    def __repr__(self) -> str:
        return f"<toktier.StoredSession {self._entry.key.partition(':')[2]!r} of {self._entry.tokenizer.name}>"

    # --- changing ---------------------------------------------------------------------

    def append(self, delta: str) -> Patch:
        """Add ``delta`` at the end."""
        return self._change(lambda session: session.append(delta))

    def update(self, full_text: str) -> Patch:
        """Make the text ``full_text``."""
        return self._change(lambda session: session.update(full_text))

    def edit(self, start: SupportsIndex, stop: SupportsIndex, new: str) -> Patch:
        """Replace the characters ``start..stop`` by ``new``."""
        return self._change(lambda session: session.edit(start, stop, new))

    def truncate(self, length: SupportsIndex) -> Patch:
        """Keep the first ``length`` characters."""
        return self._change(lambda session: session.truncate(length))

    def verify(self) -> Patch:
        """Compare the ids with the reference's of the full text, and take those where they differ."""
        return self._change(lambda session: session.verify())

    # --- branching ----------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        """The session as it is now."""
        return self._read(lambda session: session.checkpoint())

    def restore(self, checkpoint: Checkpoint) -> Patch:
        """Go back to a checkpoint of this session, or of another one under the same tokenizer."""
        return self._change(lambda session: session.restore(checkpoint))

    def fork(self, session_id: str) -> StoredSession:
        """Make the session of this name a copy of this one, whatever it was before."""
        copy = self._store.session(self._entry.tokenizer, session_id, special=self._entry.special)
        copy.restore(self.checkpoint())
        return copy

    # ------------------------------------------------------------------------------------

    def _read(self, what: Callable[[Session], Result]) -> Result:
        return self._store._use(self._entry, what)

    def _change(self, change: Callable[[Session], Patch]) -> Patch:
        return self._store._use(self._entry, lambda session: self._entry.change(session, change))
