"""Bundles of arrays on disk, so that tables are derived once per machine.

A file is one :mod:`~toktier.bundle`, mapped into memory.  The cache only remembers: a file that is damaged,
truncated or foreign is ignored and written anew, and whatever goes wrong with the disk (no home directory, a full
or read-only disk), the caller computes instead.

Files lie in the user's cache directory: ``$TOKTIER_CACHE_DIR`` if set, else
``toktier`` under ``$XDG_CACHE_HOME`` or ``~/.cache`` (Linux and others),
``~/Library/Caches`` (macOS), ``%LOCALAPPDATA%`` (Windows).  Directory and files are
private to the user.  When the files exceed :data:`LIMIT` bytes, those used longest
ago are deleted.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import time
import zlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from .bundle import Bundle, pack, unpack

LIMIT = 1 << 30

_SUFFIX = ".bundle"
_TEMPORARY = ".writing"
_ABANDONED_AFTER = 3600.0  # seconds; a temporary file this old has lost its writer


def load(key: str) -> Bundle | None:
    """The bundle stored under ``key``, or None if there is none that is whole.

    The arrays are views of a mapped file, shared between processes.
    """
    path = _path(key)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return None
    bundle = unpack(mapped, key)
    if bundle is not None:
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of last use, by which old files are deleted
    return bundle


def store(key: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Store a bundle under ``key``, in place of any before it.

    Raises as :func:`~toktier.bundle.pack` does.  A disk that does not cooperate is
    passed over in silence.  Any number of processes may store at once: readers see one
    whole file or another.
    """
    content = pack(key, header, arrays)
    path = _path(key)
    if path is None:
        return
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}.{time.time_ns()}{_TEMPORARY}"
        try:
            with open(temporary, "xb", opener=_private) as file:
                file.writelines(content)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        _trim(path)


def directory() -> str | None:
    """Where bundles are kept, or None if the user has no such place.  It need not exist yet."""
    chosen = os.environ.get("TOKTIER_CACHE_DIR")
    if chosen:
        return chosen
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else "~/.cache"  # a relative one is to be ignored
    expanded = os.path.expanduser(base)
    return os.path.join(expanded, "toktier") if os.path.isabs(expanded) else None


def _path(key: str) -> str | None:
    """Keys that share a file take turns in it: it says whose it is."""
    folder = directory()
    return None if folder is None else os.path.join(folder, f"{zlib.crc32(key.encode('utf-8')):08x}{_SUFFIX}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _trim(kept: str) -> None:
    """Delete the files used longest ago beyond ``LIMIT`` bytes, but never ``kept``."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(os.path.dirname(kept)) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have deleted it
                if entry.name.endswith(_SUFFIX) and entry.path != kept:
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.endswith(_TEMPORARY) and entry.stat().st_mtime < time.time() - _ABANDONED_AFTER:
                    os.unlink(entry.path)
    total = os.path.getsize(kept) + sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= LIMIT:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
