"""Many sessions, kept as long as they are likely to come back.

The store is a bounded memory of sessions: those used longest ago are let go when it is full, and all of them when
nobody has come back for an hour (ids cost little to keep, and an hour keeps 97 to 98 % of an agent's calls on a
known session: the paper's figure 14b).  A caller who has no name for its session is served by content: the stored
text that has most in common with the request is found by hashes of its prefixes, and continued in a copy.

Each session has a lock of its own, which is held while its text is tokenized.  The store's lock is held for
bookkeeping alone, and a thread that uses a session does not wait for it while another has it: what is to be booked
goes into a queue, which whoever has the lock works off.  (A thread that waits lets go of the interpreter's lock,
may come by the store's while it waits for that one, and makes the next thread wait, and so on.)  Locks are taken
in one order: the writer's, a session's, the store's.

With a path, sessions are written to a file as well, soon after they change and by another thread
(:mod:`~toktier.sessions.persistence`).  Nothing depends on the file: what cannot be read is a miss.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import threading
import time
import uuid
import warnings
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..arguments import check_special, check_tokenizer, plain_text
from ..backends.reference import engine_version
from ..errors import OptionError, SessionUnavailableError, WrongArtifactError
from ..explanation import counted
from . import repair
from .anchors import Anchors
from .engine import Engine
from .entries import Entry, Use
from .persistence import TROUBLE, DamagedRecord, Head, Record, SessionFile, UnusableFile, Write
from .prefixes import BLOCK, NO_MARKS, PrefixIndex
from .session import Checkpoint, Session
from .stored import StoredSession
from .text import BlockText

if TYPE_CHECKING:
    from ..tokenizer import Special, Tokenizer

Result = TypeVar("Result")

#: Seconds from a change to its being written, so that changes are written together.
_DELAY = 0.2
#: Seconds after which a disk that failed is tried again, if nothing changes before.
_RETRY = 5.0
#: Bytes that are written in one transaction.
_BATCH = 8 << 20


@dataclass(frozen=True, slots=True)
class StoreCounters:
    """What a store has done, at one moment.

    ``hits``: calls that found a session (or a stored text) to go on from.  ``misses``: calls that began a new one.
    ``restored``: sessions read from the file.

    ``appends``, ``tail_changes``, ``edits``, ``widenings``, ``fallbacks``: as in :class:`Counters`, over all
    sessions ever kept.

    ``evictions``: sessions let go because memory was full; ``expirations``: because nobody came back.
    ``damaged``: records in the file that were not what had been written; ``disk_errors``: how often the disk, or
    the file as a whole, could not be used.  ``sessions`` and ``bytes``: what is in memory now.
    """

    hits: int = 0
    misses: int = 0
    restored: int = 0
    appends: int = 0
    tail_changes: int = 0
    edits: int = 0
    widenings: int = 0
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    evictions: int = 0
    expirations: int = 0
    damaged: int = 0
    disk_errors: int = 0
    sessions: int = 0
    bytes: int = 0


class SessionStore:
    """Sessions by name or by content; safe to share between threads and across ``fork``.

    ::

        store = toktier.SessionStore()
        session = store.session(tokenizer, "chat-42")       # get or create
        patch = session.update(transcript)
        ids = store.encode(tokenizer, transcript, "chat-42")    # the same in one call
        ids = store.encode(tokenizer, transcript)               # no name: by content

    Parameters
    ----------
    path: a file to keep sessions in, too (SQLite); it is made if it is not there.  Several processes may use it.
    max_bytes, max_disk_bytes: bounds of what is kept in memory and in the file; what was used longest ago goes.
    ttl: seconds after which a session that nobody used is let go, in memory and in the file; None: never.
    clock: seconds since some fixed moment, the same for all processes that use one file.

    A session that was let go begins empty when it is asked for again, so say ``update`` with the full text, which
    is right in any case, rather than ``append``, where that may have happened.  A file that cannot be used, or not
    written for the moment, is warned about once, and ``disk_problem`` says why; so is what was not written when
    the store is closed.

    As a context manager it is closed at the end.  A store that is not closed is written out when the interpreter
    ends; a process that is killed loses what was not written yet, a fraction of a second's changes.  Sessions in
    the file are read when they are asked for by name; the first call by content reads as many as fit into half of
    ``max_bytes``.  Processes that use one file each have sessions of their own: of those with the same name, the
    file has what was written last.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        max_bytes: int = 1 << 30,
        max_disk_bytes: int = 8 << 30,
        ttl: float | None = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for name, value in (("max_bytes", max_bytes), ("max_disk_bytes", max_disk_bytes), ("ttl", ttl)):
            if value is None and name == "ttl":
                continue
            if not isinstance(value, Real) or not value > 0:
                raise OptionError(f"{name} must be a number greater than 0, but is {value!r}")
        if not callable(clock):
            raise OptionError(f"clock must be a function that gives seconds, but is {clock!r}")
        if not isinstance(path, str | os.PathLike | None):
            raise OptionError(f"path must be a str or a path, not {type(path).__name__}")
        self._file: SessionFile | None = None
        if path is not None:
            if os.fspath(path) == ":memory:":
                raise OptionError(
                    '":memory:" would be a file of that name: leave out path to keep sessions in memory only'
                )
            file = Path(path).absolute()
            if file.is_dir() or not file.parent.is_dir():
                raise OptionError(f"{file} cannot be a file: it is a folder, or its folder does not exist")
            self._file = SessionFile(file, max_disk_bytes)
        self._max_bytes = max_bytes
        self._ttl = math.inf if ttl is None else ttl
        self._clock = clock
        self._closed = False
        self._disk_problem: str | None = None
        self._unusable = False
        self._warned = False
        self._maker = f"toktier {__version__}, tokenizers {engine_version()}"

        self._uses: deque[Use] = deque()  # what is not booked yet
        self._urgent = False  # whether a session was let go that is not in the file yet

        self._lock = threading.Lock()
        self._alive: weakref.WeakValueDictionary[str, Entry] = weakref.WeakValueDictionary()
        self._kept: OrderedDict[str, Entry] = OrderedDict()  # used longest ago first
        self._index: PrefixIndex[Entry] = PrefixIndex()
        self._bytes = 0
        self._totals: Counter[str] = Counter()
        self._fallbacks: Counter[str] = Counter()

        self._unwritten: dict[str, Entry] = {}
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None
        self._wake = threading.Event()
        self._indexing = threading.Lock()
        self._indexed: set[tuple[str, str]] = set()
        with _listing:
            _stores.add(self)
        with self._disk() as found:  # some other program's file is better noticed now
            if found is not None and found.path.exists():
                found.open()

    def __repr__(self) -> str:
        if self._closed:
            return "<toktier.SessionStore closed>"
        return f"<toktier.SessionStore {counted(len(self._kept), 'session')}, {counted(self._bytes, 'byte')}>"

    # --- sessions ---------------------------------------------------------------------

    def session(self, tokenizer: Tokenizer, session_id: str, *, special: Special = "encode") -> StoredSession:
        """The session of this name, or a new, empty one.

        A session that the caller still holds is the same one, even if the store has let it go in between.
        Raises :class:`~toktier.errors.WrongArtifactError` if it was made under another artifact, or treats special
        tokens in another way.
        """
        entry = self._entry(tokenizer, session_id, special)
        return self._use(entry, lambda session: StoredSession(self, entry))

    def encode(
        self,
        tokenizer: Tokenizer,
        text: str,
        session_id: str | None = None,
        add_special_tokens: bool = True,
        *,
        special: Special = "encode",
    ) -> NDArray[np.uint32]:
        """The ids of ``text``, equal to ``tokenizer.encode(text, add_special_tokens)``: a read-only uint32 array.

        With a ``session_id`` that session's text becomes ``text``.  Without, the stored text that has most in
        common with the beginning of ``text`` is continued in a copy of its session; a text that is stored already
        costs no more than finding it.
        """
        if session_id is None:
            return self._by_content(tokenizer, text, add_special_tokens, special)
        entry = self._entry(tokenizer, session_id, special)

        def update(session: Session) -> NDArray[np.uint32]:
            entry.change(session, lambda session: session.update(text))
            return _prompt(session, add_special_tokens)

        return self._use(entry, update)

    def discard(self, session_id: str) -> bool:
        """Forget a session, in memory and in the file, as when a conversation ends; whether there was one.

        Whoever still holds it cannot use it any more.
        """
        key = _key(session_id)
        with self._writing:
            with self._booking(), self._lock:
                self._work_off()
                self._check_open()
                entry = self._alive.pop(key, None)
                if entry is not None:
                    entry.lost = "it was discarded"
                    self._forget(entry)
                    self._unwritten.pop(key, None)
            stored = 0
            with self._disk() as file:
                if file is not None:
                    stored = file.delete([f"{special}:{key}" for special in ("encode", "text", "raise")])
        return entry is not None or stored > 0

    def __len__(self) -> int:
        """How many sessions are in memory."""
        with self._booking(), self._lock:
            self._work_off()
            return len(self._kept)

    @property
    def counters(self) -> StoreCounters:
        """A snapshot of what was done so far."""
        with self._booking(), self._lock:
            self._work_off()
            values: dict[str, Any] = dict(self._totals)
            fallbacks = dict(self._fallbacks)
            return StoreCounters(**values, fallbacks=fallbacks, sessions=len(self._kept), bytes=self._bytes)

    @property
    def disk_problem(self) -> str | None:
        """What is wrong with the file, or None.

        A file that is damaged, or some other program's, is not used any more.  Other trouble (the disk is full,
        another process has locked the file) is here until something can be written again.
        """
        return self._disk_problem

    # --- finding ----------------------------------------------------------------------

    def _entry(self, tokenizer: Tokenizer, session_id: str, special: Special) -> Entry:
        check_tokenizer(tokenizer)
        check_special(special)
        key = _key(session_id)
        self._check_open()
        entry = self._alive.get(key)
        if entry is not None and entry.used < self._clock() - self._ttl:
            entry = None  # gone, unless a caller holds it
        if entry is None:
            with self._booking(), self._lock:
                self._work_off()
                self._check_open()
                self._expire()
                entry = self._alive.get(key)
                if entry is None:
                    entry = self._alive[key] = Entry(key, tokenizer, special, f"{special}:{key}")
                    return entry
        if entry.kind == (tokenizer.fingerprint, special):
            self._count("hits")
            return entry
        raise WrongArtifactError(
            f"the session {session_id!r} was made under {entry.tokenizer.name} (fingerprint "
            f"{entry.tokenizer.fingerprint[:12]}, special={entry.special!r}) and is not repaired under "
            f"{tokenizer.name} ({tokenizer.fingerprint[:12]}, special={special!r}): give the other one a name "
            "of its own, or call discard() first"
        )

    def _by_content(
        self, tokenizer: Tokenizer, text: str, add_special_tokens: bool, special: Special
    ) -> NDArray[np.uint32]:
        check_tokenizer(tokenizer)
        check_special(special)
        text = plain_text(text)
        self._index_file(tokenizer, special)
        key = f"content:{uuid.uuid4().hex}"
        entry = Entry(key, tokenizer, special, f"{special}:{key}")
        mark, length = self._index.follow(entry.seed, text)
        with self._booking(), self._lock:
            self._work_off()
            self._check_open()
            self._expire()
            found = self._index.newest(mark) if length else None
            if found is not None and found.kind != entry.kind:  # whose hashes collide with those of this text
                found = None
        point: Checkpoint | None = None
        if found is not None:

            def look(session: Session) -> tuple[Checkpoint, NDArray[np.uint32] | None]:
                point = session.checkpoint()
                if len(text) == len(point.text) == point.text.common_prefix(text):
                    return point, _prompt(session, add_special_tokens)
                entry.text, entry.marks = found.text, found.marks
                return point, None

            with contextlib.suppress(SessionUnavailableError):
                point, ids = self._use(found, look)
                if ids is not None:
                    self._count("hits")
                    return ids
        if found is None or point is None:
            entry.session = Session(tokenizer, special=special)
            entry.session.update(text)
            self._count("misses")
        else:
            entry.session = Session.from_checkpoint(tokenizer, point, special=special)
            patch = entry.session.update(text)  # compares every character: what was found is only a proposal
            self._count("hits")
            if found.by_content and len(point.text) <= length + BLOCK:  # continued, not branched
                with found.lock:
                    entry.take_over(found, f"{special}:content:{uuid.uuid4().hex}")
                entry.note(len(point.ids), patch)
                with self._booking(), self._lock:
                    self._work_off()
                    self._unwritten.pop(found.key, None)
        self._alive[key] = entry
        return self._use(entry, lambda session: _prompt(session, add_special_tokens))

    def _index_file(self, tokenizer: Tokenizer, special: Special) -> None:
        """Before the first lookup by content: load from the file what fits into half the memory, newest first."""
        kind = tokenizer.fingerprint, special
        if self._file is None or kind in self._indexed:
            return
        with self._indexing:
            if kind in self._indexed:
                return
            names: list[str] = []
            with self._disk() as file:
                if file is not None:
                    names = file.names(tokenizer.fingerprint)
            for name in names:
                prefix, _, key = name.partition(":")
                with self._booking(), self._lock:
                    self._work_off()
                    if self._bytes > self._max_bytes // 2:
                        break
                    if prefix != special or key in self._alive:
                        continue
                    entry = self._alive[key] = Entry(key, tokenizer, special, name)
                with entry.lock:
                    if entry.session is None and self._load(entry):
                        self._uses.append(entry.use(entry.used))
                        with self._booking(), self._lock:
                            self._work_off()
                            if key in self._kept:
                                self._kept.move_to_end(key, last=False)
            self._indexed.add(kind)

    # --- using ------------------------------------------------------------------------

    def _use(self, entry: Entry, what: Callable[[Session], Result]) -> Result:
        """Do something to the session, with its lock held; afterwards the books are brought up to date."""
        with entry.lock:
            self._check_open()
            if entry.lost:
                raise SessionUnavailableError(f"this session is no longer one of the store: {entry.lost}")
            if entry.session is None:
                self._open(entry)
            session = entry.session
            assert session is not None
            try:
                result = what(session)
            finally:
                self._uses.append(entry.use(self._clock()))
                self._book()
        if self._urgent:  # what was let go stays in memory until it is written
            self._urgent = False
            self._write()
        return result

    def _open(self, entry: Entry) -> None:
        if self._load(entry):
            self._count("hits")
        else:
            entry.session = Session(entry.tokenizer, special=entry.special)
            self._count("misses")

    # --- the books --------------------------------------------------------------------

    # An interrupt may come right after a lock was acquired, which is then never released, or not before the
    # traceback is gone; only a `with` statement of the lock itself is never left halfway.

    @contextlib.contextmanager
    def _booking(self) -> Iterator[None]:
        """Around the lock: what comes in while it is held is booked afterwards."""
        try:
            yield
        finally:
            self._book()

    def _book(self) -> None:
        """Bring the books up to date, or leave it to the thread that is about to."""
        while self._uses and not self._lock.locked():
            with self._lock:
                self._work_off()

    def _work_off(self) -> None:
        """Book the uses that wait.  Needs the lock."""
        while self._uses:
            use = self._uses.popleft()
            self._totals.update(use.done)
            self._fallbacks.update(use.fallbacks)
            entry = use.entry
            if entry is None or entry.lost or self._closed:
                continue
            self._kept[entry.key] = entry
            self._kept.move_to_end(entry.key)
            self._index.replace(entry, entry.indexed, use.marks)
            size = self._bytes + use.nbytes - entry.nbytes
            self._bytes, entry.indexed, entry.nbytes = size, use.marks, use.nbytes
            if self._file is not None and not self._unusable:
                self._unwritten[entry.key] = entry
                self._wake_writer()
            if self._evict() + self._expire():
                self._urgent = True

    def _evict(self) -> int:
        """Let go what is too much; how many of those are not in the file yet.  Needs the lock."""
        unwritten = 0
        while self._bytes > self._max_bytes and self._kept:
            entry = next(iter(self._kept.values()))
            self._forget(entry)
            self._totals["evictions"] += 1
            unwritten += entry.key in self._unwritten
        if not self._kept:
            self._bytes = 0  # as it is already, unless an interrupt came between two steps of the books
        return unwritten

    def _expire(self) -> int:
        """Let go what nobody came back to; how many of those are not in the file yet.  Needs the lock."""
        unwritten = 0
        since = self._clock() - self._ttl
        while self._kept:
            entry = next(iter(self._kept.values()))
            if entry.used >= since:
                break
            self._forget(entry)
            self._totals["expirations"] += 1
            unwritten += entry.key in self._unwritten
        return unwritten

    def _forget(self, entry: Entry) -> None:
        if self._kept.pop(entry.key, None) is not None:
            self._index.replace(entry, entry.indexed, NO_MARKS)
            self._bytes -= entry.nbytes
            entry.indexed, entry.nbytes = NO_MARKS, 0

    def _check_open(self) -> None:
        if self._closed:
            raise SessionUnavailableError("the session store is closed; make another one")

    def _count(self, name: str) -> None:
        self._uses.append(Use({name: 1}))
        self._book()

    # --- the file ---------------------------------------------------------------------

    def flush(self) -> bool:
        """Write now what has changed; whether all of it is in the file.  What is not is tried again later."""
        return self._write()

    def close(self) -> None:
        """Write what has changed and let everything go.  The store and its sessions cannot be used any more."""
        written = self._write()
        with self._writing:
            with self._booking(), self._lock:
                self._work_off()
                self._closed = True
                self._kept.clear()
                lost, self._unwritten = len(self._unwritten), {}
                self._index = PrefixIndex()
                self._bytes = 0
            if self._file is not None:
                with contextlib.suppress(*TROUBLE):
                    self._file.close()
        self._wake.set()
        if lost and not written:
            _warn(f"{counted(lost, 'session')} could not be written: {self._disk_problem}")

    def __enter__(self) -> SessionStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _disk(self) -> Iterator[SessionFile | None]:
        """The file, or None if there is none that can be used.  What goes wrong with it is told, not raised."""
        try:
            yield None if self._unusable else self._file
        except (UnusableFile, *TROUBLE) as problem:
            assert self._file is not None
            reason = str(getattr(problem, "strerror", None) or problem) or type(problem).__name__
            self._disk_problem = f"{self._file.path}: {reason}"
            self._count("disk_errors")
            self._unusable = self._unusable or isinstance(problem, UnusableFile)
            if self._unusable or not self._warned:
                self._warned = True
                lasting = "" if self._unusable else " as long as this lasts"
                _warn(f"sessions are kept in memory only{lasting}: {self._disk_problem}")

    def _load(self, entry: Entry) -> bool:
        """Make the session of what the file has; whether it has one."""
        tokenizer = entry.tokenizer
        record = None
        try:
            with self._disk() as file:
                if file is not None:
                    record = file.load(tokenizer.fingerprint, entry.record, self._maker)
        except DamagedRecord:
            self._count("damaged")
            with self._disk() as file:
                if file is not None:
                    file.delete([entry.record], tokenizer.fingerprint)
        if record is None or record.used < self._clock() - self._ttl:
            return False
        entry.loaded(_session(tokenizer, entry.special, record), record)
        self._count("restored")
        return True

    def _write(self) -> bool:
        """Write what has changed, in transactions of a bounded size; whether all of it is in the file.

        What cannot be written waits for the next time, as long as it is in memory.
        """
        with self._writing:
            with self._booking(), self._lock:
                self._work_off()
                waiting, self._unwritten = self._unwritten, {}
            try:
                while waiting and (batch := self._batch(waiting)):
                    heads = self._write_batch(batch)
                    for (entry, write), head in zip(batch, heads, strict=False):
                        if head is not None:  # else another process was faster; then the whole session is written
                            del waiting[entry.key]
                            with entry.lock:
                                if entry.record == write.name:
                                    entry.head = head
                    if not heads:
                        break
            finally:
                with self._booking(), self._lock:
                    self._work_off()
                    if not self._unusable:
                        kept = {key: entry for key, entry in waiting.items() if self._kept.get(key) is entry}
                        self._unwritten = kept | self._unwritten
            return not waiting and not self._unusable

    def _batch(self, waiting: dict[str, Entry]) -> list[tuple[Entry, Write]]:
        """What to write next; it goes to the end of those that wait, so that others get their turn if it fails."""
        batch: list[tuple[Entry, Write]] = []
        size = 0
        for key, entry in list(waiting.items()):
            with entry.lock:
                write = entry.write(self._maker)
            del waiting[key]
            if write is not None:
                waiting[key] = entry
                batch.append((entry, write))
                size += write.bytes
            if size >= _BATCH:
                break
        return batch

    def _write_batch(self, batch: Sequence[tuple[Entry, Write]]) -> Sequence[Head | None]:
        """The new heads; none at all where nothing could be written."""
        since = self._clock() - self._ttl
        with self._disk() as file:
            if file is not None:
                heads = file.write([write for _, write in batch], since)
                if not self._unusable:
                    self._disk_problem = None
                return heads
        return []

    def _wake_writer(self) -> None:
        """See to it that changes are written soon.  Needs the lock."""
        if self._writer is None:
            arguments = (weakref.ref(self), self._wake)
            writer = threading.Thread(target=_write_behind, args=arguments, name="toktier-store", daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter is about to end, which writes everything
                writer.start()
                self._writer = writer
                weakref.finalize(self, self._wake.set)
        self._wake.set()


def _write_behind(store: weakref.ref[SessionStore], wake: threading.Event) -> None:
    """The writer's thread; it ends when the store is closed or gone."""
    written = True
    while True:
        wake.wait(None if written else _RETRY)
        wake.clear()
        held = store()
        if held is None or held._closed:
            return
        time.sleep(_DELAY)
        try:
            written = held._write() or held._unusable
        except RuntimeWarning:  # where warnings are errors; here is nobody to catch it
            written = False
        del held


def _warn(message: str) -> None:
    """Warn at the line that called this package; the writer's thread has none."""
    passed_over = (__name__.partition(".")[0], "contextlib", "threading")
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__name__", "").partition(".")[0] in passed_over:
        level += 1
        if frame.f_back is None:
            break
        frame = frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def _session(tokenizer: Tokenizer, special: Special, record: Record) -> Session:
    """A session as it was stored; nothing but its end is tokenized."""
    text, anchors = BlockText(record.text), Anchors.start()
    engine = Engine(tokenizer, special)
    seam = repair.Seam() if engine.refusal else repair.tail_seam(engine, text, anchors, len(record.ids))
    point = Checkpoint(tokenizer.fingerprint, special, text, record.ids, anchors, seam)
    return Session.from_checkpoint(tokenizer, point, special=special)


def _prompt(session: Session, add_special_tokens: bool) -> NDArray[np.uint32]:
    ids = session.prompt(add_special_tokens)
    ids.setflags(write=False)
    return ids


def _key(session_id: str) -> str:
    return "id:" + plain_text(session_id, "a session's name")


# --- the end of the interpreter, and forks ------------------------------------------------------

_stores: weakref.WeakSet[SessionStore] = weakref.WeakSet()
_listing = threading.Lock()  # while one is added, or all are gone through
_held: list[SessionStore] = []


@atexit.register
def _write_all() -> None:
    with _listing:
        stores = list(_stores)
    for store in stores:
        if not store._closed:
            store.flush()


def _before_fork() -> None:
    _listing.acquire()
    for store in list(_stores):
        store._lock.acquire()
        _held.append(store)


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _listing.release()


def _after_fork_in_child() -> None:
    for store in _held:
        # The parent writes what is to be written, with a thread that is only there.
        store._writer, store._wake, store._unwritten = None, threading.Event(), {}
        store._writing, store._indexing = threading.Lock(), threading.Lock()
        for key, entry in list(store._alive.items()):
            if entry.lock.locked():  # by a thread that is not here, and may have been half-way through a change
                entry.lost = "another thread was changing it when the process forked"
                store._forget(entry)
                del store._alive[key]
            entry.lock = threading.Lock()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
