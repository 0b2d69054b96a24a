"""Prove what can be proved, check the rest, and print a table.  Exit status 1 on failure."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict

from spec import FAMILIES
from toktier.errors import TokTierError

from .report import Line, prove_all

_HEAD = ("", "", "atoms", "states", "restart", "close", "verdict", "seconds")
_WIDTHS = (9, 22, 5, 27, 7, 5, 8, 7)


def _row(cells: tuple[str, ...]) -> str:
    left = (0, 1, 3, 6)
    return "  ".join(
        cell.ljust(width) if number in left else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    ).rstrip()


def _show(line: Line) -> str:
    states = " ".join(f"{walk}x{oracle}" for walk, oracle in line.states)
    numbers = [str(n) if line.atoms else "" for n in (line.atoms, line.restarts, line.closes)]
    row = (line.kind, line.name, numbers[0], states, *numbers[1:], line.verdict, f"{line.seconds:.1f}")
    return "\n".join([_row(row), *(f"            {note}" for note in (*line.failures, *line.remarks))])


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m proofs", description=__doc__)
    parser.add_argument(
        "tokenizers",
        nargs="*",
        metavar="TOKENIZER",
        help="a name, a tokenizer.json or a model directory: these and nothing else",
    )
    parser.add_argument("--family", choices=sorted(FAMILIES), help="one family of the spec and nothing else")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(arguments)
    if options.family and options.tokenizers:
        parser.error("--family is about one family of the spec, without a tokenizer")
    began = time.perf_counter()
    refuted = 0
    try:
        for number, line in enumerate(prove_all(options.family, options.tokenizers)):
            if number == 0 and not options.json:
                print(_row(_HEAD))
            refuted += bool(line.failures)
            print(
                json.dumps({**asdict(line), "verdict": line.verdict}) if options.json else _show(line), flush=True
            )
    except TokTierError as problem:
        parser.error(str(problem))
    if not options.json:
        print(f"{refuted or 'nothing'} refuted, {time.perf_counter() - began:.0f} seconds")
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main())
