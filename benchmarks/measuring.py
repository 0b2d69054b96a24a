"""Measuring in processes of their own, and showing the results."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers


@dataclass(frozen=True)
class Row:
    """One figure.  ``goal`` is what it should be at least (``>=``) or at most (``<=``)."""

    section: str
    tokenizer: str
    text: str
    backend: str
    measure: str
    value: float
    unit: str
    goal: tuple[str, float] | None = None
    ours_s: float | None = None
    reference_s: float | None = None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        sign, bound = self.goal
        met = self.value >= bound if sign == ">=" else self.value <= bound
        return f"{'met' if met else 'MISSED'} ({sign} {bound:.3g})"


class IdsDiffer(Exception):
    """The one thing that makes every figure worthless."""


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time one call, with the garbage collector off and its result kept until the clock has stopped."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        result = call()
        return time.perf_counter() - start, result
    finally:
        gc.enable()


def pin(cores: int) -> None:
    """Keep this process on the first ``cores`` of the cores that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def in_fork(function: Callable[..., Any], *arguments: Any, cores: int = 1) -> Any:
    """Call ``function`` in a forked child on ``cores`` cores and return its result, which must be JSON.

    What the parent has loaded is there; what the child's texts leave behind in any memo or cache is not there
    for the next child.  So every text is new to the process that encodes it.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receive)
            pin(cores)
            try:
                answer = {"result": function(*arguments)}
            except IdsDiffer as problem:
                answer = {"differ": str(problem)}
            with os.fdopen(send, "w") as stream:
                json.dump(answer, stream)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(send)
    with os.fdopen(receive) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("a measurement failed; its traceback is above")
    answer = json.loads(text)
    if "differ" in answer:
        raise IdsDiffer(answer["differ"])
    return answer["result"]


def in_fresh_process(program: str, *arguments: str, cache: str, texts: Iterable[str] = ()) -> Any:
    """Run Python source in a new interpreter; ``texts`` go to its standard input.

    Each text arrives as a line with its number of UTF-8 bytes, then the bytes.  The program prints JSON.
    """
    folders = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "TOKTIER_CACHE_DIR": cache,
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its byte code
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None and process.stdout is not None
    for text in texts:
        data = text.encode()
        process.stdin.write(b"%d\n" % len(data) + data)
    process.stdin.close()
    answer = process.stdout.read()
    if process.wait() != 0:
        raise RuntimeError("a measurement failed; its traceback is above")
    return json.loads(answer)


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def machine() -> dict[str, str]:
    """Facts without which the figures mean little."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    kernel = {key: os.environ[key] for key in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if key in os.environ}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": model,
        "cores": str(cores),
        "load": f"{os.getloadavg()[0]:.1f} before the run",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tokenizers": tokenizers.__version__,
        **({"NOTE": f"{kernel} set: numpy may run slower than it can"} if kernel else {}),
    }


# --- showing --------------------------------------------------------------------------------------


def _cells(row: Row) -> list[str]:
    def milliseconds(value: float | None) -> str:
        return "" if value is None else f"{value * 1e3:,.1f}"

    value = f"{row.value:,.3f} {row.unit}" if row.unit == "s" else f"{row.value:,.2f} {row.unit}"
    times = [milliseconds(row.ours_s), milliseconds(row.reference_s)]
    return [row.tokenizer, row.text, row.backend, row.measure, value, *times, row.verdict]


HEADINGS = ("tokenizer", "text", "backend", "measure", "value", "ours ms", "other ms", "goal")


def show(title: str, rows: Sequence[Row]) -> None:
    """Print the rows of one section, with ``rich`` if it is installed."""
    if importlib.util.find_spec("rich") is not None:
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading in ("value", "ours ms", "other ms") else "left")
        for row in rows:
            style = "red" if row.verdict.startswith("MISSED") else None
            table.add_row(*_cells(row), style=style)
        console = Console()
        console = console if console.is_terminal else Console(width=150)
        console.print(table)
        return
    lines = [list(HEADINGS), *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    print(f"\n{title}")
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def write_json(path: Path, facts: dict[str, str], settings: dict[str, Any], rows: Sequence[Row]) -> None:
    document = {"machine": facts, "settings": settings, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def plot(path: Path, facts: dict[str, str], rows: Sequence[Row]) -> None:
    """Bars: how many times the reference's speed, by text; one panel a tokenizer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chosen = [row for row in rows if row.section == "plain" and row.measure in ("new", "same text again")]
    names = list(dict.fromkeys(row.tokenizer for row in chosen))
    texts = list(dict.fromkeys(row.text for row in chosen))
    series = list(dict.fromkeys((row.backend, row.measure) for row in chosen))
    figure, panels = pyplot.subplots(1, len(names), figsize=(1 + 3.2 * len(names), 4), sharey=True, squeeze=False)
    width = 0.8 / len(series)
    for panel, name in zip(panels[0], names, strict=True):
        for place, (backend, measure) in enumerate(series):
            found = {
                r.text: r.value for r in chosen if (r.tokenizer, r.backend, r.measure) == (name, backend, measure)
            }
            positions = [index + place * width for index in range(len(texts))]
            bars = panel.bar(
                positions, [found.get(text, 0) for text in texts], width, label=f"{backend}, {measure}"
            )
            panel.bar_label(bars, fmt="%.1f", fontsize=7)
        panel.set_xticks([index + 0.4 - width / 2 for index in range(len(texts))], texts, rotation=25, ha="right")
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set_title(name)
    panels[0][0].set_ylabel("times the reference's speed, one core")
    figure.suptitle(
        f"{facts['processor']}, Python {facts['python']}, tokenizers {facts['tokenizers']}", fontsize=9
    )
    figure.legend(
        *panels[0][0].get_legend_handles_labels(),
        loc="lower center",
        ncols=min(len(series), 2 * len(names)),
        fontsize=8,
    )
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, dpi=150)
