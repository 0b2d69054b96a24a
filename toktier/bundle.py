"""Named arrays with a JSON header, as one block of bytes.

A bundle is a fixed preamble, a JSON header, then the raw arrays, each at a multiple of 64 bytes, so that a file
of them is mapped into memory, not read.  Every byte is covered by a checksum: a damaged, truncated or foreign
block is found out.

Layout, integers little-endian::

    0   8 bytes   magic
    8   uint32    format version
    12  uint32    length n of the header
    16  uint32    CRC-32 of the header
    20  uint32    CRC-32 of everything after the header
    24  uint64    length of the whole
    32  n bytes   header: {"key", "header", "arrays": [{"name", "dtype", "shape", "offset"}]},
                  padded with spaces so that 32 + n is a multiple of 64
    ..            arrays; offsets count from the beginning
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .records import record

_MAGIC = b"\x93TokTier"
_VERSION = 1
_PREAMBLE = struct.Struct("<8sIIIIQ")
_ALIGNMENT = 64


@record
class Bundle:
    """``header`` as it was packed (a JSON object), and the named arrays, read-only."""

    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


def pack(key: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """The parts of a bundle, in order; arrays are not copied.  ``key`` says what it is for.

    ``header`` must be JSON; arrays must be of booleans, integers or floating-point numbers,
    otherwise ``TypeError`` or ``ValueError`` is raised.
    """
    chunks: dict[str, memoryview] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"array {name!r} holds {array.dtype}, which is no plain number type")
        chunks[name] = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

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
    body: list[bytes | memoryview] = []
    checksum, size = 0, start
    for chunk in chunks.values():
        for part in (chunk, bytes(_aligned(len(chunk)) - len(chunk))):
            body.append(part)
            checksum = zlib.crc32(part, checksum)
            size += len(part)
    return [_PREAMBLE.pack(_MAGIC, _VERSION, len(text), zlib.crc32(text), checksum, size), text, *body]


def unpack(data: bytes | mmap.mmap, key: str) -> Bundle | None:
    """The bundle that ``data`` is, its arrays views of it, or None if it is damaged or for another ``key``."""
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


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _arrays(data: bytes | mmap.mmap, entries: list[dict[str, Any]]) -> Iterator[tuple[str, NDArray[Any]]]:
    for entry in entries:
        array: NDArray[Any] = np.ndarray(
            tuple(entry["shape"]), np.dtype(entry["dtype"]), buffer=data, offset=entry["offset"]
        )
        yield entry["name"], array
