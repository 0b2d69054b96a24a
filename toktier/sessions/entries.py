"""A session in a store, with what the store remembers about it: the bookkeeping of one session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .patch import Patch
from .persistence import Change, Head, Record, Write
from .prefixes import NO_MARKS, Marks, marks
from .session import Session
from .text import BlockText, common_ends

if TYPE_CHECKING:
    from ..tokenizer import Special, Tokenizer

_COUNTED = ("appends", "tail_changes", "edits", "widenings")
#: What an entry costs besides its session and its marks (lock, dictionary slots, names), in bytes.
_ENTRY = 1500


@dataclass(frozen=True, slots=True)
class Use:
    """What is to be written into the store's books: counts by name, and what an entry is now, if it was used."""

    done: Mapping[str, int]
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    entry: Entry | None = None
    marks: Marks = NO_MARKS
    nbytes: int = 0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Entry:
    """Guarded by ``lock``, but for the middle part, which the store's lock guards.

    ``key``: the name in memory.  ``record``: the name in the file.
    """

    key: str
    tokenizer: Tokenizer
    special: Special
    record: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    session: Session | None = None

    # As of the last use.
    text: BlockText = field(default_factory=BlockText)
    marks: Marks = NO_MARKS
    size: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    fallbacks: Counter[str] = field(default_factory=Counter)
    used: float = 0.0

    # What the store's books say.  ``lost``: why the session is no longer the store's.
    indexed: Marks = NO_MARKS
    nbytes: int = 0
    lost: str = ""

    # What the file has, the text and the number of ids there, and how many ids at either end are the same since.
    head: Head | None = None
    written: BlockText = field(default_factory=BlockText)
    written_ids: int = 0
    unchanged: tuple[int, int] = (0, 0)

    @property
    def by_content(self) -> bool:
        """Whether it has no name that a caller would know; then its text never changes."""
        return self.key.startswith("content:")

    @property
    def kind(self) -> tuple[str, str]:
        """Only sessions of one kind can continue one another."""
        return self.tokenizer.fingerprint, self.special

    @property
    def seed(self) -> int:
        """What keeps its prefixes apart from those of other kinds."""
        return hash(self.kind)

    def change(self, session: Session, change: Callable[[Session], Patch]) -> Patch:
        """Change the session, and note it.  If that is interrupted, nothing is known of what is unchanged."""
        count, unchanged = session.count, self.unchanged
        self.unchanged = 0, 0
        try:
            patch = change(session)
        except Exception:  # such as leaves the session as it was
            self.unchanged = unchanged
            raise
        self.unchanged = unchanged
        self.note(count, patch)
        return patch

    def note(self, count: int, patch: Patch) -> None:
        """Remember what ``patch``, made to ``count`` ids, left unchanged."""
        before, after = self.unchanged
        self.unchanged = min(before, patch.start), min(after, count - patch.start - patch.removed)

    def use(self, moment: float, *names: str) -> Use:
        """What the use that ends at ``moment`` leaves to be booked; ``names``: what is to be counted, too."""
        assert self.session is not None
        text = self.session.version
        if text is not self.text or not self.size:
            unchanged, _ = common_ends(self.text, text)
            self.marks = marks(self.seed, text.slice, len(text), self.marks, unchanged)
            self.text, self.size = text, _ENTRY + self.marks.nbytes + self.session.nbytes
        self.used = moment
        counters, before = self.session.counters, self.counted
        self.counted = {name: getattr(counters, name) for name in _COUNTED}
        done = dict.fromkeys(names, 1)
        for name, count in self.counted.items():
            if count != before.get(name, 0):
                done[name] = count - before.get(name, 0)
        fallbacks: dict[str, int] = {}
        if counters.fallbacks != self.fallbacks:
            fallbacks = counters.fallbacks - self.fallbacks
            self.fallbacks = counters.fallbacks.copy()
        return Use(done, fallbacks, self, self.marks, self.size)

    def loaded(self, session: Session, record: Record) -> None:
        """``session`` was made of ``record``."""
        self.session, self.used, self.head = session, record.used, record.head
        self._is_written(session.version, session.count)

    def _is_written(self, text: BlockText, count: int) -> None:
        self.written, self.written_ids, self.unchanged = text, count, (count, count)

    def write(self, maker: str) -> Write | None:
        """What has to be written now; from here on it counts as being on its way."""
        if self.session is None or self.lost:
            return None
        point, head = self.session.checkpoint(), self.head
        text, ids = point.text, point.ids
        first, last = self.unchanged
        change: Change | None
        if head is None or head.wasteful(len(text) + 4 * len(ids)):
            head, change = None, Change(0, 0, str(text), 0, 0, ids)
        elif text is self.written and first == len(ids) == self.written_ids:
            change = None
        else:
            start, after = common_ends(self.written, text)
            removed = len(self.written) - start - after
            new = text.slice(start, len(text) - after)
            fresh = ids[first : len(ids) - last]
            change = Change(start, removed, new, first, self.written_ids - first - last, fresh)
        # Until it is known whether that succeeded, the file is taken to have nothing that could be continued.
        self.head = None
        self._is_written(text, len(ids))
        key = self.tokenizer.fingerprint, self.record
        return Write(*key, maker, head, change, len(text), len(ids), self.used)

    def take_over(self, other: Entry, record: str) -> None:
        """Continue the record of ``other``, whose text this one's text goes on from; ``record``: its new name."""
        self.record, other.record = other.record, record
        self.head, other.head = other.head, None
        self.written, self.written_ids, self.unchanged = other.written, other.written_ids, other.unchanged
