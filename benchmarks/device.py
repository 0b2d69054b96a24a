"""The `jax` backend on an accelerator: exactness, latency and bulk speed, with the floor beside them, in one run.

    python benchmarks/device.py                      # the run for a GPU; at most five minutes
    python benchmarks/device.py --quick              # small and few, for a machine without one
    python benchmarks/device.py --tokenizers qwen3 --sizes 1000000 --json device.json

It builds (tables, compilation), checks every output against ids computed beforehand by the `numpy` backend (and,
for the smaller texts, by the reference itself), and prints one table.  Ids that differ end the run with status 1.
Rows that the time does not allow are named as left out.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import corpora
import numpy as np
import options
from measuring import IdsDiffer, machine, seconds

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if importlib.util.find_spec("jax") is None:
    sys.exit("device.py: JAX is not installed: pip install '.[jax]'")

import jax
import jax.numpy as jnp

import toktier
from toktier.backends.jax import pipeline, symbols, utf8
from toktier.errors import TokTierError

SIZES = (1_000_000, 10_000, 100_000, 2_000_000, 4_400_000)
QUICK = (10_000, 40_000)
CORPORA = ("english", "code", "cjk")
TOKENIZERS = ("qwen3", "gpt-oss", "deepseek-v3")
#: Texts up to so many characters are encoded by the reference too.
_BY_REFERENCE = 100_000
#: Different texts among the repetitions; a device remembers nothing of a text between them.
_DISTINCT = 4
_BULK = 512 << 20


@dataclass(frozen=True)
class Floor:
    """What no schedule of the same work undercuts: seconds for a launch, for a dependent load, for a byte."""

    launch: float
    load: float | None
    byte: float


@dataclass(frozen=True)
class Row:
    """Times in milliseconds.  ``first``: the first call for texts of the size, with whatever it compiles;
    ``array``: text to a numpy array; ``device``: text to an array on the device.

    ``depth``: merges that wait for each other in some piece, at most; ``launches``: kernels of the compiled
    function, on a GPU.
    """

    tokenizer: str
    text: str
    characters: int
    bytes: int
    tokens: int
    array_median: float
    array_p90: float
    device_median: float
    device_p90: float
    first: float
    floor_bytes: float
    floor_depth: float | None
    depth: int
    floor_launches: float | None
    launches: int | None

    def cells(self) -> list[str]:
        depth = "" if self.floor_depth is None else f"{self.floor_depth:.3f}"
        speed = self.bytes / self.array_median / 1e6
        counts = [f"{number:,}" for number in (self.characters, self.tokens)]
        times = (self.first, self.array_median, self.array_p90, self.device_median, self.device_p90)
        launched = "" if self.floor_launches is None else f"{self.floor_launches:.3f}"
        floors = [f"{self.floor_bytes:.3f}", launched, str(self.launches or ""), depth, str(self.depth)]
        return [self.tokenizer, self.text, *counts, *(f"{t:.2f}" for t in times), f"{speed:.3f}", *floors]


HEADINGS = (
    *("tokenizer", "text", "characters", "tokens", "first ms", "array ms", "P90", "device ms", "P90", "GB/s"),
    *("floor: bytes ms", "launches ms", "launches", "chain ms", "depth"),
)


def digest(ids: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(ids, np.uint32).tobytes()).hexdigest()


def to_device(tok: toktier.Tokenizer, text: str) -> jax.Array:
    return tok.encode_to_device(text).block_until_ready()


def digests(tok: toktier.Tokenizer, texts: Sequence[str]) -> list[str]:
    """What the ids of texts must be."""
    return [digest(tok.encode_to_numpy(text, backend="numpy")) for text in texts]


def check(ids: Any, expected: str, what: str) -> None:
    if digest(ids) != expected:
        raise IdsDiffer(f"the ids of {what} differ")


# --- the floor --------------------------------------------------------------------------------------


def measure_floor() -> Floor:
    """Measured on the default device; the cost of a dependent load only where kernels run."""
    many = 64
    barrier: Callable[[jax.Array], jax.Array] = jax.lax.optimization_barrier

    @jax.jit
    def launches(array: jax.Array) -> jax.Array:
        for _ in range(many):  # with a barrier, so that no two are fused
            array = barrier(array + 1)
        return array

    size = 1 << 26 if jax.default_backend() != "cpu" else 1 << 22
    copy = jax.jit(lambda array: array + 1)
    launch = best(lambda: launches(jnp.zeros(8, jnp.int32)).block_until_ready()) / many
    ones = jnp.ones(size, jnp.int32)
    byte = best(lambda: copy(ones).block_until_ready()) / (8 * size)
    return Floor(launch, _load_latency() if jax.default_backend() == "gpu" else None, byte)


def _load_latency() -> float:
    """Seconds for a load whose address is what the one before has read, in memory of the size of a rule table."""
    from toktier.backends.jax.compat import Memory, kernel

    steps, size = 4096, 1 << 20
    order = np.random.default_rng(1).permutation(size)
    following = np.empty(size, np.int32)
    following[order] = np.roll(order, -1)

    def chase(device: Memory, following: Any, last: Any) -> None:
        one = jnp.arange(32, dtype=jnp.int32) == 0
        zero = jnp.zeros(32, jnp.int32)
        at = jax.lax.fori_loop(0, steps, lambda _, at: device.load(following, at, one, 0), zero)
        device.store(last, zero, at, one)

    run = jax.jit(kernel(chase, [(1,)], name="chase", programs=1, warps=1, in_place={}, interpret=False))
    table = jax.device_put(following)
    return best(lambda: run(table)[0].block_until_ready()) / steps


def best(call: Callable[[], Any]) -> float:
    call()
    return min(seconds(call)[0] for _ in range(10))


# --- the table --------------------------------------------------------------------------------------


def merge_depth(tok: toktier.Tokenizer, text: str) -> int:
    """Most bytes less ids of a piece that is not one id: a bound of the merges that wait for each other."""
    _, pieces = tok.pieces(text, backend="numpy")
    return max((len(piece.text.encode()) - len(piece.ids) for piece in pieces if len(piece.ids) > 1), default=0)


def program(tok: toktier.Tokenizer, function: Callable[..., Any], text: str) -> Any:
    """A function of the pipeline as the backend compiles it for a text; None for one that must be cut for it."""
    backend = tok._jax()
    size = next((size for size in backend.buckets if size >= len(text.encode())), None)
    return None if size is None else backend._function(function, size)


def launches(tok: toktier.Tokenizer, text: str) -> int | None:
    """How many kernels the compiled function has on a GPU; None elsewhere, and for a text that is cut."""
    found = program(tok, pipeline.encode, text) if jax.default_backend() == "gpu" else None
    return None if found is None else len(re.findall(r" (?:fusion|custom-call|copy)\(", found.compiled.as_text()))


def symbols_of(data: Any, tables: Any, sizes: Any) -> Any:
    """The pipeline up to the first symbols of all pieces."""
    characters = utf8.decode(data)
    begins, _ = pipeline._piece_starts(data, characters, tables.split, sizes)
    part = len(data) if sizes.kernels else len(data) // pipeline.PARTS
    return symbols.stream(data, characters, begins, part, tables.symbols)


def stages(name: str, tok: toktier.Tokenizer, corpus: str, size: int, repetitions: int) -> str:
    """Medians of the stages of a text that fits the largest size; those on the device by what each adds."""
    text = corpora.CORPORA[corpus](size, 0)
    functions = (pipeline.starts_of, symbols_of, pipeline.encode)
    programs = [program(tok, function, text) for function in functions]
    if None in programs:
        return f"{name}, {corpus}, {size:,} characters: too large for one call"
    prepared = tok._prepare(text, "encode", as_it_is=tok._jax().checks)
    data = text.encode()
    padded = np.full(next(n for n in tok._jax().buckets if n >= len(data)), utf8.PADDING, np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    on_device = jax.device_put(padded)
    ids = tok.encode_to_device(text)
    steps: list[Callable[[], Any]] = [
        lambda: tok._prepare(text, "encode", as_it_is=tok._jax().checks),
        lambda: jax.device_put(padded).block_until_ready(),
        *(partial(lambda found: jax.block_until_ready(found(on_device)), found) for found in programs),
        lambda: jax.device_get(jnp.add(ids, 0)),
        lambda: tok._jax().encode(prepared),
    ]
    for step in steps:
        step()
    times = [[1e3 * seconds(step)[0] for _ in range(repetitions)] for step in steps]
    host, sent, starts, first, everything, fetched, whole = map(statistics.median, times)
    parts = {
        "added tokens and normalizing, host": host,
        "to the device": sent,
        "piece starts": starts,
        "first symbols": first - starts,
        "look-up, BPE, output": everything - first,
        "ids to the host": fetched,
        "all but the first": whole,
    }
    return f"{name}, {corpus}, {size:,} characters: " + "; ".join(
        f"{what} {ms:.3f} ms" for what, ms in parts.items()
    )


def measure(name: str, tok: toktier.Tokenizer, corpus: str, size: int, repetitions: int, floor: Floor) -> Row:
    texts = [corpora.CORPORA[corpus](size, seed) for seed in range(min(_DISTINCT, repetitions))]
    what = f"{corpus}, {size:,} characters, {name}"
    expected = digests(tok, texts)
    if size <= _BY_REFERENCE:
        for text, own in zip(texts, expected, strict=True):
            check(tok.encode_to_numpy(text, backend="reference"), own, f"{what}, by numpy")
    first, ids = seconds(partial(tok.encode_to_numpy, texts[0], backend="jax"))
    check(ids, expected[0], what)
    array, device = [], []
    for number in range(repetitions):
        text, own = texts[number % len(texts)], expected[number % len(texts)]
        taken, ids = seconds(partial(tok.encode_to_numpy, text, backend="jax"))
        array.append(1e3 * taken)
        check(ids, own, what)
        taken, on_device = seconds(partial(to_device, tok, text))
        device.append(1e3 * taken)
        check(on_device, own, f"{what}, on the device")
    used = len(texts[0].encode())
    depth = merge_depth(tok, texts[0][:100_000])
    count = launches(tok, texts[0])
    return Row(
        name,
        corpus,
        size,
        used,
        len(ids),
        statistics.median(array),
        _p90(array),
        statistics.median(device),
        _p90(device),
        first=1e3 * first,
        floor_bytes=1e3 * floor.byte * (used + 4 * len(ids)),
        floor_depth=None if floor.load is None else 1e3 * floor.load * depth,
        depth=depth,
        floor_launches=None if count is None else 1e3 * floor.launch * count,
        launches=count,
    )


def _p90(times: Sequence[float]) -> float:
    return float(np.percentile(times, 90))


def bulk(name: str, tok: toktier.Tokenizer, corpus: str, size: int, total: int) -> str:
    """``total`` bytes in texts of ``size`` characters, one after another, to numpy arrays."""
    texts = [corpora.CORPORA[corpus](size, seed) for seed in range(_DISTINCT)]
    expected = digests(tok, texts)
    batch = [texts[i % len(texts)] for i in range(-(-total // len(texts[0].encode())))]
    check(tok.encode_to_numpy(texts[0], backend="jax"), expected[0], corpus)  # compiles
    taken, found = seconds(lambda: tok.encode_batch_to_numpy(batch, backend="jax"))
    for number, ids in enumerate(found):
        check(ids, expected[number % len(texts)], f"{corpus} in bulk, {name}")
    used = sum(len(text.encode()) for text in batch)
    return f"{name}, {corpus}: {used / 1e6:,.0f} MB in {len(batch)} texts, {used / taken / 1e9:.3f} GB/s"


def show(rows: Sequence[Row]) -> None:
    lines = [list(HEADINGS), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    options.add_tokenizers(parser, TOKENIZERS)
    options.add_corpora(parser, CORPORA)
    options.add_numbers(parser, "sizes", SIZES, "characters")
    options.add_number(parser, "repetitions", 20, "of each figure; the median counts")
    about = f"bytes of the bulk run; 0 leaves it out (default: {_BULK:,})"
    parser.add_argument("--bulk", metavar="N", type=int, default=_BULK, help=about)
    about = "no row is begun after so many (default: 285)"
    parser.add_argument("--seconds", metavar="S", type=float, default=285, help=about)
    parser.add_argument("--quick", action="store_true", help="small texts, one tokenizer, three repetitions")
    options.add_json(parser)
    return parser


def main() -> int:
    arguments = command_line().parse_args()
    if arguments.quick:
        arguments.tokenizers, arguments.sizes, arguments.repetitions = ["qwen3"], list(QUICK), 3
        arguments.bulk = 1 << 17
    began = time.monotonic()
    facts = machine() | {"jax": jax.__version__, "device": jax.devices()[0].device_kind}
    for key, value in facts.items():
        print(f"{key}: {value}")
    if jax.default_backend() == "cpu":
        print("NOTE: JAX sees no accelerator; these are times of XLA on the processor")
    floor = measure_floor()
    latency = "not measured (no kernel runs here)" if floor.load is None else f"{floor.load * 1e9:.0f} ns"
    print(f"a launch: {floor.launch * 1e6:.2f} us; a byte moved: {floor.byte * 1e12:.2f} ps; a load: {latency}")
    rows: list[Row] = []
    lines: list[str] = []
    left_out: list[str] = []
    try:
        for name in arguments.tokenizers:
            tok = toktier.load(name)
            short = Path(name).name.partition(".")[0]
            for size in arguments.sizes:
                for corpus in arguments.corpora:
                    if time.monotonic() - began > arguments.seconds:
                        left_out.append(f"{short} {corpus} {size:,}")
                        continue
                    rows.append(measure(short, tok, corpus, size, arguments.repetitions, floor))
            if time.monotonic() - began <= arguments.seconds:
                lines.append(stages(short, tok, arguments.corpora[0], arguments.sizes[0], arguments.repetitions))
            if arguments.bulk and time.monotonic() - began <= arguments.seconds:
                lines.append(bulk(short, tok, arguments.corpora[0], max(arguments.sizes), arguments.bulk))
    except IdsDiffer as problem:
        print(f"IDS DIFFER: {problem}")
        return 1
    except TokTierError as problem:
        print(f"error: {problem}")
        return 2
    print("\nevery output was compared; medians and P90 of", arguments.repetitions)
    show(rows)
    print(*lines, sep="\n")
    if left_out:
        print(f"left out, the time being up: {', '.join(left_out)}")
    if arguments.json:
        document = {"machine": facts, "floor": asdict(floor), "rows": [asdict(row) for row in rows], "bulk": lines}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"took {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
