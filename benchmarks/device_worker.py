"""One process of ``device.py``: it measures one tokenizer, as it is told line by line.

A fault on a GPU takes all that the process has there with it, and a kernel may never end; so whoever asks is
another process (``device.py``), which can end this one and start it anew with ``--form xla``.  Requests and
answers are lines of JSON.  Outputs are compared before anything is timed, and whenever it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import device_texts
import jax
import jax.numpy as jnp
import numpy as np
from device_texts import Texts, digest
from measuring import IdsDiffer, seconds

import toktier
from toktier.backends.jax import pipeline, symbols, utf8
from toktier.parallel import map_parts

#: Of how many calls spans, lists, and functions alone are the median.
_FEW = 5
#: What the backend counts without leaving the device: some of a text is the host's part.
_HARMLESS = ("pieces that are too long", "stretches that were not", "texts that were not")
#: So many tokens before and after the first that differs are shown.
_AROUND = 4


class Worker:
    """A tokenizer, its texts, and what can be asked of it: the methods without an underscore, by name."""

    def __init__(self, name: str, texts: Texts, form: str, repetitions: int) -> None:
        self._tok = toktier.load(name)
        self._backend = self._tok._jax()
        self._texts = texts
        self._repetitions = repetitions
        if form == "xla" and self._backend.accelerated:
            self._backend._forms = lambda size: (_without_kernels(size),)  # type: ignore[method-assign]

    # --- before anything is measured ------------------------------------------------------------

    def warm(self, corpora: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
        """Compile for all texts, at the same time."""
        texts = [self._texts.text(corpus, size, 0) for corpus in corpora for size in sizes]
        buckets = sorted({self._bucket(text) for text in texts}, reverse=True)

        def compile_(bucket: int) -> float:
            return seconds(lambda: self._backend._function(pipeline.encode, bucket))[0]

        taken = dict(zip(buckets, map_parts(compile_, buckets, None), strict=True))
        first, *_ = self._backend._forms(buckets[0])
        refused = any(why.startswith("the kernels do not compile") for why in self._backend.reasons)
        return {
            "form": "kernels" if first.kernels and not refused else "xla",
            "jax": jax.__version__,
            "device": jax.devices()[0].device_kind,
            "platform": jax.default_backend(),
            "compile_s": taken,
            "fell_back": dict(self._backend.reasons),
        }

    def floor(self) -> dict[str, float | None]:
        """What no schedule of the same work undercuts: seconds for a launch, for a byte, for a dependent load.

        The last is None where no kernel runs.
        """
        many = 64
        barrier: Callable[[jax.Array], jax.Array] = jax.lax.optimization_barrier

        @jax.jit
        def launches(array: jax.Array) -> jax.Array:
            for _ in range(many):  # with a barrier, so that no two are fused
                array = barrier(array + 1)
            return array

        size = 1 << 26 if jax.default_backend() != "cpu" else 1 << 22
        copy = jax.jit(lambda array: array + 1)
        launch = _best(lambda: launches(jnp.zeros(8, jnp.int32)).block_until_ready()) / many
        ones = jnp.ones(size, jnp.int32)
        byte = _best(lambda: copy(ones).block_until_ready()) / (8 * size)
        return {"launch": launch, "byte": byte, "load": _load() if jax.default_backend() == "gpu" else None}

    # --- one text at a time ---------------------------------------------------------------------

    def row(self, corpus: str, size: int) -> dict[str, Any]:
        """Times of whole calls, in milliseconds, for texts that are new to the device each time."""
        texts = self._texts.texts(corpus, size)
        before = Counter(self._backend.reasons)
        expected = [self._expected(corpus, size, number, text) for number, text in enumerate(texts)]
        count = 0
        for text, (own, spans) in zip(texts, expected, strict=True):
            count = self._compare(text, own, spans)
        calls: dict[str, tuple[Callable[[str], Any], int]] = {
            "array": (partial(self._tok.encode_to_numpy, backend="jax"), self._repetitions),
            "device": (self._to_device, self._repetitions),
            "list": (partial(self._tok.encode, backend="jax"), min(_FEW, self._repetitions)),
        }
        compiled = self._program(pipeline.encode, texts[0])
        if compiled is not None:  # spans of texts that must be cut are left to other backends
            few = min(_FEW, self._repetitions)
            calls["spans"] = partial(self._tok.encode_with_offsets, backend="jax"), few
        times: dict[str, list[float]] = {what: [] for what in calls}
        for number in range(self._repetitions):
            which = number % len(texts)
            for what, (call, times_called) in calls.items():
                if number < times_called:
                    taken, found = seconds(partial(call, texts[which]))
                    times[what].append(1e3 * taken)
                    self._check(found.ids if what == "spans" else found, expected[which][0], texts[which], what)
        return {
            "bytes": len(texts[0].encode()),
            "tokens": count,
            **{f"{what}_ms": statistics.median(taken) for what, taken in times.items()},
            **{f"{what}_p90_ms": float(np.percentile(times[what], 90)) for what in ("array", "device")},
            "by_reference": bool(self._texts.expected(self._tok, corpus, size, 0)[0]),
            "launches": None if compiled is None else _launches(compiled),
            "depth": self._depth(texts[0][:100_000]),
            **self._left_since(before),
        }

    def bulk(self, corpus: str, size: int, total: int) -> dict[str, Any]:
        """``total`` bytes in texts of ``size`` characters, as one batch, to numpy arrays."""
        texts = self._texts.texts(corpus, size)
        right = [self._right(corpus, size, number, text) for number, text in enumerate(texts)]
        batch = [texts[i % len(texts)] for i in range(-(-total // len(texts[0].encode())))]
        self._tok.encode_batch_to_numpy(batch[: len(batch) // 8], backend="jax")
        before = Counter(self._backend.reasons)
        taken, found = seconds(lambda: self._tok.encode_batch_to_numpy(batch, backend="jax"))
        for number, ids in enumerate(found):
            if not np.array_equal(ids, right[number % len(texts)]):
                raise IdsDiffer(f"the ids of text {number} of the batch differ")
        used = sum(len(text.encode()) for text in batch)
        speed = used / taken / 1e9
        return {"bytes": used, "texts": len(batch), "gb_per_s": speed, **self._left_since(before)}

    def stages(self, corpus: str, size: int) -> dict[str, Any]:
        """Medians of the stages of a text, in milliseconds; of those on the device, what each adds."""
        text = self._texts.text(corpus, size, 0)
        programs = [self._program(f, text) for f in (pipeline.starts_of, _symbols_of, pipeline.encode)]
        if None in programs:
            return {"left out": "the text is cut in several"}
        prepare = partial(self._tok._prepare, text, "encode", as_it_is=self._backend.checks)
        prepared, ids = prepare(), self._tok.encode_to_device(text)
        padded = self._padded(text)
        on_device = jax.device_put(padded)
        steps: list[Callable[[], Any]] = [
            prepare,
            lambda: jax.device_put(padded).block_until_ready(),
            *(partial(lambda found: jax.block_until_ready(found(on_device)), found) for found in programs),
            lambda: jax.device_get(jnp.add(ids, 0)),
            lambda: self._backend.encode(prepared),
        ]
        host, sent, starts, first, everything, fetched, whole = (
            _median(step, self._repetitions) for step in steps
        )
        return {
            "added tokens and normalizing, host": host,
            "to the device": sent,
            "piece starts": starts,
            "first symbols": first - starts,
            "look-up, BPE, output": everything - first,
            "all on the device": everything,
            "ids to the host": fetched,
            "all but the first": whole,
        }

    # --- why it takes as long as it does ----------------------------------------------------------

    def forms(self, corpus: str, size: int) -> dict[str, Any]:
        """The compiled function alone in other forms, in milliseconds: without CUDA graphs, without kernels."""
        text = self._texts.text(corpus, size, 0)
        bucket = self._bucket(text)
        data = jax.device_put(self._padded(text))
        found: dict[str, Any] = {}
        for sizes in self._backend._forms(bucket):
            kernels = "kernels" if sizes.kernels else "xla"
            tables = self._backend._kernel_tables if sizes.kernels else self._backend._tables
            lowered = jax.jit(partial(pipeline.encode, sizes=sizes)).lower(data, tables)
            for graphs in (True, False) if self._backend.accelerated else (True,):
                options: Any = None if graphs else {"xla_gpu_enable_command_buffer": ""}
                what = kernels if graphs else f"{kernels}, no CUDA graphs"
                try:
                    run = partial(lowered.compile(compiler_options=options), data, tables)
                    found[what] = _median(partial(lambda run: jax.block_until_ready(run()), run), _FEW)
                except Exception as problem:  # of one form; the others may be fine
                    found[what] = _said(problem)
        return found

    def kernels(self, corpus: str, size: int) -> dict[str, Any]:
        """Microseconds in each kernel for one text, by JAX's profiler; the longest first."""
        text = self._texts.text(corpus, size, 0)
        call = partial(self._to_device, text)
        call()
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for _ in range(_FEW):
                    call()
            [file] = Path(folder).rglob("*.xplane.pb")
            planes = jax.profiler.ProfileData.from_serialized_xspace(file.read_bytes()).planes
            spent: Counter[str] = Counter()
            for plane in planes:
                if plane.name.startswith("/device:GPU"):
                    for line in plane.lines:
                        if line.name.startswith("Stream"):
                            for event in line.events:
                                spent[event.name] += event.duration_ns / 1e3 / _FEW
        return {name: round(us, 2) for name, us in spent.most_common(40)}

    # --- comparing ------------------------------------------------------------------------------

    def _expected(self, corpus: str, size: int, number: int, text: str) -> tuple[str, str]:
        """Hashes of the ids and the spans: the reference's, or else, now, those of the ``numpy`` backend."""
        ids, spans = self._texts.expected(self._tok, corpus, size, number)
        if ids:
            return ids, spans
        if size > device_texts.LARGEST_WITH_SPANS:
            return digest(self._tok.encode_to_numpy(text, backend="numpy")), ""
        found = self._tok.encode_with_offsets(text, backend="numpy")
        return digest(found.ids), digest(found.offsets)

    def _right(self, corpus: str, size: int, number: int, text: str) -> np.ndarray:
        ids = self._tok.encode_to_numpy(text, backend="jax")
        self._check(ids, self._expected(corpus, size, number, text)[0], text, "a text of the batch alone")
        return ids

    def _compare(self, text: str, ids: str, spans: str) -> int:
        """Every way of delivery once; how many tokens there are."""
        found = self._tok.encode_to_numpy(text, backend="jax")
        self._check(found, ids, text, "array")
        self._check(self._to_device(text), ids, text, "device")
        if self._program(pipeline.encode, text) is None:
            return len(found)
        with_spans = self._tok.encode_with_offsets(text, backend="jax")
        self._check(with_spans.ids, ids, text, "spans")
        if spans and digest(with_spans.offsets) != spans:
            raise IdsDiffer("the spans differ")
        return len(found)

    def _check(self, ids: Any, expected: str, text: str, what: str) -> None:
        if digest(ids) == expected:
            return
        found, right = np.asarray(ids), self._tok.encode_to_numpy(text, backend="numpy")
        short = min(len(found), len(right))
        at = int(np.append(np.flatnonzero(found[:short] != right[:short]), short)[0])
        near = slice(max(0, at - _AROUND), at + _AROUND)
        raise IdsDiffer(
            f"{what}: {len(found)} ids instead of {len(right)} (by numpy); the first that differs is number {at}: "
            f"{found[near].tolist()} instead of {right[near].tolist()}"
        )

    def _depth(self, text: str) -> int:
        """Most bytes less ids of a piece that is not one id: a bound of the merges that wait for each other."""
        _, pieces = self._tok.pieces(text, backend="numpy")
        merged = (len(piece.text.encode()) - len(piece.ids) for piece in pieces if len(piece.ids) > 1)
        return max(merged, default=0)

    def _left_since(self, before: Counter[str]) -> dict[str, Any]:
        """What has been counted since: all of it, and how often a text did not run on the device."""
        counted = Counter(self._backend.reasons) - before
        not_there = sum(n for why, n in counted.items() if not why.startswith(_HARMLESS))
        return {"fell_back": dict(counted), "not_on_device": not_there}

    # --- the backend ------------------------------------------------------------------------------

    @cached_property
    def _buckets(self) -> tuple[int, ...]:
        return self._backend.buckets

    def _bucket(self, text: str) -> int:
        """The size that a text is padded to; of one that is cut, the largest."""
        length = len(text.encode())
        return next((size for size in self._buckets if size >= length), self._buckets[-1])

    def _padded(self, text: str) -> np.ndarray:
        data = np.frombuffer(text.encode(), np.uint8)
        return np.append(data, np.full(self._bucket(text) - len(data), utf8.PADDING, np.uint8))

    def _program(self, function: Callable[..., Any], text: str) -> Any:
        """A function of the pipeline as it is compiled for a text; None for one that must be cut for it."""
        bucket = self._bucket(text)
        return None if len(text.encode()) > bucket else self._backend._function(function, bucket)

    def _to_device(self, text: str) -> jax.Array:
        return self._tok.encode_to_device(text).block_until_ready()


def _without_kernels(size: int) -> pipeline.Sizes:
    return pipeline.Sizes(lanes=size // 8, merged=size)


def _symbols_of(data: Any, tables: Any, sizes: Any) -> Any:
    """The pipeline up to the first symbols of all pieces."""
    characters = utf8.decode(data)
    begins, _ = pipeline._piece_starts(data, characters, tables.split, sizes)
    part = len(data) if sizes.kernels else len(data) // pipeline.PARTS
    return symbols.stream(data, characters, begins, part, tables.symbols)


def _launches(program: Any) -> int | None:
    """How many kernels a compiled function has on a GPU."""
    if jax.default_backend() != "gpu":
        return None
    return len(re.findall(r" (?:fusion|custom-call|copy)\(", program.compiled.as_text()))


def _load() -> float:
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
    return _best(lambda: run(table)[0].block_until_ready()) / steps


def _best(call: Callable[[], Any]) -> float:
    call()
    return min(seconds(call)[0] for _ in range(10))


def _median(call: Callable[[], Any], repetitions: int) -> float:
    """Milliseconds, after a call that is not counted."""
    call()
    return 1e3 * statistics.median(seconds(call)[0] for _ in range(repetitions))


def _said(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {str(problem)[:500]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenizer")
    parser.add_argument("--form", choices=("kernels", "xla"), default="kernels")
    parser.add_argument("--repetitions", type=int, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--corpora", nargs="+", required=True)
    parser.add_argument("--sizes", nargs="+", type=int, required=True)
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed is no answer

    def answer(call: Callable[[], dict[str, Any]]) -> None:
        began = time.monotonic()
        try:
            said = call()
        except IdsDiffer as problem:
            said = {"differ": str(problem)}
        except Exception as problem:  # whatever fails, the rest can be measured
            said = {"error": _said(problem)}
        print(json.dumps(said | {"took_s": time.monotonic() - began}), file=answers, flush=True)

    def start() -> Worker:
        texts = (
            device_texts.load(given.texts) if given.texts else device_texts.generated(given.corpora, given.sizes)
        )
        return Worker(given.tokenizer, texts, given.form, given.repetitions)

    worker: list[Worker] = []

    def warm() -> dict[str, Any]:
        worker.append(start())
        return worker[0].warm(given.corpora, given.sizes)

    answer(warm)
    for line in sys.stdin:
        request = json.loads(line)
        answer(partial(getattr(worker[0], request.pop("do")), **request))


if __name__ == "__main__":
    main()
