"""Ids that stay on the device: as many as there are, without a compilation for each number of them."""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .bits import bits

#: What stands in the output for an added token.
ADDED_TOKEN = -2


@jax.jit
def finished(
    parts: tuple[jax.Array, ...], header: jax.Array, added: jax.Array, prefix: jax.Array, suffix: jax.Array
) -> jax.Array:
    """All ids of a text, then padding: compiled for a size of text and numbers of other ids, not for each length.

    ``parts``, ``header``: see :class:`~.pipeline.Encoded`; ``added``: the ids of the added tokens, then any;
    ``prefix`` and ``suffix``: what stands before and after the text's.  All int32.
    """
    ids = jnp.concatenate(parts)
    if len(added):
        places = bits(ids == ADDED_TOKEN).select(jnp.arange(len(added), dtype=jnp.int32))
        ids = ids.at[places].set(added, mode="drop")
    if len(prefix) + len(suffix):
        ids = jnp.concatenate((prefix, ids, jnp.zeros_like(suffix)))
        ids = lax.dynamic_update_slice(ids, suffix, (header[0] + len(prefix),))
    return ids


def first_of(array: jax.Array, count: int) -> jax.Array:
    """The first ``count`` elements of a vector: the same memory where the device shares it, else a copy.

    A slice of a size that is known only now would be compiled for it, in some ten milliseconds.
    """
    if array.devices().pop().platform in ("cpu", "gpu"):
        shorter: jax.Array = jax.dlpack.from_dlpack(_Shorter(array, count))
        return shorter
    return array[:count]


class _Tensor(ctypes.Structure):
    """``DLTensor`` of DLPack, which every exchange of arrays by it begins with."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class _Shorter:
    """A vector offered for exchange as if it ended earlier.  Its memory lives as long as who takes it over."""

    def __init__(self, array: Any, count: int) -> None:
        self._array = array
        self._count = count

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, max_version: object = None) -> Any:
        capsule = self._array.__dlpack__(stream=stream)  # of DLPack before 1.0, which all read
        _Tensor.from_address(_pointer_of(capsule, b"dltensor")).shape[0] = self._count
        return capsule
