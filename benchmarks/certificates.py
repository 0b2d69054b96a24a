"""What certificates cost: to derive them, to find a cut, to find all cuts.

    python benchmarks/certificates.py                          # the embedded tokenizers
    python benchmarks/certificates.py derive my-tokenizers/*.json   # a folder of your own

`derive` derives each certificate in a new process, with an empty cache on disk and what the package ships (the
character sets of its own tokenizers); reading the file is not in the time.  `last` looks back for a cut from many
places of a text; `all` finds every cut of a text at once, in MB of UTF-8 a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import corpora
import options
from measuring import Row, in_fresh_process, machine, median, pin, seconds, show, write_json

import toktier

_DERIVE = """
import json, sys, time
import numpy
from toktier.added_tokens import as_loaded
from toktier.certificates.derive import derive_certificate
from toktier.normalization import inert_table, unicode_forms
from toktier.pipeline import parse
from toktier.records import replace
from toktier.registry import resolve
document = resolve(sys.argv[1]).document()
vocabulary = document["model"]["vocab"]
if isinstance(vocabulary, list):
    vocabulary = {token: id for id, (token, *_) in enumerate(vocabulary)}
start = time.perf_counter()
pipeline = parse(document)
pipeline = replace(pipeline, added_tokens=as_loaded(pipeline.added_tokens, vocabulary))
inert = {form: inert_table(form) for form in unicode_forms(pipeline.normalizer)}
found = derive_certificate(pipeline, vocabulary, inert)
print(json.dumps([time.perf_counter() - start, found.refusal]))
"""


@dataclass(frozen=True)
class Settings:
    tokenizers: list[str]
    size: int
    repetitions: int


def derive(settings: Settings) -> Iterator[Row]:
    """Seconds to derive a certificate from nothing"""
    for name in settings.tokenizers:
        times, refusal = [], None
        for _ in range(settings.repetitions):
            with tempfile.TemporaryDirectory() as cache:
                elapsed, refusal = in_fresh_process(_DERIVE, name, cache=cache)
            times.append(elapsed)
        what = "derive" if refusal is None else "refuse"
        yield Row("derive", _short(name), "", "", what, median(times), "s", ("<=", 3.0))


def last(settings: Settings) -> Iterator[Row]:
    """Microseconds to find the last cut before a place"""
    pin(1)
    for name in settings.tokenizers:
        cuts = toktier.load(name)._cuts
        if cuts.refusal is not None:
            continue
        for kind, corpus in corpora.CORPORA.items():
            text = corpus(settings.size, 1)
            places = range(len(text) // 10, len(text), len(text) // 5_000)
            times = []
            for _ in range(settings.repetitions):
                start = time.perf_counter()
                found = [cuts.last(text, 0, place) for place in places]
                times.append((time.perf_counter() - start) / len(places))
                assert None not in found
            yield Row("last", _short(name), kind, "", "one call", median(times) * 1e6, "us")


def every(settings: Settings) -> Iterator[Row]:
    """MB/s of finding all cuts of a text, one core"""
    pin(1)
    for name in settings.tokenizers:
        tok = toktier.load(name)
        if tok._cuts.refusal is not None:
            continue
        for kind, corpus in corpora.CORPORA.items():
            text = corpus(settings.size, 1)
            size = len(text.encode()) / 1e6
            tok.cuts(text[:10_000])
            speeds = [size / seconds(partial(tok.cuts, text))[0] for _ in range(settings.repetitions)]
            yield Row("all", _short(name), kind, "", "all cuts", median(speeds), "MB/s", (">=", 50))


def _short(name: str) -> str:
    return Path(name).name.removesuffix(".json.xz")


SECTIONS: dict[str, Callable[[Settings], Iterator[Row]]] = {"derive": derive, "last": last, "all": every}


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="SECTION|TOKENIZER",
        type=lambda name: name if name in SECTIONS else options.tokenizer(name),
        help=f"{', '.join(SECTIONS)} (all of these if none is named); names or paths (the embedded tokenizers)",
    )
    options.add_number(parser, "size", 1_000_000, "characters of a text")
    options.add_number(parser, "repetitions", 5, "of each figure; the median counts")
    options.add_json(parser)
    return parser


def main() -> int:
    given = command_line().parse_args()
    chosen = [name for name in given.names if name in SECTIONS] or list(SECTIONS)
    tokenizers = [name for name in given.names if name not in SECTIONS] or list(toktier.embedded_names())
    settings = Settings(tokenizers, given.size, given.repetitions)
    facts = machine()
    for key, value in facts.items():
        print(f"{key:>12}: {value}")
    rows: list[Row] = []
    for section in chosen:
        found = list(SECTIONS[section](settings))
        show(f"{section}: {SECTIONS[section].__doc__}", found)
        rows += found
    if given.json:
        write_json(given.json, facts, {"sections": chosen, **vars(settings)}, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
