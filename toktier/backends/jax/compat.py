"""What of the kernels depends on the version of JAX and of Pallas, and nothing else does.

The kernels are written for Pallas's Triton form, the one that gathers vectors from device memory.  JAX 0.10
to 0.12 offer it under one name; from 0.11 on it warns that it will be removed, and without a GPU it lowers only
for a device that is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from .versions import VERSION

program_id = pl.program_id
when = pl.when


@dataclass(frozen=True)
class Memory:
    """Device memory, as the threads of a program reach it: one-dimensional arrays, by vectors of places.

    ``interpreted``: the kernel is run by XLA, program after program, to test it; a program is one thread then.
    """

    interpreted: bool

    def load(self, array: Any, at: jax.Array, mask: jax.Array, other: int) -> jax.Array:
        """Elements of an array; where ``mask`` is off nothing is read and ``other`` is returned."""
        loaded: jax.Array = triton.load(array.at[at], mask=mask, other=other)
        return loaded

    def store(self, array: Any, at: jax.Array, values: jax.Array, mask: jax.Array) -> None:
        """Write elements of an array, those where ``mask`` is on."""
        if self.interpreted:  # there, an element that is not to be written is read and written back
            array[...] = array[...].at[jnp.where(mask, at, array.shape[0])].set(values, mode="drop")
        else:
            triton.store(array.at[at], values, mask=mask)

    def wait(self) -> None:
        """Until all threads of the program are here, and see what the others have written."""
        if not self.interpreted:
            triton.debug_barrier()


def kernel(
    body: Callable[..., None],
    outputs: Sequence[tuple[int, ...]],
    *,
    name: str,
    programs: int,
    warps: int,
    in_place: dict[int, int],
    interpret: bool,
) -> Callable[..., Any]:
    """A kernel over whole arrays in device memory, as a function of arrays.

    ``body`` gets a :class:`Memory`, then a reference for each input and each output.  ``outputs``: the shapes of
    the results, which are int32; ``programs``: how many run; ``warps``: of 32 threads, for each.  ``in_place``:
    inputs whose memory an output takes over, by number.  ``interpret``: run it by XLA on any device, to test it.
    """

    def run(*refs: Any) -> None:
        body(Memory(interpret), *refs)

    run.__name__ = name  # the kernel's name in profiles
    structure: Callable[..., Any] = jax.ShapeDtypeStruct  # which has no types of its own
    call = pl.pallas_call(
        run,
        out_shape=tuple(structure(shape, jnp.int32) for shape in outputs),
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
def named_gpu(mesh: jax.sharding.AbstractMesh | None = None) -> Iterator[None]:
    """Within it, kernels lower for a GPU on a machine that has none.

    ``mesh``: that of the arrays, where they are said to lie on such a device; an H200 otherwise.
    """
    if VERSION < (0, 11):  # takes compute capability 9.0 by itself
        yield
        return
    if mesh is None:
        device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
        mesh = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated", DeprecationWarning)
        yield
