"""The store's file: across restarts, killed processes, forks, other processes, and damage of every kind."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, in_child, reference
from hypothesis import given
from hypothesis import strategies as st
from judge import as_text, engine
from transcripts import steps, transcript

from toktier.errors import OptionError
from toktier.sessions import Session, persistence
from toktier.sessions import store as store_module
from toktier.sessions.engine import Engine
from toktier.sessions.persistence import Change, DamagedRecord, Head, SessionFile, Write, _replace
from toktier.sessions.store import SessionStore
from toktier.sessions.text import BlockText, common_ends

pytestmark = [
    pytest.mark.filterwarnings("ignore:sessions are kept in memory only:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.* could not be written:RuntimeWarning"),
]

NAME = "qwen3"
TOK = engine(NAME)


def right(text: str, name: str = NAME) -> list[int]:
    """What the reference says."""
    return reference(name).encode(text, add_special_tokens=False).ids  # type: ignore[no-any-return]


def stored(path: Path, session_id: str = "a") -> str:
    """The text that a new store finds under a name, its ids being those of the reference."""
    with SessionStore(path) as store:
        session = store.session(TOK, session_id)
        text = session.text
        assert session.ids.tolist() == right(text)
        session.append("!")
        assert session.ids.tolist() == right(text + "!")
        session.truncate(len(text))
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def test_what_verifying_repaired_is_written(path: Path) -> None:
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        session.update("One two three")
        kept = store._kept["id:a"].session
        assert kept is not None
        kept._state.ids._memory[1] = 7
        store.flush()
        session.verify()
    assert stored(path) == "One two three"


def test_an_interrupt_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes when a session has changed, and its entry does not know yet."""
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        session.update("One two three")
        store.flush()

        def update(self: Session, text: str) -> None:
            Session.edit(self, 4, 7, "2 4")
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Session, "update", update)
            session.update("")
    assert stored(path) == "One 2 4 three"


# --- restarts -----------------------------------------------------------------------------


def test_sessions_outlive_the_store(path: Path) -> None:
    text = transcript(1, 20_000)
    with SessionStore(path) as store:
        store.encode(TOK, text, "a")
        store.encode(TOK, "", "empty")
        store.encode(TOK, "ééé 😀\ud7ff\0" * 40, "\ud800 odd name")
    with SessionStore(path) as store:
        assert store.encode(TOK, text + " more", "a").tolist() == right(text + " more")
        assert store.session(TOK, "empty").text == ""
        assert store.session(TOK, "\ud800 odd name").text == "ééé 😀\ud7ff\0" * 40
        assert store.session(TOK, "new").text == ""
        found = store.counters
        assert (found.hits, found.restored, found.misses, found.damaged) == (3, 3, 1, 0)
        assert found.appends == 1  # and the 20,000 characters were not encoded again
        assert store.session(TOK, "a").counters.characters < 1_000
    assert stored(path) == text + " more"


def test_sessions_found_by_content_outlive_the_store(path: Path) -> None:
    text = transcript(2, 20_000)
    with SessionStore(path) as store:
        for stop in range(1_000, 20_000, 1_000):
            store.encode(TOK, text[:stop] + "<think>\n")
        store.encode(TOK, "another one")
        store.encode(TOK, "another one", special="text")
        store.session(TOK, "named").append("by name: " + text)
        assert store.flush()
        stored_texts = len(SessionFile(path, 1 << 30).names(TOK.fingerprint))
        assert stored_texts == 4  # a text that was continued is stored as part of what continues it
    with SessionStore(path) as store:
        assert store.encode(TOK, text).tolist() == right(text)
        assert store.encode(TOK, "another one!").tolist() == right("another one!")
        assert store.encode(TOK, "by name: " + text + "!").tolist() == right("by name: " + text + "!")
        assert store.encode(TOK, "another one<think>", special="text").tolist() == right("another one<think>")
        assert (store.counters.hits, store.counters.misses, store.counters.restored) == (4, 0, 4)
        assert store.session(TOK, "named").text == "by name: " + text


def test_an_artifact_is_part_of_the_name(path: Path) -> None:
    other = engine("gpt2")
    with SessionStore(path) as store:
        store.encode(TOK, "Hello", "a")
    with SessionStore(path) as store:
        assert store.session(other, "a").text == ""
        assert store.encode(other, "Hello there", "a").tolist() == right("Hello there", "gpt2")
    with SessionStore(path) as store:
        assert store.session(TOK, "a").text == "Hello"
        assert store.discard("a")  # under every artifact
    with SessionStore(path) as store:
        assert store.session(other, "a").text == ""


def test_what_other_software_made_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SessionStore(path) as store:
        store.encode(TOK, "Hello", "a")
    monkeypatch.setattr(store_module, "engine_version", lambda: "0.0.1")
    with SessionStore(path) as store:
        assert store.session(TOK, "a").text == ""
        assert (store.counters.misses, store.counters.damaged) == (1, 0)
        store.encode(TOK, "Hello again", "a")
    with SessionStore(path) as store:
        assert store.session(TOK, "a").text == "Hello again"


def test_special_tokens_in_the_text_are_kept_apart(path: Path) -> None:
    text = "one<|im_end|>two"
    with SessionStore(path) as store:
        store.encode(TOK, text, "a", special="text")
    with SessionStore(path) as store:
        assert store.encode(TOK, text, "a").tolist() == right(text)
    with SessionStore(path) as store:
        session = store.session(TOK, "a", special="text")
        assert session.ids.tolist() == as_text(NAME).encode(text).ids


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_stored_change_by_change(path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    text = ""
    with SessionStore(path) as store:
        for step in islice(steps(seed, "agent", median=80, largest=3_000, context=8_000), 150):
            session = store.session(TOK, "a")
            point, before = session.checkpoint(), text
            if step.change == "edit":
                session.edit(step.start, step.stop, step.text)
            else:
                session.update(step.apply(text))
            text = step.apply(text)
            if random_.random() < 0.1:  # there and back again
                text = before
                session.restore(point)
            if random_.random() < 0.3:
                assert store.flush()
            if random_.random() < 0.1:
                store.flush()
                with SessionStore(path) as other:
                    found = other.session(TOK, "a")
                    assert found.text == text and found.ids.tolist() == right(text)
        found = store.counters
        assert (found.misses, found.damaged, found.disk_errors) == (1, 0, 0)
    assert stored(path) == text


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 140))
def test_any_history_is_stored_change_by_change_at_length(path: Path, seed: int) -> None:
    test_any_history_is_stored_change_by_change(path, seed)


def test_appends_write_what_was_appended(path: Path) -> None:
    text = transcript(3, 300_000)
    delta = "A line that the tool has written.\n" * 10
    with SessionStore(path) as store:
        store.encode(TOK, text, "a")
        assert store.flush()
        rows = [_sizes(path)]
        for _ in range(20):
            store.session(TOK, "a").append(delta)
            assert store.flush()
            rows.append(_sizes(path))
        store.session(TOK, "a").edit(1_000, 1_001, "?")
        assert store.flush()
        rows.append(_sizes(path))
    assert len(rows[0]) == 1 and rows[0][0] >= 300_000
    assert len(rows[-1]) == 22 and rows[-1][:1] == rows[0]
    assert max(rows[-1][1:]) < 1_000
    assert stored(path) == text[:1_000] + "?" + text[1_001:] + 20 * delta


def _sizes(path: Path) -> list[int]:
    """Bytes of each change of the only session."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT length(text) + length(ids) FROM changes ORDER BY number").fetchall()
    connection.close()
    return [size for (size,) in rows]


def test_a_list_of_changes_does_not_outgrow_the_session(path: Path) -> None:
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        most = 0
        for number in range(60):
            session.update(f"always something else: {number} " * 300)
            session.edit(5, 9, f"{number}")
            assert store.flush()
            live = len(session) + 4 * session.count
            assert sum(_sizes(path)) < 3 * live + (64 << 10)
            most = max(most, len(_sizes(path)))
        assert 3 < most < 30
        text = session.text
    assert stored(path) == text


@pytest.mark.parametrize("more", ["", "e\u0301"])
def test_a_session_from_the_file_costs_what_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """Its checkpoints are found again when a change far from either end needs one, and not before."""
    text = (transcript(7, 20_000).encode("ascii", "ignore").decode() + more) * 20
    with SessionStore(path) as store:
        store.encode(TOK, text, "a")
    read: list[int] = []
    size = Engine._size
    monkeypatch.setattr(Engine, "_size", lambda self, text: read.append(len(text)) or size(self, text))
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        for end in ("the", "other", "one"):
            session.edit(len(session) - 3, len(session), end)
            session.append(".")
        assert sum(read) < 5_000 and session.counters.characters < 5_000
        session.edit(200_000, 200_010, " there, then, ")
        assert sum(read) > 100_000 and session.counters.characters < 20_000
        read.clear()
        session.edit(250_000, 250_010, " there, then, ")
        assert sum(read) < 40_000 and session.counters.characters < 40_000
        assert session.ids.tolist() == right(session.text) and not session.counters.widenings


def test_the_writer_writes_without_being_asked(path: Path) -> None:
    store = SessionStore(path)
    store.encode(TOK, "Hello", "a")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and SessionFile(path, 1 << 30).names(TOK.fingerprint):
            break
        time.sleep(0.05)
    assert stored(path) == "Hello"
    store.close()


def test_a_program_that_ends_has_written_everything(path: Path) -> None:
    program = (
        "import sys, toktier\n"
        "store = toktier.SessionStore(sys.argv[1])\n"
        "store.encode(toktier.load('qwen3'), 'Hello', 'a')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, cwd=ROOT)
    assert stored(path) == "Hello"


def test_what_was_let_go_comes_back_from_the_file(path: Path) -> None:
    texts = {f"{number}": transcript(number, 5_000) for number in range(12)}
    with SessionStore(path, max_bytes=100_000) as store:
        for name, text in texts.items():
            assert store.encode(TOK, text, name).tolist() == right(text)
        assert store.counters.evictions >= 5
        for name, text in texts.items():
            assert store.session(TOK, name).text == text
            assert store.encode(TOK, text + "!", name).tolist() == right(text + "!")
        assert store.counters.misses == 12 and store.counters.restored >= 10
        assert store.counters.bytes <= 100_000


def test_sessions_expire_in_the_file_too(path: Path) -> None:
    now = [1_000_000.0]
    with SessionStore(path, clock=lambda: now[0]) as store:
        store.encode(TOK, "old", "a")
        store.encode(TOK, "used again", "b")
        store.flush()
        now[0] += 3_000
        assert store.session(TOK, "b").text == "used again"
    now[0] += 1_000
    with SessionStore(path, clock=lambda: now[0]) as store:
        assert store.session(TOK, "a").text == ""
        assert store.session(TOK, "b").text == "used again"
        store.discard("a")
        store.encode(TOK, "new", "c")
        store.flush()
        assert sorted(SessionFile(path, 1 << 30).names(TOK.fingerprint)) == ["encode:id:b", "encode:id:c"]


def test_the_file_is_bounded_and_the_oldest_go(path: Path) -> None:
    limit = 1 << 20
    texts = [transcript(number, 60_000) for number in range(4)]
    now = [0.0]
    with SessionStore(path, max_disk_bytes=limit, clock=lambda: now[0]) as store:
        for number in range(40):
            now[0] += 1
            store.encode(TOK, f"{number} " + texts[number % 4], f"{number}")
            store.flush()
    assert path.stat().st_size <= limit
    names = SessionFile(path, 1 << 30).names(TOK.fingerprint)
    assert names == [f"encode:id:{number}" for number in range(39, 39 - len(names), -1)] and 3 < len(names) < 20
    with SessionStore(path, clock=lambda: now[0]) as store:
        assert store.session(TOK, "39").text == "39 " + texts[3]
        assert store.session(TOK, "0").text == ""
    with SessionStore(path, max_disk_bytes=1) as store:  # has room for nothing, and works
        assert store.encode(TOK, texts[0], "a").tolist() == right(texts[0])
        assert store.encode(TOK, texts[0] + "!", "a").tolist() == right(texts[0] + "!")


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX")
def test_the_file_is_private(path: Path) -> None:
    with SessionStore(path) as store:
        store.encode(TOK, "Hello", "a")
        store.flush()
        modes = {file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {0o600}


def test_impossible_paths_are_refused(tmp_path: Path) -> None:
    for bad in (tmp_path, tmp_path / "none" / "sessions.db"):
        with pytest.raises(OptionError, match="folder"):
            SessionStore(bad)
    with pytest.raises(OptionError, match="leave out path"):
        SessionStore(":memory:")


# --- changes ------------------------------------------------------------------------------


@given(st.text("abc", max_size=30), st.data())
def test_replacing_in_parts_is_replacing(text: str, data: st.DataObject) -> None:
    parts, length = [""], 0
    length = _replace(parts, length, 0, 0, text)
    for _ in range(5):
        start = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, len(text) - start))
        new = data.draw(st.text("xyz", max_size=5))
        length = _replace(parts, length, start, removed, new)
        text = text[:start] + new + text[start + removed :]
        assert "".join(parts) == text and length == len(text)
    with pytest.raises(DamagedRecord):
        _replace(parts, length, len(text), 1, "")


@given(st.text("aé", max_size=40), st.data())
def test_common_ends_never_say_too_much(text: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toktier.sessions.text._BLOCK", 8)
        patch.setattr("toktier.sessions.text._WIDE_BLOCK", 4)
        old = new = BlockText(text)
        for _ in range(3):
            start = data.draw(st.integers(0, len(new)))
            stop = data.draw(st.integers(start, len(new)))
            new = new.replaced(start, stop, data.draw(st.text("aé", max_size=9)))
        before, after = common_ends(old, new)
    one, other = str(old), str(new)
    assert before + after <= min(len(one), len(other))
    assert one[:before] == other[:before] and one[len(one) - after :] == other[len(other) - after :]


def test_a_record_is_continued_only_from_where_it_is(path: Path) -> None:
    file = SessionFile(path, 1 << 30)
    ids = np.arange(5, dtype=np.uint32)

    def write(base: Head | None, text: str, start: int, characters: int) -> Head | None:
        change = Change(start, 0, text, start, 0, ids[: len(text)])
        return file.write([Write("f", "a", "m", base, change, characters, characters, 1.0)], 0.0)[0]

    first = write(None, "abc", 0, 3)
    assert first is not None
    second = write(first, "de", 3, 5)
    assert second is not None
    assert write(first, "xy", 3, 5) is None  # the record has moved on
    record = file.load("f", "a", "m")
    assert record is not None and record.text == "abcde" and record.head == second
    assert record.ids.tolist() == [0, 1, 2, 0, 1]
    assert write(None, "xyz", 0, 3) is not None
    assert write(second, "q", 5, 6) is None
    assert (
        file.load("f", "b", "m") is None and file.load("g", "a", "m") is None and file.load("f", "a", "n") is None
    )
    file.close()


# --- damage -------------------------------------------------------------------------------

TEXT = "It was a dark and stormy night; é😀 the rain fell in torrents. " * 30
COLUMNS = {
    "sessions": ("id", "fingerprint", "name", "maker", "characters", "tokens", "changes", "digest", "used"),
    "changes": (*("session", "number", "start", "removed", "text", "first_id", "removed_ids", "ids", "digest"),),
}
VALUES = [0, 1, 2, -1, 1 << 40, 0.5, 9e999, "", "x", b"", b"\xff\xfe", b"\0" * 16]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with one session of three changes."""
    path = tmp_path_factory.mktemp("made") / "sessions.db"
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        session.append(TEXT)
        store.flush()
        session.append("One more line.")
        store.flush()
        session.edit(100, 105, "new")
    assert len(_sizes(path)) == 3
    return path.read_bytes()


FULL = (TEXT + "One more line.")[:100] + "new" + (TEXT + "One more line.")[105:]


def look(path: Path) -> tuple[str, Any]:
    """What a store makes of a damaged file: nothing or the right session; and its counters."""
    with SessionStore(path) as store:
        session = store.session(TOK, "a")
        text = session.text
        assert text in ("", FULL)
        assert session.ids.tolist() == right(text)
        assert store.encode(TOK, FULL + "!").tolist() == right(FULL + "!")
        assert store.encode(TOK, FULL + "?", "a").tolist() == right(FULL + "?")
        store.flush()
        return text, store.counters


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]], ids=lambda name: name
)
def test_any_column_may_be_tampered_with(table: str, column: str, made: bytes, path: Path) -> None:
    missed = 0
    for value in VALUES:
        path.write_bytes(made)
        connection = sqlite3.connect(path)
        try:
            with connection:
                connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        except sqlite3.Error:  # the file itself refuses that
            continue
        finally:
            connection.close()
        text, counters = look(path)
        missed += not text
        if column not in ("id", "session", "fingerprint", "name", "used", "maker"):
            assert text == "" and counters.damaged == 1, value
            with SessionStore(path) as store:
                assert store.session(TOK, "a").text == FULL + "?"  # written anew
    assert missed or column in ("id", "number")  # of which each has its own


def test_single_changes_may_be_missing_or_mixed(made: bytes, path: Path) -> None:
    swap = "UPDATE changes SET number = number + 10; UPDATE changes SET number = (number - 9) % 3"
    exchange = "UPDATE changes SET {0} = (SELECT {0} FROM changes c WHERE c.number = 2 - changes.number)"
    orders = [f"DELETE FROM changes WHERE number = {number}" for number in range(3)]
    orders += [f"INSERT INTO changes SELECT session, 3, {', '.join(COLUMNS['changes'][2:])} FROM changes LIMIT 1"]
    orders += [
        swap,
        "DELETE FROM changes",
        *(exchange.format(name) for name in ("text", "ids", "start", "digest")),
    ]
    for order in orders:
        path.write_bytes(made)
        connection = sqlite3.connect(path)
        connection.executescript(order)
        connection.close()
        text, counters = look(path)
        assert text == "" and counters.damaged == 1, order
    path.write_bytes(made)
    connection = sqlite3.connect(path)
    connection.executescript("DELETE FROM sessions")
    connection.close()
    assert look(path)[0] == ""


def test_tables_may_be_missing_or_others(made: bytes, path: Path) -> None:
    for order in (
        "DROP TABLE changes",
        "DROP TABLE sessions",
        "ALTER TABLE changes DROP COLUMN ids",
        "ALTER TABLE sessions RENAME COLUMN digest TO d",
        "CREATE TRIGGER t BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END",
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 0",
    ):
        path.write_bytes(made)
        connection = sqlite3.connect(path)
        connection.executescript(order)
        connection.close()
        _, counters = look(path)
        assert counters.disk_errors > 0, order


def damaged(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    """``data`` with bytes flipped, zeroed, moved, or cut off."""
    random_ = random.Random(seed)
    for _ in range(count):
        copy = bytearray(data)
        at = random_.randrange(len(copy))
        match random_.randrange(5):
            case 0:
                for _ in range(random_.choice([1, 1, 5])):
                    copy[random_.randrange(len(copy))] ^= 1 << random_.randrange(8)
            case 1:
                copy[at : at + random_.choice([4, 100, 4096])] = bytes(min(4, len(copy) - at))
            case 2:
                page = random_.randrange(len(copy) // 4096) * 4096
                copy[page : page + 4096] = bytes(4096)
            case 3:
                del copy[at:]
            case 4:
                copy[random_.randrange(120)] = random_.randrange(256)
        yield bytes(copy)


def _check_bytes(made: bytes, path: Path, count: int, seed: int) -> None:
    outcomes: dict[str, int] = {"": 0, FULL: 0}
    for data in damaged(made, count, seed):
        for rest in path.parent.glob(path.name + "*"):
            rest.unlink()
        path.write_bytes(data)
        text, _ = look(path)
        outcomes[text] += 1
    assert min(outcomes.values()) > count // 20


def test_any_byte_may_be_damaged(made: bytes, path: Path) -> None:
    _check_bytes(made, path, 80, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 30))
def test_any_byte_may_be_damaged_at_length(made: bytes, path: Path, seed: int) -> None:
    _check_bytes(made, path, 1_000, seed)


def test_a_file_of_somebody_else_is_not_touched(path: Path, tmp_path: Path) -> None:
    database = tmp_path / "other.db"
    connection = sqlite3.connect(database)
    connection.executescript("CREATE TABLE sessions (id); INSERT INTO sessions VALUES (1)")
    connection.close()
    for content in (b"notes\n" * 1_000, b"x", database.read_bytes()):
        path.write_bytes(content)
        with pytest.warns(RuntimeWarning, match="in memory only: .*sessions.db: .*database") as warned:
            store = SessionStore(path)
        assert [warning.filename for warning in warned] == [__file__]
        assert store.disk_problem is not None and str(path) in store.disk_problem
        assert store.encode(TOK, "Hello", "a").tolist() == right("Hello")
        assert not store.flush()
        assert store.encode(TOK, "Hello there", "a").tolist() == right("Hello there")
        assert store.counters.disk_errors == 1
        store.close()
        assert path.read_bytes() == content
        assert [file.name for file in path.parent.glob(path.name + "*")] == [path.name]


def test_a_disk_that_fails_is_counted(path: Path) -> None:
    with SessionStore(path) as store:
        store.encode(TOK, "Hello", "a")
        assert store.flush()
        blocker = sqlite3.connect(path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(persistence, "_PATIENCE", 0.05)
            assert store._file is not None
            store._file.close()  # opened again with less patience
            store.encode(TOK, "Hello there", "a")
            store.encode(TOK, "Another", "b")
            with pytest.warns(RuntimeWarning, match="as long as this lasts: .*sessions.db: .*locked") as warned:
                assert not store.flush()
            assert [warning.filename for warning in warned] == [__file__]
            assert store.disk_problem == f"{path}: database is locked"
            assert store.counters.disk_errors == 1
            assert not store.flush(), "nothing has changed since, and nothing is in the file"
        blocker.execute("ROLLBACK")
        blocker.close()
        store._file.close()
        assert store.flush() and store.disk_problem is None
        store.encode(TOK, "Hello there!", "a")
    assert stored(path) == "Hello there!" and stored(path, "b") == "Another"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device on this system")
def test_what_could_not_be_written_is_warned_about() -> None:
    """Where the file cannot even be made: once at first, and when the store is closed."""
    for path in ("/proc/no such.db", "/dev/full", "/dev/null"):
        with pytest.warns(RuntimeWarning) as warned:
            store = SessionStore(path)
            store.encode(TOK, "Hello", "a")
            store.encode(TOK, "Hello", "b")
            assert not store.flush()
            assert store.disk_problem is not None and store.disk_problem.startswith(f"{path}: ")
            problem = store.disk_problem
            store.close()
        said = [str(warning.message) for warning in warned]
        assert said == [
            f"sessions are kept in memory only as long as this lasts: {problem}",
            f"2 sessions could not be written: {problem}",
        ]
        assert {warning.filename for warning in warned} == {__file__}


def test_the_writer_tries_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings.simplefilter("error", RuntimeWarning)
    monkeypatch.setattr(store_module, "_RETRY", 0.01)
    fails = [True] * 3

    def write(self: SessionFile, *arguments: Any) -> Any:
        if fails:
            fails.pop()
            raise sqlite3.OperationalError("disk I/O error")
        return real(self, *arguments)

    real = SessionFile.write
    monkeypatch.setattr(SessionFile, "write", write)
    store = SessionStore(path)
    store.encode(TOK, "Hello", "a")
    waited = 0.0
    while (fails or store._unwritten) and waited < 20:
        time.sleep(0.05)
        waited += 0.05
    assert store.counters.disk_errors == 3
    assert store.flush() and stored(path) == "Hello"
    store.close()


def test_what_is_let_go_while_the_disk_fails_is_not_kept_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: SessionFile, *arguments: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SessionFile, "write", write)
    store = SessionStore(path, max_bytes=50_000)
    for number in range(40):
        store.encode(TOK, f"{number} " * 1_000, f"{number}")
    assert not store.flush()
    assert store._unwritten.keys() <= store._kept.keys() and len(store) < 10
    store.close()


# --- killed, forked, and other processes ----------------------------------------------------

WRITER = """
import sys, toktier
from itertools import islice
sys.path.insert(0, "benchmarks")
from transcripts import steps
store = toktier.SessionStore(sys.argv[1])
tok = toktier.load("qwen3")
texts = {}
for turn in range(10**6):
    name = f"{turn % 5}"
    text = texts.get(name, "") + f"{name} says {turn}. "
    texts[name] = text
    assert store.encode(tok, text, name).tolist() == tok.encode(text)
    store.encode(tok, "by content: " + text)
    if turn == 200:
        store.flush()
        print("ready", flush=True)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("after", [0.0, 0.11, 0.37])
def test_a_killed_process_loses_the_unwritten_tail_at_most(path: Path, after: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    for name in range(5):
        text = stored(path, f"{name}")
        told = "".join(f"{name} says {turn}. " for turn in range(name, 10**5, 5))
        assert told.startswith(text) and len(text) >= len(
            "".join(f"{name} says {turn}. " for turn in range(name, 200, 5))
        )
    with SessionStore(path) as store:
        text = "by content: " + "".join(f"0 says {turn}. " for turn in range(0, 150, 5)) + "more"
        assert store.encode(TOK, text).tolist() == right(text)
        assert (store.counters.hits, store.counters.damaged, store.counters.disk_errors) == (1, 0, 0)


TENANT = """
import sys, toktier, random

path, number = sys.argv[1:]
tok = toktier.load("qwen3")
print("ready", flush=True)
sys.stdin.readline()
random_ = random.Random(int(number))
with toktier.SessionStore(path) as store:
    for turn in range(60):
        for name, text in ((f"own {number}", f"{number}: {turn}. " * turn), ("shared", f"{number} {turn} " * 40)):
            assert store.encode(tok, text, name).tolist() == tok.encode(text)
        store.encode(tok, f"{number}: {turn} by content " * random_.randrange(200))
        if random_.random() < 0.3:
            store.flush()
    assert store.counters.disk_errors == store.counters.damaged == 0, store.counters
"""


def test_processes_share_one_file(path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TENANT, str(path), f"{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for number in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in processes:
        process.communicate(b"go\n")
    assert [process.returncode for process in processes] == [0, 0, 0]
    for number in range(3):
        assert stored(path, f"own {number}") == f"{number}: 59. " * 59
    text = stored(path, "shared")
    assert text in {f"{number} 59 " * 40 for number in range(3)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_both_sides_of_a_fork_write(path: Path) -> None:
    store = SessionStore(path)
    base = transcript(5, 3_000)
    store.encode(TOK, base, "shared")
    store.encode(TOK, base)
    store.flush()
    store.encode(TOK, base + "not written yet", "shared")
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [store.flush() for _ in iter(stop.is_set, True)])
    busy.start()

    def child(number: int) -> None:
        for turn in range(3):
            text = f"{base} child {number} turn {turn}"
            for name in (f"child {number}", "shared", None):
                assert store.encode(TOK, text, name).tolist() == right(text)
            assert store.flush()
        assert store.counters.disk_errors == store.counters.damaged == 0
        assert store.session(TOK, f"child {number}").text == text

    try:
        for number in range(6):
            in_child(lambda number=number: child(number))  # type: ignore[misc]
            text = f"{base} parent {number}"
            assert store.encode(TOK, text, "shared").tolist() == right(text)
    finally:
        stop.set()
        busy.join()
    store.close()
    assert store.counters.disk_errors == store.counters.damaged == 0
    for number in range(6):
        assert stored(path, f"child {number}") == f"{base} child {number} turn 2"
    assert stored(path, "shared") == f"{base} parent 5"


def test_threads_write_and_read_one_file(path: Path) -> None:
    names = [f"{number}" for number in range(40)]
    with SessionStore(path, max_bytes=150_000) as store:

        def work(number: int) -> None:
            for name in random.Random(number).sample(names, len(names)):
                store.session(TOK, name).append(f"[{number} says hello]\n" * 8)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.counters
        assert found.evictions > 40 and found.restored > 40 and found.misses == 40
        assert (found.damaged, found.disk_errors, found.widenings) == (0, 0, 0)
    for name in names[::4]:
        lines = stored(path, name).splitlines()
        assert sorted(lines) == [f"[{number} says hello]" for number in range(8) for _ in range(8)]
