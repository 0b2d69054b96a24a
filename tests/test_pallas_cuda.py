"""The kernels compiled to a GPU's assembly: lowering accepts what Triton then refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deviceless
import pytest

pytestmark = [
    pytest.mark.cuda_compile,
    pytest.mark.skipif(deviceless.missing() is not None, reason=f"compiling for CUDA: {deviceless.missing()}"),
]

#: Registers of a thread and bytes spilled, at most: with more, fewer threads are under way at a time.
BOUNDS = {16: (80, 0), 32: (144, 16), 128: (72, 0), 1024: (64, 16), 4096: (64, 16)}


def build(shape: Callable[..., Any]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """Each kernel, all for words side by side, all for the pieces of a text; a vocabulary of Qwen 3's size."""
    import jax.numpy as jnp

    from toktier.backends.jax import pallas_bpe, pallas_lanes, pallas_pieces
    from toktier.backends.jax.pallas_tables import KernelTables

    tables = KernelTables(shape((1 << 20,), jnp.uint32), shape((151_388,), jnp.int32), 18, 18, 0)
    words, numbers = shape((1 << 16,), jnp.int32), shape((1 << 12,), jnp.int32)
    for limit in (*pallas_bpe.SHORT, *pallas_bpe.LONG):

        def spans(symbols: Any, starts: Any, lengths: Any, tables: Any, limit: int = limit) -> Any:
            return pallas_bpe.merge_spans(symbols, starts, lengths, tables, 1, limit)

        yield f"spans_{limit}", spans, (words, numbers, numbers, tables)

    def matrix(symbols: Any, lengths: Any, tables: Any) -> Any:
        return pallas_bpe.merge_words(symbols + 1, lengths, tables)

    yield "matrix", matrix, (shape((1 << 12, 128), jnp.int32), numbers, tables)

    def pieces(symbols: Any, starts: Any, counts: Any, outcome: Any, tables: Any) -> Any:
        return pallas_pieces.merge_pieces(symbols, starts, counts, outcome, tables)

    yield "pieces", pieces, (words, words, words, words, tables)

    def lanes(begins: Any, seen: Any, restarts: Any, starts: Any, stops: Any, oracle: Any, walk: Any) -> Any:
        return pallas_lanes.walk_lanes(begins, seen, restarts, starts, stops, oracle, walk, 100)

    table = shape((3_000,), jnp.int32)
    yield "lanes", lanes, (shape((1 << 16,), jnp.bool_), words, words, words, words, table, table)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, deviceless.Program]:
    folder: Path = tmp_path_factory.mktemp("dumps")
    return deviceless.programs(f"{__name__}:build", folder)


@pytest.mark.parametrize("limit", BOUNDS)
def test_a_kernel_fits_in_registers(programs: dict[str, deviceless.Program], limit: int) -> None:
    kernel = programs[f"spans_{limit}"].kernel(f"bpe_{limit}")
    if kernel is None:
        pytest.skip("ptxas is not on the path")
    registers, spilled = BOUNDS[limit]
    assert kernel.registers <= registers and kernel.spilled <= spilled, kernel


def test_all_kernels_go_in_one_command_buffer(programs: dict[str, deviceless.Program]) -> None:
    program = programs["matrix"]
    assert program.command_buffers == 1 and not program.outside
    assert [name for name in program.launches if name.startswith("bpe_")] == ["bpe_16", "bpe_32", "bpe_128"]
    assert len(program.launches) <= 6, program.launches


def test_all_pieces_of_a_text_go_in_one_command_buffer(programs: dict[str, deviceless.Program]) -> None:
    """However many merges a text takes: no loop is left to the host."""
    program = programs["pieces"]
    kernels = [name for name in program.launches if name.startswith("bpe_")]
    assert kernels == ["bpe_16", "bpe_32", "bpe_128", "bpe_1024", "bpe_4096"]
    assert program.command_buffers == 1 and not program.outside
    assert len(program.launches) <= 56, program.launches


def test_lanes_are_one_launch(programs: dict[str, deviceless.Program]) -> None:
    program = programs["lanes"]
    assert "lanes" in program.launches and len(program.launches) <= 3, program.launches
    kernel = program.kernel("lanes")
    assert kernel is None or (kernel.registers <= 40 and kernel.spilled == 0), kernel
