"""Bundles that ship with the package: few bytes, and little work to unpack.

xz would pack tables a tenth smaller, and take five times as long to unpack them.  So it is zlib here, on arrays
that are written first in whichever of these ways comes out shortest:

- ``plain``: the bytes as they are;
- ``planes``: the first bytes of all elements, then the second ones, and so on;
- ``steps``: the planes of the differences between neighbours;
- ``runs``: the values of runs of equal elements, and the lengths of these runs, each packed as an array;
- ``palette``: the distinct values, and for each element the number of its value, each packed as an array.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import bundle
from .bundle import Bundle
from .registry import DATA

_Array = NDArray[Any]
_WAYS = "ways"  # in the header: of each packed array the dtype (all are unsigned), the length and the way
_SHAPES = "shapes"  # in the header: of each array the dtype and the shape that it was given with
#: Runs and palettes must be this much shorter than what they stand for.
_WORTH = 4
_PARTS = {"runs": ("values", "lengths"), "palette": ("colours", "numbers")}


def dump(header: Mapping[str, Any], arrays: Mapping[str, _Array]) -> bytes:
    """A bundle as packed bytes.  Raises as :func:`~toktier.bundle.pack` does."""
    ways: dict[str, tuple[str, int, str]] = {}
    packed: dict[str, _Array] = {}
    for name, array in arrays.items():
        _pack(name, array.reshape(-1).view(f"u{array.itemsize}"), ways, packed)
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    return b"".join(bundle.pack("", {"header": dict(header), _WAYS: ways, _SHAPES: shapes}, packed))


def load(name: str) -> Bundle | None:
    """The bundle that ships under a name, or None if there is none that is whole."""
    path = os.path.join(DATA, name)
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return parse(file.read())


def parse(data: bytes) -> Bundle | None:
    """The bundle that :func:`dump` made ``data`` of, or None if ``data`` is damaged."""
    found = bundle.unpack(data, "")
    if found is None:
        return None
    ways, packed = found.header[_WAYS], found.arrays
    arrays = {}
    for name, (kind, shape) in found.header[_SHAPES].items():
        arrays[name] = _unpack(name, ways, packed).view(kind).reshape(shape)
        arrays[name].flags.writeable = False
    return Bundle(found.header["header"], arrays)


def _pack(name: str, array: _Array, ways: dict[str, tuple[str, int, str]], packed: dict[str, _Array]) -> None:
    """Pack one array of one dimension: an entry in ``ways``, and its bytes or its parts in ``packed``."""
    way, parts = _in_parts(array)
    if not parts:
        steps = np.diff(array, prepend=array.dtype.type(0))
        written = {"plain": array.tobytes(), "planes": _planes(array), "steps": _planes(steps)}
        short = {way: zlib.compress(content, 9) for way, content in written.items()}
        way = min(short, key=lambda way: len(short[way]))
        packed[name] = np.frombuffer(short[way], np.uint8)
    ways[name] = (array.dtype.str, len(array), way)
    for part, content in zip(_PARTS.get(way, ()), parts, strict=True):
        _pack(f"{name} {part}", content, ways, packed)


def _in_parts(array: _Array) -> tuple[str, tuple[_Array, ...]]:
    """How the array is packed as two smaller ones, and these; none if it is not."""
    starts = np.flatnonzero(np.append(True, array[1:] != array[:-1])[: len(array)])
    if _WORTH * len(starts) < len(array):
        return "runs", (array[starts], np.diff(starts, append=len(array)).astype("u4"))
    colours = np.unique(array)
    if _WORTH * len(colours) < len(array) and len(colours) <= 1 << 16 and array.itemsize > 2:
        return "palette", (colours, np.searchsorted(colours, array).astype("u2"))
    return "", ()


def _planes(array: _Array) -> bytes:
    return array.view(np.uint8).reshape(len(array), array.itemsize).T.tobytes()


def _unpack(name: str, ways: Mapping[str, tuple[str, int, str]], packed: Mapping[str, _Array]) -> _Array:
    kind, length, way = ways[name]
    dtype = np.dtype(kind)
    parts = [_unpack(f"{name} {part}", ways, packed) for part in _PARTS.get(way, ())]
    if way == "runs":
        return np.repeat(*parts)
    if way == "palette":
        return parts[0].take(parts[1])
    content = np.frombuffer(zlib.decompress(packed[name].data, bufsize=length * dtype.itemsize or 1), np.uint8)
    if way == "plain":
        return content.view(dtype)
    array = np.ascontiguousarray(content.reshape(dtype.itemsize, length).T).reshape(-1).view(dtype)
    return np.cumsum(array, dtype=dtype) if way == "steps" else array
