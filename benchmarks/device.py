"""The `jax` backend on an accelerator: exactness, latency and bulk speed, with the floor beside them, in one run.

    python benchmarks/device.py --prepare device-texts.xz       # anywhere: texts, and the reference's ids of them
    python benchmarks/device.py --texts device-texts.xz --json device.json    # on a GPU; at most five minutes
    python benchmarks/device.py --quick                         # small and few, for a machine without one

Each tokenizer has a process of its own (`device_worker.py`).  All compile at the same time; then they are asked
one by one for what there is to measure, what matters most first.  Every output is compared with the reference's
ids (of texts that were not prepared, the `numpy` backend's), before anything is timed and whenever it is.

What fails, fails alone: its error is printed, and written to the file at once like everything else.  A process
that dies, says nothing for too long, gives other ids or leaves the device is started anew without kernels (`xla`).
Ids that differ make the run's status 1, other failures 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import options
from measuring import machine

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SIZES = (10_000, 1_000_000, 4_400_000, 100_000, 2_000_000)
QUICK = (10_000, 40_000)
CORPORA = ("english", "code", "cjk")
TOKENIZERS = ("qwen3", "gpt-oss", "deepseek-v3")
_BULK = 512 << 20
#: Characters of a text of the bulk run, and of the one whose stages are timed, if there are such.
_ONE = 1_000_000
#: Seconds without an answer after which a process is taken for lost.
_PATIENCE = 75
#: How often a tokenizer's process is started at most.
_STARTS = 3
_WORKER = Path(__file__).with_name("device_worker.py")


class Lost(Exception):
    """A process that died, or said nothing for too long."""


class Process:
    """A tokenizer's process, with kernels or without (``xla``); it begins by compiling, and says when it has."""

    def __init__(self, name: str, form: str, given: argparse.Namespace) -> None:
        self.name, self.form = name, form
        words = ["--form", form, "--repetitions", given.repetitions, "--corpora", *given.corpora]
        words += ["--sizes", *given.sizes, *(["--texts", given.texts] if given.texts else [])]
        shared = Path(tempfile.gettempdir(), "toktier-device")  # what one process has compiled, the next need not
        environment = {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes share the device
            "JAX_COMPILATION_CACHE_DIR": str(shared),
        } | os.environ
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), name, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def ask(self, **request: Any) -> None:
        assert self._process.stdin
        with suppress(OSError):  # it is gone; the answer will tell
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def answer(self, patience: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=max(1, patience))
        except queue.Empty:
            raise Lost(f"no answer for {patience:.0f} s") from None
        if not line:
            raise Lost(f"the process ended with status {self._process.wait()}")
        said: dict[str, Any] = json.loads(line)
        return said

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Run:
    """The processes, and all that they have said."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._began = time.monotonic()
        self._running = {name: Process(name, "kernels", given) for name in given.tokenizers}
        self._starts = Counter(given.tokenizers)
        self.facts = machine()
        self.floor: dict[str, float | None] = {}
        self.said: list[dict[str, Any]] = []

    @property
    def left(self) -> float:
        """Seconds in which something may still be begun."""
        return float(self._given.seconds - (time.monotonic() - self._began))

    def warm(self) -> None:
        """Until all have compiled, so that none is measured while another does."""
        for process in list(self._running.values()):
            self._first_answer(process)

    def ask(self, name: str, **request: Any) -> None:
        """Ask, note the answer, and if it is no good ask once more without kernels."""
        process = self._running.get(name)
        if process is None or self.left < 0:
            self._note(name, request, {"left out": "the time is up" if process else "its process is gone"})
            return
        process.ask(**request)
        said = self._answer(process, request)
        bad = {"lost", "differ", "error"} & said.keys() or said.get("not_on_device")
        if bad and request["do"] in ("row", "bulk") and process.form != "xla":
            if self._start(name, "xla"):
                self.ask(name, **request)
        elif "lost" in said:
            self._start(name, process.form)

    def _start(self, name: str, form: str) -> bool:
        """Start a process anew, but not again and again; whether it runs."""
        self._running.pop(name).end()
        if self._starts[name] == _STARTS:
            return False
        self._starts[name] += 1
        self._running[name] = Process(name, form, self._given)
        return self._first_answer(self._running[name])

    def _first_answer(self, process: Process) -> bool:
        said = self._answer(process, {"do": "warm"}, 0.6 * self.left)
        process.form = said.get("form", process.form)  # there may be no kernels here
        for key in ("jax", "device", "platform"):
            if key in said:
                self.facts[key] = said[key]
        if {"error", "lost"} & said.keys():
            self._running.pop(process.name).end()
        return process.name in self._running

    def _answer(self, process: Process, request: dict[str, Any], patience: float = 0) -> dict[str, Any]:
        try:
            said = process.answer(max(patience, _PATIENCE))
        except Lost as problem:
            said = {"lost": str(problem)}
        self._note(process.name, request | {"form": process.form}, said)
        return said

    def _note(self, name: str, request: dict[str, Any], said: dict[str, Any]) -> None:
        self.said.append({"tokenizer": name, **request, **said})
        print(f"{time.monotonic() - self._began:6.1f} s  {_line(self.said[-1])}", flush=True)
        if request["do"] == "floor" and "launch" in said:
            self.floor = {key: said[key] for key in ("launch", "byte", "load")}
        if self._given.json:
            document = {"machine": self.facts, "floor": self.floor, "said": self.said}
            part = self._given.json.with_name(self._given.json.name + ".part")
            part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            part.replace(self._given.json)

    def end(self) -> int:
        """The status of the run."""
        for process in self._running.values():
            process.end()
        if any("differ" in said for said in self.said):
            return 1
        return 2 if any({"error", "lost"} & said.keys() or said.get("not_on_device") for said in self.said) else 0


def measurements(given: argparse.Namespace) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
    """What there is to measure, and of which tokenizers, what matters most first."""
    every = given.tokenizers
    corpus, *others = given.corpora
    one = _ONE if _ONE in given.sizes else min(given.sizes)
    yield every[:1], {"do": "floor"}
    for number, size in enumerate(given.sizes):
        yield every, {"do": "row", "corpus": corpus, "size": size}
        if number == min(1, len(given.sizes) - 1):
            yield every, {"do": "stages", "corpus": corpus, "size": one}
            if given.bulk:
                yield every, {"do": "bulk", "corpus": corpus, "size": one, "total": given.bulk}
    yield every[:1], {"do": "kernels", "corpus": corpus, "size": one}
    for size in given.sizes:
        for other in others:
            yield every, {"do": "row", "corpus": other, "size": size}
    yield every[:1], {"do": "forms", "corpus": corpus, "size": one}


# --- showing --------------------------------------------------------------------------------------

_HEADINGS = (
    *("tokenizer", "text", "characters", "tokens", "array ms", "P90", "device ms", "P90", "list ms", "spans ms"),
    *("GB/s", "floor: bytes ms", "launches ms", "launches", "chain ms", "depth", "form"),
)


def _line(said: dict[str, Any]) -> str:
    """One answer, as soon as it is there."""
    named = " ".join(str(said[key]) for key in ("tokenizer", "do", "corpus", "size", "form") if key in said)
    rest = {k: v for k, v in said.items() if k not in ("tokenizer", "do", "corpus", "size", "form", "total")}
    figures = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rest.items())
    return f"{named}: {', '.join(figures)}"


def _cells(row: dict[str, Any], floor: dict[str, float | None]) -> list[str]:
    def least(each: float | None, count: int | None) -> str:
        return "" if each is None or count is None else f"{1e3 * each * count:.3f}"

    moved = row["bytes"] + 4 * row["tokens"]
    times = ("array_ms", "array_p90_ms", "device_ms", "device_p90_ms", "list_ms", "spans_ms")
    shown = (f"{row[key]:.2f}" if key in row else "" for key in times)
    return [
        row["tokenizer"].rpartition("/")[2].partition(".json")[0],
        row["corpus"],
        f"{row['size']:,}",
        f"{row['tokens']:,}",
        *shown,
        f"{row['bytes'] / row['array_ms'] / 1e6:.3f}",
        least(floor.get("byte"), moved),
        least(floor.get("launch"), row["launches"]),
        str(row["launches"] or ""),
        least(floor.get("load"), row["depth"]),
        str(row["depth"]),
        row["form"]
        + ("" if row["by_reference"] else ", by numpy")
        + (", NOT THERE" if row["not_on_device"] else ""),
    ]


def show(run: Run, repetitions: int) -> None:
    missing = any({"error", "lost", "left out"} & said.keys() for said in run.said)
    what = "what has figures here" if missing else "every output"
    print(f"\n{what} was compared; medians and P90 of {repetitions}")
    print("form: of the BPE; by numpy: what was compared with is no reference's; NOT THERE: it did not run there")
    rows = [said for said in run.said if said["do"] == "row" and "array_ms" in said]
    lines = [list(_HEADINGS), *(_cells(row, run.floor) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    for said in run.said:
        if said["do"] in ("stages", "bulk", "forms") or {"error", "lost", "differ", "left out"} & said.keys():
            print(_line(said))


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    options.add_tokenizers(parser, TOKENIZERS)
    options.add_corpora(parser, CORPORA)
    options.add_numbers(parser, "sizes", SIZES, "characters")
    options.add_number(parser, "repetitions", 20, "of each figure; the median counts")
    about = f"bytes of the bulk run; 0 leaves it out (default: {_BULK:,})"
    parser.add_argument("--bulk", metavar="N", type=int, default=_BULK, help=about)
    about = "nothing is begun after so many (default: 285)"
    parser.add_argument("--seconds", metavar="S", type=float, default=285, help=about)
    parser.add_argument("--texts", metavar="FILE", type=Path, help="what --prepare has written")
    parser.add_argument("--prepare", metavar="FILE", type=options.output, help="write texts and hashes, and end")
    parser.add_argument("--quick", action="store_true", help="small texts, one tokenizer, three repetitions")
    options.add_json(parser)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    parser = command_line()
    given = parser.parse_args(words)
    if given.texts and not given.texts.is_file():
        parser.error(f"there is no file {given.texts}; make it with --prepare")
    if given.quick:
        given.tokenizers, given.sizes, given.repetitions, given.bulk = ["qwen3"], list(QUICK), 3, 1 << 17
    if given.prepare:
        import device_texts

        device_texts.prepare(given.prepare, given.tokenizers, given.corpora, given.sizes)
        return 0
    if importlib.util.find_spec("jax") is None:
        parser.error("it needs the extra jax: pip install 'toktier-jax[jax]'")
    run = Run(given)
    try:
        run.warm()
        for names, request in measurements(given):
            for name in names:
                run.ask(name, **request)
    finally:
        status = run.end()
        for key, value in run.facts.items():
            print(f"{key}: {value}")
        if run.facts.get("platform") == "cpu":
            print("NOTE: JAX sees no accelerator; these are times of XLA on the processor")
        show(run, given.repetitions)
    return status


if __name__ == "__main__":
    sys.exit(main())
