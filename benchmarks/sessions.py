"""Sessions against the reference: what one change of a long context costs.

    python benchmarks/sessions.py --quick                    # a minute
    python benchmarks/sessions.py                            # all contexts and sizes, qwen3 and gpt-oss
    python benchmarks/sessions.py --json figures.json --plot figures.svg

Contexts and changes are generated transcripts of agents (:mod:`transcripts`); contexts above a million characters
repeat one.  Every cell runs in a child of its own that is pinned to one core.  There a session is opened on the
context, then, sample by sample, a slice of new text is appended (timed), the reference encodes the slice alone
(timed), and the session is cut back.  The same is done by ``update`` with the full text.  A few times the
reference encodes the full text, which also judges the session's ids; a difference ends the run with status 1.

``again`` is the same append once more, when its words are known.  ``update`` looks at the text once, and what that
costs depends on how Python keeps it: a byte a character if all are ASCII, four if one is an emoji, as in these
transcripts.  ``--ascii`` measures the former.

Times are wall-clock; ``--cpu`` takes the processor time of the thread instead, for a machine that others use.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import options
from measuring import IdsDiffer, in_fork, machine
from transcripts import transcript

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import toktier

CONTEXTS = (100_000, 500_000, 1_000_000, 2_000_000, 4_400_000, 8_000_000)
DELTAS = (256, 1_400, 10_000, 50_000, 100_000)
_PERIOD = 1_000_000
_clock = time.perf_counter
_EDIT = 100
_ascii = False


@dataclass(frozen=True)
class Cell:
    """Milliseconds, of one tokenizer, context and change; quantiles are over the samples.

    ``reference_delta``: the median of the reference on the change alone.  ``reference_full``: on the whole text.
    """

    tokenizer: str
    what: str
    context: int
    delta: int
    p50: float
    p90: float
    p99: float
    reference_delta: float | None = None
    reference_full: float | None = None

    @property
    def ratio(self) -> float | None:
        """Of the medians: ours to the reference's on the change alone."""
        return self.p50 / self.reference_delta if self.reference_delta else None


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Time one call, with the garbage collector off and its result kept until the clock has stopped."""
    gc.disable()
    try:
        start = _clock()
        result = call()
        return _clock() - start, result
    finally:
        gc.enable()


@cache
def _base(seed: int) -> str:
    text = transcript(seed, _PERIOD)
    return text.encode("ascii", "replace").decode("ascii") if _ascii else text


def context_text(size: int) -> str:
    return (_base(1) * (size // _PERIOD + 1))[:size]


def slices(delta: int, count: int) -> Iterator[str]:
    """Stretches of text that the context does not contain."""
    text = _base(2)
    for number in range(count):
        start = number * delta % (len(text) - delta)
        yield text[start : start + delta]


def _quantiles(times: list[float]) -> tuple[float, float, float]:
    ordered = sorted(times)
    return tuple(ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3 for part in (0.5, 0.9, 0.99))  # type: ignore[return-value]


def _warm(tok: toktier.Tokenizer) -> None:
    """What a process that has served some requests has seen."""
    for start in range(0, 300_000, 1_400):
        text = _base(3)[start : start + 1_400]
        tok.encode_to_numpy(text, False)
        tok.reference().encode(text, add_special_tokens=False)


def measure_appends(name: str, size: int, delta: int, samples: int, full_samples: int) -> list[dict[str, Any]]:
    """The rows of one cell: ``append``; ``again``, the same append once more; ``update`` with the full text."""
    tok = toktier.load(name)
    reference = tok.reference()
    _warm(tok)
    text = context_text(size)
    session = tok.session(text)
    session.append(_base(4)[:1_400])
    text += _base(4)[:1_400]
    times: dict[str, list[float]] = {"append": [], "again": [], "update": [], "delta": [], "full": []}
    for number, new in enumerate(slices(delta, samples)):
        whole = text + new
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("append", lambda new=new: session.append(new)),  # type: ignore[misc]
            ("again", lambda new=new: session.append(new)),  # type: ignore[misc]
            ("update", lambda whole=whole: session.update(whole)),  # type: ignore[misc]
        ]
        for what, call in calls:
            taken, patch = seconds(call)
            if patch.path != "append":
                raise IdsDiffer(f"{name}: what adds {delta} characters ({what}) went by {patch.path!r}")
            times[what].append(taken)
            if what == "append" and number < full_samples:
                taken, encoding = seconds(lambda whole=whole: reference.encode(whole, add_special_tokens=False))  # type: ignore[misc]
                times["full"].append(taken)
                if encoding.ids != session.ids.tolist():
                    raise IdsDiffer(f"{name}: ids after an append of {delta} characters to {size}")
                del encoding
            session.truncate(len(text))
        times["delta"].append(seconds(lambda new=new: reference.encode(new, add_special_tokens=False))[0])  # type: ignore[misc]
    alone = _quantiles(times["delta"])[0]
    full = _quantiles(times["full"])[0] if times["full"] else None
    return [
        asdict(Cell(name, what, size, delta, *_quantiles(times[what]), alone, full))
        for what in ("append", "again", "update")
    ]


def measure_growth(name: str, contexts: list[int], samples: int) -> float:
    """What an append of 1,400 characters takes in the longest context, to the shortest: of the medians.

    Both sessions are in one process and take turns, each with new text: what else differs between two cells (the
    hour, and what the processor's caches hold of the full texts that are put together there) is no cost of ours.
    """
    tok = toktier.load(name)
    _warm(tok)
    sessions = [tok.session(context_text(size)) for size in (min(contexts), max(contexts))]
    times: list[list[float]] = [[], []]
    for number, new in enumerate(slices(1_400, 8 * samples)):
        turn = (number + number // 2) % 2  # short, long, long, short, ...
        session = sessions[turn]
        size = len(session)
        times[turn].append(seconds(lambda session=session, new=new: session.append(new))[0])  # type: ignore[misc]
        session.truncate(size)
    short, long = (_quantiles(taken)[0] for taken in times)
    return long / short


def measure_rest(name: str, size: int, samples: int) -> dict[str, Any]:
    """Edits in the middle, a replaced end, opening, the first append afterwards, and memory."""
    tok = toktier.load(name)
    _warm(tok)
    text = context_text(size)
    _base(2), _base(4)
    fastest = opening = math.inf
    for _ in range(2):
        fastest = min(fastest, seconds(lambda: tok.encode(text, False))[0])
        taken, session = seconds(lambda: tok.session(text))
        opening = min(opening, taken)
    new = _base(4)[:1_400]
    first_append, _ = seconds(lambda: session.append(new))
    edits: list[float] = []
    tails: list[float] = []
    first_edit = 0.0
    for number, new in enumerate(slices(_EDIT, samples)):
        middle = len(session) // 2 + 997 * number % (len(session) // 4)
        taken, _ = seconds(lambda middle=middle, new=new: session.edit(middle, middle + _EDIT, new))  # type: ignore[misc]
        edits.append(taken)
        first_edit = first_edit or taken
        start = len(session) - 8
        tails.append(seconds(lambda start=start, new=new: session.edit(start, start + 8, new))[0])  # type: ignore[misc]
    if not (session.ids == tok.encode_to_numpy(session.text, False)).all():
        raise IdsDiffer(f"{name}: ids after edits in a context of {size} characters")
    return {
        "rows": [
            asdict(Cell(name, "edit of 100", size, _EDIT, *_quantiles(edits))),
            asdict(Cell(name, "end replaced", size, 8, *_quantiles(tails))),
        ],
        "open_ms": opening * 1e3,
        "encode_ms": fastest * 1e3,
        "first_append_ms": first_append * 1e3,
        "first_edit_ms": first_edit * 1e3,
        "megabytes_per_500k_tokens": session.nbytes * 0.5 / session.count,
    }


def show(cells: list[Cell]) -> None:
    """A table, milliseconds."""
    heading = ("tokenizer", "what", "context", "change", "P50", "P90", "P99", "ref. alone", "ratio", "ref. whole")
    lines: list[tuple[str, ...]] = [heading]
    for cell in cells:
        ratio = "" if cell.ratio is None else f"{cell.ratio:.2f}"
        numbers = [f"{value:.3f}" for value in (cell.p50, cell.p90, cell.p99)]
        references = ["" if v is None else f"{v:.2f}" for v in (cell.reference_delta, cell.reference_full)]
        lines.append(
            (
                *(cell.tokenizer, cell.what, f"{cell.context:,}", f"{cell.delta:,}"),
                *(*numbers, references[0], ratio, references[1]),
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)), flush=True)


def goals(cells: list[Cell], rest: list[dict[str, Any]], growth: dict[str, float]) -> Iterator[str]:
    """What the figures should be, and whether they are; ``growth``: see :func:`measure_growth`."""
    appends = {(c.tokenizer, c.context, c.delta): c for c in cells if c.what == "append"}
    others = {(c.what, c.tokenizer, c.context): c for c in cells if c.delta == 1_400}

    def verdict(name: str, what: str, value: float, most: float) -> str:
        return f"{name}: {what}: {value:.2f} ({'met' if value <= most else 'MISSED'}, <= {most})"

    for name in dict.fromkeys(cell.tokenizer for cell in cells):
        usual = [c for c in appends.values() if c.tokenizer == name and c.delta == 1_400]
        if not usual:
            continue
        worst = max(c.ratio or 0 for c in usual)
        yield verdict(name, "append of 1,400 to the reference on these alone, worst context", worst, 0.6)
        if name in growth:
            yield verdict(name, "P50 in the longest context to the shortest, by turns", growth[name], 1.3)
        yield verdict(name, "P99 to P50, worst context", max(c.p99 / c.p50 for c in usual), 5)
        more = [
            (others["update", name, c.context].p50 - others["again", name, c.context].p50) / (c.context / 1e6)
            for c in usual
            if c.context >= 10**6
        ]
        if more:
            yield verdict(name, "update above append, ms per 1,000,000 characters, worst", max(more), 0.15)
        opening = max(found["open_ms"] / found["encode_ms"] for found in rest if found["tokenizer"] == name)
        yield verdict(name, "opening to encode, worst context", opening, 1)
    for cell in cells:
        if cell.what == "edit of 100":
            yield verdict(cell.tokenizer, f"edit in {cell.context:,}, P50 in ms", cell.p50, 1)


def plot(path: Path, facts: dict[str, str], cells: list[Cell]) -> None:
    """Lines: time by context, one panel a tokenizer, one line a size of append, and the reference dashed."""
    import matplotlib  # type: ignore[import-not-found]  # optional

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(cell.tokenizer for cell in cells))
    figure, panels = pyplot.subplots(
        1, len(names), figsize=(1 + 4.5 * len(names), 4.5), sharey=True, squeeze=False
    )
    for panel, name in zip(panels[0], names, strict=True):
        appends = [cell for cell in cells if cell.tokenizer == name and cell.what == "append"]
        for delta in dict.fromkeys(cell.delta for cell in appends):
            line = [cell for cell in appends if cell.delta == delta]
            panel.plot([c.context for c in line], [c.p50 for c in line], marker="o", label=f"append {delta:,}")
        full = {cell.context: cell.reference_full for cell in appends if cell.reference_full}
        panel.plot(list(full), list(full.values()), "k--", label="reference, whole text")
        panel.set(xscale="log", yscale="log", title=name, xlabel="context, characters")
    panels[0][0].set_ylabel("median, milliseconds")
    panels[0][-1].legend(fontsize=8)
    figure.suptitle(f"{facts['processor']}, Python {facts['python']}, one core", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    options.add_tokenizers(parser, ["qwen3", "gpt-oss"])
    options.add_numbers(parser, "contexts", CONTEXTS, "characters")
    options.add_numbers(parser, "deltas", DELTAS, "characters of an append")
    options.add_number(parser, "samples", 24, "of each cell")
    options.add_number(parser, "full", 2, "how often the reference encodes the whole text")
    parser.add_argument("--quick", action="store_true", help="100,000 and 1,000,000 characters, appends of 1,400")
    parser.add_argument("--ascii", action="store_true", help="texts in which all other characters are `?`")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall-clock time")
    options.add_json(parser)
    options.add_plot(parser, "the appends")
    return parser


def main() -> int:
    given = command_line().parse_args()
    global _ascii, _clock
    _ascii = given.ascii
    if given.cpu:
        _clock = time.thread_time
    contexts = [100_000, 1_000_000] if given.quick else given.contexts
    deltas = [1_400] if given.quick else given.deltas
    facts = machine()
    for key, value in facts.items():
        print(f"{key:>12}: {value}")
    cells: list[Cell] = []
    rest: list[dict[str, Any]] = []
    growth: dict[str, float] = {}
    started = time.monotonic()
    try:
        for name in given.tokenizers:
            toktier.load(name).session("warm")
            for context in contexts:
                for delta in deltas:
                    rows = in_fork(measure_appends, name, context, delta, given.samples, given.full)
                    cells += [Cell(**row) for row in rows]
                found = in_fork(measure_rest, name, context, given.samples)
                cells += [Cell(**row) for row in found.pop("rows")]
                rest.append({"tokenizer": name, "context": context, **found})
            if len(contexts) > 1:
                growth[name] = in_fork(measure_growth, name, contexts, given.samples)
    except IdsDiffer as problem:
        print(f"\nNO FIGURES: {problem}", file=sys.stderr)
        return 1
    show(cells)
    for facts_ in rest:
        print(
            "  ".join(
                f"{key} {value:,.2f}" if isinstance(value, float) else f"{value}" for key, value in facts_.items()
            )
        )
    print(*goals(cells, rest, growth), f"{time.monotonic() - started:.0f} s in all", sep="\n")
    if given.json:
        document = {"machine": facts, "cells": [asdict(cell) for cell in cells], "rest": rest, "growth": growth}
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if given.plot:
        plot(given.plot, facts, cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
