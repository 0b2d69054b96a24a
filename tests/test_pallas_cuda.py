"""The kernels compiled to a GPU's assembly: lowering accepts what Triton then refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deviceless
import pytest
from conftest import artifact

pytestmark = [
    pytest.mark.cuda_compile,
    pytest.mark.skipif(deviceless.missing() is not None, reason=f"compiling for CUDA: {deviceless.missing()}"),
]

#: Registers of a thread and bytes spilled, at most: with more, fewer threads are under way at a time.
#: Triton makes other code from JAX 0.11 on.
BOUNDS = {16: (80, 0), 32: (144, 16), 128: (72, 0), 1024: (64, 16), 4096: (64, 16)}
BOUNDS_SINCE_0_11 = {16: (96, 0), 32: (168, 0), 128: (88, 0), 1024: (120, 0), 4096: (64, 56)}
#: Launches for a text, at most, by tokenizer and how its piece starts are found.  That of qwen3 has a normal form
#: to check, and that of deepseek-v3 three stages.
LAUNCHES = {
    ("gpt2", "runs"): 65,
    ("qwen3", "runs"): 74,
    ("gpt-oss", "runs"): 82,
    ("deepseek-v3", "runs"): 74,
    ("deepseek-v3", "lanes"): 118,
}

SIZE = 1 << 16


def program_name(name: str, way: str) -> str:
    return f"{name}_{way}".replace("-", "_")


def build(shape: Callable[..., Any]) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The two steps that kernels do, and all of them together as the backend runs them on a GPU."""
    import jax
    import jax.numpy as jnp

    from toktier.backends.jax import forms, pallas_lanes, pallas_pieces, pipeline
    from toktier.backends.jax.pallas_tables import KernelTables, kernel_tables
    from toktier.backends.jax.pieces import whole_tables
    from toktier.backends.jax.runs import run_tables
    from toktier.backends.jax.splitting import split_tables
    from toktier.backends.jax.symbols import symbol_tables
    from toktier.compiled import compiled

    def pieces(symbols: Any, starts: Any, counts: Any, outcome: Any, tables: Any) -> Any:
        return pallas_pieces.merge_pieces(symbols, starts, counts, outcome, tables)

    tables = KernelTables(shape((1 << 20,), jnp.uint32), shape((151_388,), jnp.int32), 18, 18, 0)
    words = shape((SIZE,), jnp.int32)
    yield "pieces", pieces, (words, words, words, words, tables)

    def lanes(begins: Any, seen: Any, restarts: Any, starts: Any, stops: Any, oracle: Any, walk: Any) -> Any:
        return pallas_lanes.walk_lanes(begins, seen, restarts, starts, stops, oracle, walk, 100)

    table = shape((3_000,), jnp.int32)
    yield "lanes", lanes, (shape((SIZE,), jnp.bool_), words, words, words, words, table, table)

    for name, way in LAUNCHES:

        def encode(data: Any, tables: Any) -> Any:
            return pipeline.encode(data, tables, pipeline.Sizes(lanes=SIZE, merged=SIZE, kernels=True))

        known = compiled(artifact(name))
        engine = known.engine
        assert engine is not None
        found = engine.pieces
        every = (
            run_tables(known.pipeline.pre_tokenizer, engine.split)
            if way == "runs"
            else split_tables(engine.split),
            whole_tables(found),
            symbol_tables(found.first),
            kernel_tables(found.merges),
            *(forms.active_table(inert) for inert in known.inert.values()),
        )
        shapes = jax.tree.map(lambda array: shape(array.shape, array.dtype), pipeline.Tables(*every))
        yield program_name(name, way), encode, (shape((SIZE,), jnp.uint8), shapes)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, deviceless.Program]:
    folder: Path = tmp_path_factory.mktemp("dumps")
    return deviceless.programs(f"{__name__}:build", folder)


@pytest.mark.parametrize("limit", BOUNDS)
def test_a_kernel_fits_in_registers(programs: dict[str, deviceless.Program], limit: int) -> None:
    from toktier.backends.jax.versions import VERSION

    kernel = programs["pieces"].kernel(f"bpe_{limit}")
    registers, spilled = (BOUNDS if VERSION < (0, 11) else BOUNDS_SINCE_0_11)[limit]
    assert kernel.registers <= registers and kernel.spilled <= spilled, kernel


def test_all_pieces_of_a_text_go_in_one_command_buffer(programs: dict[str, deviceless.Program]) -> None:
    """However many merges a text takes: no loop is left to the host."""
    program = programs["pieces"]
    kernels = [name for name in program.launches if name.startswith("bpe_")]
    assert kernels == ["bpe_16", "bpe_32", "bpe_128", "bpe_1024", "bpe_4096"]
    assert program.command_buffers == 1 and not program.outside
    assert len(program.launches) <= 34, program.launches


def test_lanes_are_one_launch(programs: dict[str, deviceless.Program]) -> None:
    program = programs["lanes"]
    assert "lanes" in program.launches and len(program.launches) <= 3, program.launches
    kernel = program.kernel("lanes")
    assert kernel.registers <= 40 and kernel.spilled == 0, kernel


@pytest.mark.parametrize(("name", "way"), LAUNCHES)
def test_a_text_goes_in_one_command_buffer(programs: dict[str, deviceless.Program], name: str, way: str) -> None:
    """From bytes to ids the host starts one CUDA graph, and the graph does not grow unnoticed."""
    program = programs[program_name(name, way)]
    assert program.command_buffers == 1 and not program.outside, program.outside
    assert len(program.launches) <= LAUNCHES[name, way], len(program.launches)
