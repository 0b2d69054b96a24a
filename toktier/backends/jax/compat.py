"""What depends on the version of JAX and of Pallas, and nothing else does.

The kernels are written for Pallas's Triton form, the one that gathers vectors from device memory.  JAX 0.10 and
0.11 offer it under one name; from 0.11 on it warns that it will be removed, and without a GPU it lowers only for a
device that is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

#: ``(0, 10, 2)``, say.
VERSION: tuple[int, ...] = jax.__version_info__

program_id = pl.program_id
when = pl.when


def load(ref: Any, at: jax.Array, mask: jax.Array | None = None, other: int | None = None) -> jax.Array:
    """Elements of a one-dimensional array in device memory; where ``mask`` is off nothing is read."""
    return triton.load(ref.at[at], mask=mask, other=other)


def store(ref: Any, at: jax.Array, values: jax.Array, mask: jax.Array) -> None:
    """Write elements of a one-dimensional array in device memory, those where ``mask`` is on."""
    triton.store(ref.at[at], values, mask=mask)


def kernel(
    body: Callable[..., None],
    outputs: Sequence[jax.ShapeDtypeStruct],
    *,
    name: str,
    programs: int,
    warps: int,
    in_place: dict[int, int],
    interpret: bool,
) -> Callable[..., Any]:
    """A kernel over whole arrays in device memory, as a function of arrays.

    ``body`` gets a reference for each input and each output, then a function of no arguments that makes what the
    threads of a program have written visible to each other.  ``programs``: how many run; ``warps``: of 32 threads,
    for each.  ``in_place``: inputs whose memory an output takes over, by number.  ``interpret``: run it by
    XLA on any device, program after program, to test it.
    """

    def wait() -> None:
        if not interpret:  # there is one thread then
            triton.debug_barrier()

    def run(*refs: Any) -> None:
        body(*refs, wait)

    run.__name__ = name  # the kernel's name in profiles
    call = pl.pallas_call(
        run,
        out_shape=tuple(outputs),
        grid=(programs,),
        input_output_aliases=in_place,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
        interpret=interpret,
        name=name,
    )

    def called(*arrays: jax.Array) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
            return call(*arrays)

    return called


@contextmanager
def named_gpu(kind: str = "NVIDIA H200") -> Iterator[None]:
    """Within it, kernels lower for this kind of GPU on a machine that has none."""
    if VERSION < (0, 11):  # takes compute capability 9.0 by itself
        yield
        return
    device = jax.sharding.AbstractDevice(device_kind=kind, num_cores=None, platform="gpu")
    mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
        yield


def least(array: jax.Array) -> jax.Array:
    """The least element of a vector, as a scalar."""
    return jnp.min(array)
