"""Sessions on disk: one SQLite file, to which changes are appended.

A session is stored as the list of changes that made it: each replaces a stretch of characters and a stretch of ids
by others, the first one nothing by everything.  So an append to a long session writes what was appended, and a
load replays the list.  A list that has grown well beyond what it describes is written anew as one change.

Nothing read here is trusted.  Each change carries a digest of itself, of the change before it and, at the start of
the chain, of whose session it is and which software made it.  A record that does not match, in any column, is
:class:`DamagedRecord`; a file that is not ours is left as it is and not used.

Any number of processes may use one file.  A change is appended only to the very record that it continues; if
another process has written the session in between, all of the session is written in place of the other's.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, AnyStr

import numpy as np
from numpy.typing import NDArray

#: In the header of the file: whose it is, and the version of the tables below.
APPLICATION = 0x746F6B74
VERSION = 1

_TABLES = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    name BLOB NOT NULL,
    maker TEXT NOT NULL,
    characters INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    digest BLOB NOT NULL,
    used REAL NOT NULL,
    UNIQUE (fingerprint, name)
);
CREATE INDEX sessions_by_use ON sessions (used);
CREATE TABLE changes (
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    start INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    text BLOB NOT NULL,
    first_id INTEGER NOT NULL,
    removed_ids INTEGER NOT NULL,
    ids BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (session, number)
);
"""

#: Bytes of the smallest database.
_SMALLEST = 512
#: Seconds to wait for another process that is writing.
_PATIENCE = 15.0
#: What a change costs in the file besides its text and ids, in bytes.
_ROW = 160
#: The write-ahead log is cut back to this size when its contents have been moved into the file.
_LOG = 4 << 20


#: What a disk or a damaged database makes SQLite's module raise (a message that quotes damaged text is no UTF-8).
TROUBLE = (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError, MemoryError)


class DamagedRecord(Exception):
    """A stored session is not what was written.  Never leaves the store."""


class UnusableFile(Exception):
    """The file is no database, or not one of ours.  Never leaves the store."""


@dataclass(frozen=True, slots=True)
class Change:
    """``text[start : start + removed] = new`` and ``ids[first_id : first_id + removed_ids] = new ids``."""

    start: int
    removed: int
    text: str
    first_id: int
    removed_ids: int
    ids: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a stored session: enough to append to it, and to see when it should be written anew.

    ``stored``: bytes of all changes.  ``moved``: bytes that a load moves around.
    """

    changes: int
    digest: bytes
    stored: int
    moved: int

    def wasteful(self, live: int) -> bool:
        """Whether the list of changes has outgrown the ``live`` bytes that it describes."""
        return self.stored > 2 * live + (64 << 10) or self.moved > 64 * live + (1 << 20)


@dataclass(frozen=True, slots=True)
class Write:
    """One session's turn in writing: ``change`` made to the record ``base``, or a whole session if that is None.

    ``characters`` and ``tokens`` are what the session has afterwards.  A ``change`` of None only notes the use.
    """

    fingerprint: str
    name: str
    maker: str
    base: Head | None
    change: Change | None
    characters: int
    tokens: int
    used: float

    @property
    def bytes(self) -> int:
        """About what it adds to the file."""
        return _ROW if self.change is None else _ROW + len(self.change.text) + 4 * len(self.change.ids)


@dataclass(frozen=True, slots=True)
class Record:
    """A session as loaded: ``ids`` uint32, ``used`` in seconds of the clock that it was stored by."""

    text: str
    ids: NDArray[np.uint32]
    used: float
    head: Head


class SessionFile:
    """The file; safe to share between threads, and across ``fork``.

    ``limit`` bounds what it holds, in bytes: sessions used longest ago go first.  Nothing is opened before it is
    needed.  Methods raise one of :data:`TROUBLE` where the disk does not cooperate, and :class:`UnusableFile`.
    """

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        self.path = Path(path).absolute()
        self._limit = limit
        # Reading must not wait for a long write.
        self._reading = _Connection(self._open)
        self._writing = _Connection(self._open)
        with _listing:
            _files.add(self)

    def open(self) -> None:
        """Open it now."""
        with self._reading.lock:
            self._reading.opened()

    def load(self, fingerprint: str, name: str, maker: str) -> Record | None:
        """The session stored under this name; None if there is none, or one that other software made.

        Raises :class:`DamagedRecord`.
        """
        with self._reading.lock, _transaction(self._reading.opened(), "DEFERRED") as connection:
            found = connection.execute(
                "SELECT id, maker, characters, tokens, changes, digest, used FROM sessions "
                "WHERE fingerprint = ? AND name = ?",
                (fingerprint, _blob(name)),
            ).fetchone()
            if found is None:
                return None
            rows = connection.execute(
                "SELECT start, removed, text, first_id, removed_ids, ids, digest, number FROM changes "
                "WHERE session = ? ORDER BY number",
                (found[0],),
            ).fetchall()
        return _replayed(fingerprint, name, maker, found[1:], rows)

    def names(self, fingerprint: str) -> list[str]:
        """The names stored under a fingerprint, those used last first."""
        with self._reading.lock:
            rows = (
                self._reading.opened()
                .execute("SELECT name FROM sessions WHERE fingerprint = ? ORDER BY used DESC", (fingerprint,))
                .fetchall()
            )
        return [name.decode("utf-8", "surrogatepass") for (name,) in rows if _is_name(name)]

    def write(self, writes: Sequence[Write], unused_since: float) -> list[Head | None]:
        """Write all or, if that raises, nothing; sessions last used before ``unused_since`` are deleted.

        Gives the new head of each, or None if its base is no longer what the file has.
        """
        with self._writing.lock:
            connection = self._writing.opened()
            with _transaction(connection):
                _delete(connection, "used < ?", (unused_since,))
                heads = [_write(connection, write) for write in writes]
                self._trim(connection)
            connection.executescript("PRAGMA incremental_vacuum")  # execute() would free one page only
        return heads

    def delete(self, names: Sequence[str], fingerprint: str | None = None) -> int:
        """Delete the sessions of these names, under one fingerprint or under all; how many there were."""
        condition = f"name IN ({', '.join('?' * len(names))})"
        values: list[Any] = [*map(_blob, names)]
        if fingerprint is not None:
            condition, values = f"{condition} AND fingerprint = ?", [*values, fingerprint]
        with self._writing.lock, _transaction(self._writing.opened()) as connection:
            return _delete(connection, condition, values)

    def close(self) -> None:
        """Close; the next use opens the file again."""
        for connection in (self._reading, self._writing):
            with connection.lock:
                connection.close()

    def _trim(self, connection: sqlite3.Connection) -> None:
        while _pragma(connection, "page_size") * (
            _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
        ) > self._limit and _delete(connection, "id = (SELECT id FROM sessions ORDER BY used LIMIT 1)"):
            pass

    def _open(self) -> sqlite3.Connection:
        with contextlib.suppress(FileExistsError):  # transcripts are nobody else's business
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        if 0 < self.path.stat().st_size < _SMALLEST:  # SQLite would take it for an empty file, and overwrite it
            raise UnusableFile("this is too short to be a database")
        # A connection is used by one thread at a time, under its lock.
        connection = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=32
        )
        try:
            _prepare(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.OperationalError):  # busy, or a disk that may recover
                raise
            if isinstance(error, sqlite3.Error | UnusableFile | UnicodeDecodeError):
                raise UnusableFile(str(error)) from error
            raise
        return connection


class _Connection:
    """A connection that is opened on first use, and the lock that whoever uses it holds."""

    def __init__(self, open: Callable[[], sqlite3.Connection]) -> None:
        self.lock = threading.Lock()
        self._open = open
        self._connection: sqlite3.Connection | None = None

    def opened(self) -> sqlite3.Connection:
        """The connection.  Needs the lock."""
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file; refuse a file that is not ours."""
    if _is_empty(connection):
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with _transaction(connection):
            if _is_empty(connection):  # no other process was faster
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
    found = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if found != (APPLICATION, VERSION):
        raise UnusableFile("this is a database, but not one of this version of TokTier's session store")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG}")
    # The database survives a killed process either way; a power cut may cost the last changes.
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not tables and not _pragma(connection, "application_id")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
    if connection.in_transaction:  # one that was interrupted
        connection.execute("ROLLBACK")
    connection.execute(f"BEGIN {kind}")
    try:
        yield connection
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _delete(connection: sqlite3.Connection, condition: str, values: Sequence[Any] = ()) -> int:
    """Delete the sessions of a condition with their changes; how many there were."""
    connection.execute(f"DELETE FROM changes WHERE session IN (SELECT id FROM sessions WHERE {condition})", values)
    return connection.execute(f"DELETE FROM sessions WHERE {condition}", values).rowcount


def _write(connection: sqlite3.Connection, write: Write) -> Head | None:
    """The new head, or None, and nothing written, if the file does not have what ``write`` continues."""
    key = (write.fingerprint, _blob(write.name))
    base, change = write.base, write.change
    if base is None:
        if change is None:
            return None
        _delete(connection, "fingerprint = ? AND name = ?", key)
        base = Head(0, _seed(write.fingerprint, write.name, write.maker), 0, 0)
        row = connection.execute(
            "INSERT INTO sessions (fingerprint, name, maker, characters, tokens, changes, digest, used) "
            "VALUES (?, ?, ?, 0, 0, 0, x'', ?)",
            (*key, write.maker, write.used),
        ).lastrowid
    else:
        found = connection.execute(
            "SELECT id FROM sessions WHERE fingerprint = ? AND name = ? AND changes = ? AND digest = ?",
            (*key, base.changes, base.digest),
        ).fetchone()
        if found is None:
            return None
        (row,) = found
        if change is None:
            connection.execute("UPDATE sessions SET used = ? WHERE id = ?", (write.used, row))
            return base
    text, ids = change.text.encode("utf-8"), change.ids.astype("<u4").tobytes()
    numbers = (change.start, change.removed, change.first_id, change.removed_ids)
    digest = _digest(base.digest, base.changes, numbers, text, ids)
    connection.execute(
        "INSERT INTO changes (session, number, start, removed, text, first_id, removed_ids, ids, digest) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row, base.changes, *numbers[:2], text, *numbers[2:], ids, digest),
    )
    connection.execute(
        "UPDATE sessions SET characters = ?, tokens = ?, changes = ?, digest = ?, used = ? WHERE id = ?",
        (write.characters, write.tokens, base.changes + 1, digest, write.used, row),
    )
    return _next(base, digest, len(text) + len(ids), write.characters - change.start + len(ids))


def _next(head: Head, digest: bytes, size: int, moved: int) -> Head:
    return Head(head.changes + 1, digest, head.stored + size + _ROW, head.moved + moved)


def _replayed(
    fingerprint: str, name: str, maker: str, session: tuple[Any, ...], rows: list[tuple[Any, ...]]
) -> Record | None:
    made_by, characters, tokens, changes, digest, used = session
    if made_by != maker:
        return None
    if not isinstance(used, float) or changes != len(rows) or not rows:
        raise DamagedRecord
    head = Head(0, _seed(fingerprint, name, maker), 0, 0)
    texts: list[str] = []
    blobs: list[bytes] = []
    length = size = 0
    for number, (start, removed, text, first_id, removed_ids, ids, stored, place) in enumerate(rows):
        if not (isinstance(text, bytes) and isinstance(ids, bytes) and place == number):
            raise DamagedRecord
        numbers = (start, removed, first_id, removed_ids)
        if not all(isinstance(value, int) and 0 <= value < 1 << 63 for value in numbers):
            raise DamagedRecord
        if stored != _digest(head.digest, number, numbers, text, ids):
            raise DamagedRecord
        try:
            new = text.decode("utf-8")
        except UnicodeDecodeError:
            raise DamagedRecord from None
        length = _replace(texts, length, start, removed, new)
        size = _replace(blobs, size, 4 * first_id, 4 * removed_ids, ids)
        head = _next(head, stored, len(text) + len(ids), length - start + len(ids))
    if (length, size, head.digest) != (characters, 4 * tokens, digest):
        raise DamagedRecord
    return Record("".join(texts), np.frombuffer(b"".join(blobs), "<u4").astype(np.uint32), used, head)


def _replace(parts: list[AnyStr], length: int, start: int, removed: int, new: AnyStr) -> int:
    """Replace ``[start : start + removed]`` of the joined ``parts`` and return their new length.

    The cost is that of what lies after ``start``, not of the whole.
    """
    if start + removed > length:
        raise DamagedRecord
    after = []
    position = length
    while position > start:
        part = parts.pop()
        position -= len(part)
        after.append(part)
    rest = new[:0].join(reversed(after))
    parts += [rest[: start - position], new, rest[start - position + removed :]]
    return length - removed + len(new)


def _seed(fingerprint: str, name: str, maker: str) -> bytes:
    return _hash(fingerprint.encode("utf-8"), _blob(name), maker.encode("utf-8"))


def _digest(before: bytes, number: int, numbers: tuple[int, ...], text: bytes, ids: bytes) -> bytes:
    return _hash(before, struct.pack("<5q", number, *numbers), text, ids)


def _hash(*fields: bytes) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for field in fields:
        found.update(len(field).to_bytes(8, "little"))
        found.update(field)
    return found.digest()


def _blob(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")  # a name may be any string


def _is_name(name: object) -> bool:
    if not isinstance(name, bytes):
        return False
    try:
        name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


# SQLite forbids carrying an open connection across a fork: the child would believe that it holds locks which are
# its parent's.  So connections are closed before one, and both sides open their own when they need them.

_files: weakref.WeakSet[SessionFile] = weakref.WeakSet()
_listing = threading.Lock()  # while one is added, or all are gone through
_held: list[_Connection] = []


def _before_fork() -> None:
    _listing.acquire()
    for file in list(_files):
        for connection in (file._reading, file._writing):
            connection.lock.acquire()
            _held.append(connection)
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()
    _listing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
