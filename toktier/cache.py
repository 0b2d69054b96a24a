"""Bundles of arrays on disk, so that tables are derived once per machine.

A bundle is one file: a fixed preamble, a JSON header, then the raw arrays, each
at a multiple of 64 bytes.  It is mapped into memory, not read, and every byte of
it is covered by a checksum, so that a damaged, truncated or foreign file is found
out, ignored, and written anew.  The cache only remembers: whatever goes wrong with
it (no home directory, a full or read-only disk), the caller computes instead.

Layout, integers little-endian::

    0   8 bytes   magic
    8   uint32    format version
    12  uint32    length n of the header
    16  uint32    CRC-32 of the header
    20  uint32    CRC-32 of everything after the header
    24  uint64    length of the file
    32  n bytes   header: {"key", "header", "arrays": [{"name", "dtype", "shape", "offset"}]},
                  padded with spaces so that 32 + n is a multiple of 64
    ..            arrays; offsets count from the beginning of the file

Files lie in the user's cache directory: ``$TOKTIER_CACHE_DIR`` if set, else
``toktier`` under ``$XDG_CACHE_HOME`` or ``~/.cache`` (Linux and others),
``~/Library/Caches`` (macOS), ``%LOCALAPPDATA%`` (Windows).  Directory and files are
private to the user.  When the files exceed :data:`LIMIT` bytes, those used longest
ago are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import mmap
import os
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT = 1 << 30

_MAGIC = b"\x93TokTier"
_VERSION = 1
_PREAMBLE = struct.Struct("<8sIIIIQ")
_ALIGNMENT = 64
_SUFFIX = ".bundle"
_TEMPORARY = ".writing"
_ABANDONED_AFTER = 3600.0  # seconds; a temporary file this old has lost its writer


@dataclass(frozen=True, slots=True)
class Bundle:
    """``header`` as it was stored (a JSON object), and the named arrays, read-only."""

    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def load(key: str) -> Bundle | None:
    """The bundle stored under ``key``, or None if there is none that is whole.

    The arrays are views of a mapped file, shared between processes.
    """
    path = _path(key)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None
    bundle = _unpack(mapped, key)
    if bundle is not None:
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of last use, by which old files are deleted
    return bundle


def store(key: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store a bundle under ``key``, in place of any before it.

    ``header`` must be JSON; arrays must be of booleans, integers or floating-point numbers,
    otherwise ``TypeError`` or ``ValueError`` is raised.  A disk that does not cooperate is
    passed over in silence.  Any number of processes may store at once: readers see one
    whole file or another.
    """
    content = _pack(key, header, arrays)
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        _trim(path)


def dump(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A bundle without a key as compressed (xz) bytes, to ship with the package."""
    content = _pack("", header, arrays)
    level = 9 | lzma.PRESET_EXTREME
    # a window no larger than the content: the same result, less memory on both sides
    window = {"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": max(len(content), 4096)}
    return lzma.compress(content, filters=[window])


def parse(data: bytes) -> Bundle | None:
    """The bundle that :func:`dump` made ``data`` of, or None if ``data`` is damaged."""
    try:
        return _unpack(lzma.decompress(data), "")
    except (lzma.LZMAError, EOFError):
        return None


def directory() -> Path | None:
    """Where bundles are kept, or None if the user has no such place.  It need not exist yet."""
    chosen = os.environ.get("TOKTIER_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else "~/.cache"  # a relative one is to be ignored
    expanded = os.path.expanduser(base)
    return Path(expanded) / "toktier" if os.path.isabs(expanded) else None


def _path(key: str) -> Path | None:
    folder = directory()
    name = hashlib.sha256(key.encode("utf-8")).hexdigest()
    return None if folder is None else folder / f"{name}{_SUFFIX}"


def _trim(kept: Path) -> None:
    """Delete the files used longest ago beyond ``LIMIT`` bytes, but never ``kept``."""
    found: list[tuple[float, int, Path]] = []
    for path in kept.parent.iterdir():
        with contextlib.suppress(OSError):  # another process may have deleted it
            if path.suffix == _SUFFIX and path != kept:
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
            elif path.suffix == _TEMPORARY and path.stat().st_mtime < time.time() - _ABANDONED_AFTER:
                path.unlink()
    total = kept.stat().st_size + sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= LIMIT:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def _pack(key: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    chunks: dict[str, bytes] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"array {name!r} holds {array.dtype}, which is no plain number type")
        chunks[name] = array.tobytes()

    def describe(start: int) -> bytes:
        """The header if the first array begins at ``start``."""
        entries = []
        for name, chunk in chunks.items():
            array = arrays[name]
            shape = list(array.shape)
            entries.append({"name": name, "dtype": array.dtype.str, "shape": shape, "offset": start})
            start = _aligned(start + len(chunk))
        value = {"key": key, "header": dict(header), "arrays": entries}
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")

    # Offsets are written in the header and depend on its length; a later start never
    # makes it shorter, so this settles.
    start = _aligned(_PREAMBLE.size)
    while len(text := describe(start)) > start - _PREAMBLE.size:
        start = _aligned(_PREAMBLE.size + len(text))
    text = text.ljust(start - _PREAMBLE.size)
    body = b"".join(chunk.ljust(_aligned(len(chunk)), b"\0") for chunk in chunks.values())
    preamble = _PREAMBLE.pack(_MAGIC, _VERSION, len(text), zlib.crc32(text), zlib.crc32(body), start + len(body))
    return preamble + text + body


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _unpack(data: bytes | mmap.mmap, key: str) -> Bundle | None:
    if len(data) < _PREAMBLE.size:
        return None
    magic, version, length, header_sum, body_sum, size = _PREAMBLE.unpack(data[: _PREAMBLE.size])
    start = _PREAMBLE.size + length
    if (magic, version, size) != (_MAGIC, _VERSION, len(data)) or start > size:
        return None
    text = data[_PREAMBLE.size : start]
    with memoryview(data) as view, view[start:] as body:
        if zlib.crc32(text) != header_sum or zlib.crc32(body) != body_sum:
            return None
    described = json.loads(text)
    if described["key"] != key:
        return None
    return Bundle(described["header"], dict(_arrays(data, described["arrays"])))


def _arrays(data: bytes | mmap.mmap, entries: list[dict[str, Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    for entry in entries:
        array: NDArray[Any] = np.ndarray(
            tuple(entry["shape"]), np.dtype(entry["dtype"]), buffer=data, offset=entry["offset"]
        )
        yield entry["name"], array
