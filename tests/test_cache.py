"""The disk cache and what ships: what is stored comes back, and anything else is ignored."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toktier import bundle, cache, packing

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "ids": np.arange(1000, dtype=np.uint32),
    "pairs": np.arange(42, dtype=np.uint64).reshape(21, 2)[::2],
    "flags": np.array([True, False, True]),
    "empty": np.empty((0, 3), np.float32),
    "one": np.array(7, np.int16),
}
HEADER = {"engine": "0.23.3", "names": ["é", "\U0001f600", "\ud800"], "n": {"x": None, "y": [1, 2.5, True]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; it does not exist before the first store."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TOKTIER_CACHE_DIR", str(path))
    return path


def the_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def check(found: bundle.Bundle | None, arrays: dict[str, np.ndarray[Any, Any]] = ARRAYS) -> None:
    assert found is not None
    assert list(found.arrays) == list(arrays)
    for name, array in found.arrays.items():
        assert array.dtype == arrays[name].dtype and array.shape == arrays[name].shape
        assert array.tobytes() == arrays[name].tobytes()
        assert not array.flags.writeable
        assert array.flags.c_contiguous


# --- what is stored comes back ------------------------------------------------


def test_a_stored_bundle_is_loaded(folder: Path) -> None:
    assert cache.load("key") is None
    cache.store("key", HEADER, ARRAYS)
    bundle = cache.load("key")
    check(bundle)
    assert bundle is not None and bundle.header == HEADER
    assert cache.load("key ") is None


def test_arrays_are_aligned(folder: Path) -> None:
    cache.store("key", HEADER, ARRAYS)
    bundle = cache.load("key")
    assert bundle is not None
    assert [array.ctypes.data % 64 for array in bundle.arrays.values() if array.size] == [0, 0, 0, 0]


def test_the_last_store_wins_and_a_loaded_bundle_stays(folder: Path) -> None:
    cache.store("key", {}, {"a": np.zeros(10_000, np.uint8)})
    old = cache.load("key")
    cache.store("key", {}, {"a": np.ones(10, np.uint8)})
    check(old, {"a": np.zeros(10_000, np.uint8)})
    check(cache.load("key"), {"a": np.ones(10, np.uint8)})


def test_a_bundle_without_arrays(folder: Path) -> None:
    cache.store("key", {"a": 1}, {})
    bundle = cache.load("key")
    assert bundle is not None and bundle.header == {"a": 1} and not bundle.arrays


@given(
    header=st.dictionaries(st.text(max_size=30), st.text(max_size=30) | st.integers(), max_size=5),
    arrays=st.dictionaries(
        st.text(max_size=5),
        hnp.arrays(
            st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64, np.int64, np.bool_]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9),
        ),
        max_size=4,
    ),
)
def test_any_bundle_survives_compression(header: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    found = packing.parse(packing.dump(header, arrays))
    check(found, arrays)
    assert found is not None and found.header == header


def test_every_way_of_packing_is_undone() -> None:
    """Each of these is packed in its own way, as runs of what is packed in turn where it is long enough."""
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "plain": random.integers(256, size=999, dtype=np.uint8),
        "planes": random.integers(1 << 12, size=999, dtype=np.uint32),
        "steps": random.integers(-5, 9, size=999).cumsum(),
        "runs": np.repeat(random.integers(-9, 9, size=99, dtype=np.int32), random.integers(1, 99, size=99)),
        "palette": random.choice(random.integers(1 << 62, size=77, dtype=np.int64), size=(40, 30)),
        "floats": np.array([0.0, -0.0, np.nan, np.inf] * 9, np.float32),
        "flags": np.repeat([True, False, True], 333),
    }
    data = packing.dump({}, arrays)
    check(packing.parse(data), arrays)
    packed = bundle.unpack(data, "")
    assert packed is not None
    ways = {name: packed.header["ways"][name][2] for name in arrays}
    assert ways == {name: name for name in arrays} | {"floats": "palette", "flags": "runs"}


def test_what_is_not_plain_numbers_is_refused(folder: Path) -> None:
    with pytest.raises(TypeError, match="'names' holds object"):
        cache.store("key", {}, {"names": np.array(["a", None])})
    with pytest.raises(ValueError, match="JSON"):
        cache.store("key", {"x": float("nan")}, {})
    assert cache.load("key") is None


# --- damage is found out ------------------------------------------------------


def test_every_flipped_byte_is_found_out(folder: Path) -> None:
    small = {"a": np.arange(5, dtype=np.uint32), "b": np.arange(3, dtype=np.uint8)}
    cache.store("key", {"n": 1}, small)
    path = the_file(folder)
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert cache.load("key") is None, position
    path.write_bytes(whole)
    check(cache.load("key"), small)


def test_every_other_length_is_found_out(folder: Path) -> None:
    small = {"a": np.zeros(5, dtype=np.uint32)}
    cache.store("key", {}, small)
    path = the_file(folder)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.load("key") is None, length
    for tail in (b"\0", whole):
        path.write_bytes(whole + tail)
        assert cache.load("key") is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\x93NUMPY\x01\x00" + b" " * 200, bytes(4096), os.urandom(4096)])
def test_a_foreign_file_is_ignored_and_replaced(content: bytes, folder: Path) -> None:
    cache.store("key", {}, ARRAYS)
    the_file(folder).write_bytes(content)
    assert cache.load("key") is None
    cache.store("key", {}, ARRAYS)
    check(cache.load("key"))


def test_a_file_under_the_wrong_name_is_ignored(folder: Path) -> None:
    cache.store("one", {}, ARRAYS)
    one = the_file(folder)
    content = one.read_bytes()
    one.unlink()
    cache.store("other", {}, {})
    the_file(folder).write_bytes(content)
    assert cache.load("other") is None


def test_damaged_compressed_bytes_are_no_bundle() -> None:
    data = packing.dump({}, ARRAYS)
    check(packing.parse(data))
    for damaged in (b"", data[:-1], data[:40] + b"\0\0\0" + data[43:], b"text"):
        assert packing.parse(damaged) is None


# --- a disk that does not cooperate ---------------------------------------------


def test_files_are_private(folder: Path) -> None:
    cache.store("key", {}, ARRAYS)
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(the_file(folder).stat().st_mode) == 0o600


def test_a_place_that_cannot_be_a_folder_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TOKTIER_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache.store("key", {}, ARRAYS)
    assert cache.load("key") is None


def test_a_folder_that_cannot_be_written_means_no_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    cache.store("key", {}, ARRAYS)
    assert cache.load("key") is None
    assert list(folder.iterdir()) == []


def test_a_full_disk_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    cache.store("key", {}, ARRAYS)
    assert list(folder.iterdir()) == []


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKTIER_CACHE_DIR", raising=False)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache.directory() is None
    cache.store("key", {}, ARRAYS)
    assert cache.load("key") is None


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the XDG rule")
def test_the_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKTIER_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    for value, expected in [
        ("/var/cache/me", "/var/cache/me/toktier"),
        ("", "/home/someone/.cache/toktier"),
        ("relative", "/home/someone/.cache/toktier"),
    ]:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache.directory() == expected


# --- many processes, and old files ----------------------------------------------


def _store_and_load(worker: int) -> int:
    """Store and load one key again and again; count loads that are not one whole bundle."""
    wrong = 0
    for turn in range(40):
        cache.store("key", {"value": worker}, {"a": np.full(20_000, worker, np.uint32)})
        bundle = cache.load("key")
        if bundle is None or set(bundle.arrays["a"].tolist()) != {bundle.header["value"]}:
            wrong += 1
        if turn % 10 == worker:
            cache.store(f"own {worker}", {}, {})
    return wrong


def test_many_processes_at_once(folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(_store_and_load, range(3)) == [0, 0, 0]
    assert len(list(folder.iterdir())) == 4


def test_files_used_longest_ago_are_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block = {"a": np.zeros(1000, np.uint8)}
    for age, key in enumerate(["new", "used", "old"]):
        before = set(folder.iterdir()) if folder.exists() else set()
        cache.store(key, {}, block)
        (path,) = set(folder.iterdir()) - before
        os.utime(path, (1e9 - age, 1e9 - age))
        size = path.stat().st_size
    assert cache.load("used") is not None  # this makes it the most recent
    monkeypatch.setattr(cache, "LIMIT", 3 * size)
    cache.store("last", {}, block)
    assert [key for key in ("new", "used", "old", "last") if cache.load(key)] == ["new", "used", "last"]
    monkeypatch.setattr(cache, "LIMIT", 1)
    cache.store("big", {}, block)
    assert [key for key in ("new", "used", "last", "big") if cache.load(key)] == ["big"]


def test_abandoned_temporary_files_are_deleted_and_others_kept(folder: Path) -> None:
    folder.mkdir()
    for name, age in (("a.writing", 7200), ("b.writing", 0), ("notes.txt", 7200)):
        (folder / name).write_text("x")
        then = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (then, then))
    cache.store("key", {}, ARRAYS)
    names = {path.name for path in folder.iterdir()}
    assert "a.writing" not in names and {"b.writing", "notes.txt"} < names


def test_the_format_is_the_documented_one(folder: Path) -> None:
    cache.store("key", {"x": 1}, {"a": np.arange(3, dtype="<u2")})
    data = the_file(folder).read_bytes()
    length = int.from_bytes(data[12:16], "little")
    assert data[:8] == b"\x93TokTier" and (32 + length) % 64 == 0
    assert int.from_bytes(data[24:32], "little") == len(data)
    described = json.loads(data[32 : 32 + length])
    (entry,) = described["arrays"]
    assert described["key"] == "key" and described["header"] == {"x": 1}
    assert data[entry["offset"] : entry["offset"] + 6] == b"\0\0\1\0\2\0"
