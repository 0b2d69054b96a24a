"""How fast, how linear and how large: TokTier against the reference, as ratios taken in one run.

    python benchmarks/encode.py                            # the section `plain`, some minutes
    python benchmarks/encode.py plain chat --size 200000 --repetitions 3 --tokenizers qwen3
    python benchmarks/encode.py all --json figures.json --plot figures.png

Every timed text is encoded in a forked child, where no earlier text has filled a memo, by the reference and
by TokTier in turn; their ids are compared, and a difference ends the run.  See ``README.md``.
"""

from __future__ import annotations

import os

# One core for the reference too; both are read when it first encodes.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import argparse
import itertools
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import corpora
import options
from measuring import (
    IdsDiffer,
    Row,
    in_fork,
    in_fresh_process,
    machine,
    median,
    plot,
    seconds,
    show,
    write_json,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import toktier
from toktier import registry
from toktier.tokenizer import BACKENDS


@dataclass(frozen=True)
class Settings:
    tokenizers: tuple[str, ...]
    corpora: tuple[str, ...]
    backends: tuple[str, ...]
    size: int
    repetitions: int
    seed: int
    growth_texts: int

    def seeds(self) -> range:
        return range(self.seed, self.seed + self.repetitions)


GOALS_NEW = {
    ("python", "english"): 5.0,
    ("python", "code"): 5.0,
    ("numpy", "english"): 10.0,
    ("numpy", "code"): 10.0,
    ("numpy", "cjk"): 4.0,
    ("numpy", "multilingual"): 4.0,
}
GOALS_SEEN = {
    ("numpy", "english"): 18.0,
    ("numpy", "code"): 18.0,
    ("numpy", "cjk"): 9.0,
    ("numpy", "multilingual"): 9.0,
}


def at_least(bound: float | None) -> tuple[str, float] | None:
    return None if bound is None else (">=", bound)


def at_most(bound: float) -> tuple[str, float]:
    return ("<=", bound)


def load(name: str, backends: tuple[str, ...]) -> tuple[Any, Any]:
    """A tokenizer and its reference, both built, and both called once with a short text."""
    ours = toktier.load(name)
    reference = ours.reference()
    reference.encode("Hello, world")
    for backend in backends:
        ours.encode_to_numpy("Hello, world", backend=backend)
    return ours, reference


# --- what runs in a forked child ------------------------------------------------------------------


def ours_alone(ours: Any, text: str, backend: str | None) -> float:
    """Seconds of ``encode_to_numpy``."""
    return seconds(lambda: ours.encode_to_numpy(text, backend=backend))[0]


def ours_as_list(ours: Any, text: str, backend: str) -> float:
    """Seconds of ``encode``."""
    return seconds(lambda: ours.encode(text, backend=backend))[0]


def ours_as_batch(ours: Any, texts: Sequence[str]) -> float:
    """Seconds of ``encode_batch_to_numpy``."""
    return seconds(lambda: ours.encode_batch_to_numpy(texts))[0]


def against_reference(
    ours: Any, reference: Any, texts: Sequence[str], backend: str, ours_first: bool
) -> list[tuple[float, float]]:
    """For each text the seconds of ``encode_to_numpy`` and of the reference's ``encode``, one then the other.

    Raises IdsDiffer if they disagree.
    """
    results = []
    for text in texts:
        calls = (partial(ours.encode_to_numpy, text, backend=backend), partial(reference.encode, text))
        timed = {which: seconds(calls[which]) for which in ((0, 1) if ours_first else (1, 0))}
        (our_time, ids), (their_time, encoding) = timed[0], timed[1]
        if ids.tolist() != encoding.ids:
            raise IdsDiffer(
                f"backend {backend}, tokenizer {ours.fingerprint[:12]}: other ids than the reference's"
            )
        results.append((our_time, their_time))
    return results


def decoding_against_reference(
    ours: Any, reference: Any, text: str, ours_first: bool
) -> list[tuple[float, float]]:
    """Seconds of ``decode`` of all ids of a text, and of 20 at a time; ours and the reference's.

    Raises IdsDiffer if the texts disagree.
    """
    ids = reference.encode(text).ids
    results = []
    for batch in ([ids], [ids[start : start + 20] for start in range(0, len(ids), 20)]):
        calls = [
            partial(lambda decode, batch: [decode(ids) for ids in batch], who.decode, batch)
            for who in (ours, reference)
        ]
        timed = {which: seconds(calls[which]) for which in ((0, 1) if ours_first else (1, 0))}
        if timed[0][1] != timed[1][1]:
            raise IdsDiffer(f"tokenizer {ours.fingerprint[:12]}: decodes to another text than the reference")
        results.append((timed[0][0], timed[1][0]))
    return results


# --- sections -------------------------------------------------------------------------------------


def plain(settings: Settings) -> Iterator[Row]:
    """Text new to the process, the same text again, and the same lines in another order."""
    for name in settings.tokenizers:
        ours, reference = load(name, settings.backends)
        for corpus, backend in itertools.product(settings.corpora, settings.backends):
            times: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for seed in settings.seeds():
                text = corpora.CORPORA[corpus](settings.size, seed)
                texts = (text, text, corpora.shuffled_lines(text, seed))
                new, again, other_order = in_fork(
                    against_reference, ours, reference, texts, backend, bool(seed % 2)
                )
                times["new"].append(new)
                times["new, encode (list)"].append((in_fork(ours_as_list, ours, text, backend), new[1]))
                times["same text again"].append(again)
                times["same lines, other order"].append(other_order)
            seen = GOALS_SEEN.get((backend, corpus))
            goals = {
                "new": GOALS_NEW.get((backend, corpus)),
                "same text again": seen,
                "same lines, other order": seen,
            }
            for measure, pairs in times.items():
                mine, theirs = (median(column) for column in zip(*pairs, strict=True))
                goal = at_least(goals.get(measure))
                yield Row("plain", name, corpus, backend, measure, theirs / mine, "x", goal, mine, theirs)


def beside_plain(
    section: str, settings: Settings, make: Callable[[int, Any, corpora.Corpus], str]
) -> Iterator[Row]:
    """Speed of a derived text, in characters a second, relative to that of the text that it comes from."""
    for name in settings.tokenizers:
        ours, reference = load(name, settings.backends)
        for corpus, backend in itertools.product(settings.corpora, settings.backends):
            base = corpora.CORPORA[corpus]
            per_character: list[tuple[float, float, float]] = []
            for seed in settings.seeds():
                tidy, text = base(settings.size, seed), make(seed, reference, base)
                if len(text) == len(tidy):
                    raise ValueError(f"{section} has changed nothing")
                order = (tidy, text) if seed % 2 else (text, tidy)
                alone = {each: in_fork(ours_alone, ours, each, backend) / len(each) for each in order}
                ((_, theirs),) = in_fork(against_reference, ours, reference, [text], backend, bool(seed % 2))
                per_character.append((alone[text], alone[tidy], theirs / len(text)))
            # seconds for `size` characters
            mine, unchanged, theirs = (median(c) * settings.size for c in zip(*per_character, strict=True))
            ratio, goal = unchanged / mine, at_least(0.8)
            yield Row(section, name, corpus, backend, "speed, of plain", ratio, "x", goal, mine, unchanged)
            ratio = theirs / mine
            yield Row(section, name, corpus, backend, "of the reference", ratio, "x", None, mine, theirs)


def chat(settings: Settings) -> Iterator[Row]:
    """An added token every 200 characters."""
    return beside_plain(
        "chat", settings, lambda seed, reference, base: corpora.chat(settings.size, seed, reference, base)
    )


def untidy(settings: Settings) -> Iterator[Row]:
    """A decomposed character in every 10,000; it matters to tokenizers with a normalizer."""
    return beside_plain("untidy", settings, lambda seed, _, base: corpora.untidy(settings.size, seed, base))


def cores(settings: Settings) -> Iterator[Row]:
    """Two cores against one: one long text, and a batch of 100 documents."""
    for name in settings.tokenizers:
        ours, _ = load(name, settings.backends)
        for corpus in settings.corpora:
            times: dict[tuple[str, int], list[float]] = defaultdict(list)
            for seed in settings.seeds():
                text = corpora.CORPORA[corpus](4 * settings.size, seed)
                length = len(text) // 100
                documents = [text[start : start + length] for start in range(0, len(text), length)]
                for count in (1, 2) if seed % 2 else (2, 1):
                    times["one text", count].append(in_fork(ours_alone, ours, text, None, cores=count))
                    batch = in_fork(ours_as_batch, ours, documents, cores=count)
                    times["batch of 100", count].append(batch)
            for what in ("one text", "batch of 100"):
                one, two = median(times[what, 1]), median(times[what, 2])
                ratio, goal = one / two, at_least(1.7)
                yield Row("cores", name, corpus, "auto", f"{what}, 2 cores", ratio, "x", goal, two, one)


def linear(settings: Settings) -> Iterator[Row]:
    """Four times the text in at most 4.6 times the time; texts that are a single word or run."""
    for name in settings.tokenizers:
        ours, reference = load(name, settings.backends)
        for corpus, backend in itertools.product(settings.corpora, settings.backends):
            pairs = []
            for seed in settings.seeds():
                texts = [corpora.CORPORA[corpus](times * settings.size, seed) for times in (1, 4)]
                pairs.append([in_fork(ours_alone, ours, text, backend) for text in texts])
            small, large = (median(column) for column in zip(*pairs, strict=True))
            ratio, goal = large / small, at_most(4.6)
            yield Row("linear", name, corpus, backend, "time, of a quarter", ratio, "x", goal, large, small)
        words, longer = (corpora.long_words(n, settings.seed) for n in (settings.size, 4 * settings.size))
        for what, backend in itertools.product(words, settings.backends):
            runs = []
            for seed in settings.seeds()[:3]:
                word = [words[what]]
                (pair,) = in_fork(against_reference, ours, reference, word, backend, bool(seed % 2))
                alone = [in_fork(ours_alone, ours, text[what], backend) for text in (words, longer)]
                runs.append((*pair, *alone))
            mine, theirs, small, large = (median(column) for column in zip(*runs, strict=True))
            ratio, goal = theirs / mine, at_least(1.0)
            yield Row("linear", name, what, backend, "of the reference", ratio, "x", goal, mine, theirs)
            ratio, goal = large / small, at_most(4.6)
            yield Row("linear", name, what, backend, "time, of a quarter", ratio, "x", goal, large, small)


def decode(settings: Settings) -> Iterator[Row]:
    """Ids back to text: those of a whole text, and 20 at a time."""
    for name in settings.tokenizers:
        ours, reference = load(name, settings.backends)
        for corpus in settings.corpora:
            runs = []
            for seed in settings.seeds():
                text = corpora.CORPORA[corpus](settings.size, seed)
                runs.append(in_fork(decoding_against_reference, ours, reference, text, bool(seed % 2)))
            for what, pairs in zip(("all ids", "20 ids at a time"), zip(*runs, strict=True), strict=True):
                mine, theirs = (median(column) for column in zip(*pairs, strict=True))
                yield Row("decode", name, corpus, "", what, theirs / mine, "x", None, mine, theirs)


LOAD_OURS = """
import json, sys, time
a = time.perf_counter()
import toktier
b = time.perf_counter()
tok = toktier.load(sys.argv[1])
c = time.perf_counter()
tok.encode_to_numpy("The first call, with 12 words or so, it's short.")
d = time.perf_counter()
tok.encode_to_numpy("A second one, with 13 words or so, isn't longer.")
e = time.perf_counter()
print(json.dumps([b - a, c - b, d - c, e - d]))
"""

LOAD_REFERENCE = """
import json, sys, time
from tokenizers import Tokenizer
a = time.perf_counter()
Tokenizer.from_file(sys.argv[1])
print(json.dumps(time.perf_counter() - a))
"""


def load_times(settings: Settings) -> Iterator[Row]:
    """From a new process to the first ids: nothing cached, then tables cached on disk."""
    with tempfile.TemporaryDirectory() as folder:
        in_fresh_process(LOAD_OURS, registry.DEFAULT, cache=folder)  # writes byte code
    for name in settings.tokenizers:
        cold: list[list[float]] = []
        warm: list[list[float]] = []
        reference: list[float] = []
        for _ in settings.seeds():
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "tokenizer.json")
                file.write_bytes(registry.resolve(name).read())
                cache = str(Path(folder, "cache"))
                reference.append(in_fresh_process(LOAD_REFERENCE, str(file), cache=cache))
                cold.append(in_fresh_process(LOAD_OURS, name, cache=cache))
                warm.append(in_fresh_process(LOAD_OURS, name, cache=cache))
        imported, loaded, first, second = (median(column) for column in zip(*warm, strict=True))
        nothing_cached, theirs = median(times[1] for times in cold), median(reference)
        ratio = nothing_cached / theirs
        rows = (
            ("load, nothing cached, of the reference", ratio, "x", at_most(1.0), nothing_cached, theirs),
            ("load, tables on disk", loaded, "s", at_most(0.2), loaded, theirs),
            ("import toktier", imported, "s", at_most(0.2), imported, None),
            ("first short call", first, "s", None, first, None),
            ("second short call", second, "s", None, second, None),
        )
        for measure, value, unit, goal, our_time, their_time in rows:
            yield Row("load", name, "", "auto", measure, value, unit, goal, our_time, their_time)


MEMORY = """
import json, sys

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) / 1024

if sys.argv[1] == "reference":
    from tokenizers import Tokenizer
    encode = Tokenizer.from_file(sys.argv[2]).encode
else:
    import toktier
    encode = toktier.load(sys.argv[2]).encode_to_numpy
after_load = resident("VmRSS")
seen = []
while header := sys.stdin.buffer.readline():
    text = sys.stdin.buffer.read(int(header)).decode()
    encode(text)
    del text
    seen.append(resident("VmRSS"))
print(json.dumps({"peak": resident("VmHWM"), "after load": after_load, "resident": seen}))
"""


def memory(settings: Settings) -> Iterator[Row]:
    """Peak for one text of eight times the size, and growth over many different texts.  Linux only."""
    for name in settings.tokenizers:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tokenizer.json")
            file.write_bytes(registry.resolve(name).read())
            cache = str(Path(folder, "cache"))
            in_fresh_process(LOAD_OURS, name, cache=cache)  # fills the cache on disk
            for corpus in settings.corpora:
                text = corpora.CORPORA[corpus](8 * settings.size, settings.seed)
                mine = in_fresh_process(MEMORY, "ours", name, cache=cache, texts=[text])
                theirs = in_fresh_process(MEMORY, "reference", str(file), cache=cache, texts=[text])
                ratio, goal = mine["peak"] / theirs["peak"], at_most(1 / 3)
                size = f"{8 * settings.size:,} characters"
                yield Row("memory", name, corpus, "auto", f"peak, {size}, of the reference", ratio, "x", goal)
                for who, figures in (("ours", mine), ("reference", theirs)):
                    for measure in ("peak", "after load"):
                        label = f"{measure}, {who}"
                        yield Row("memory", name, corpus, "auto", label, figures[measure], "MB")
            # Chinese text brings new pieces for ever, the other corpora hardly.
            kinds = [corpora.CORPORA[corpus] for corpus in dict.fromkeys(("cjk", *settings.corpora))]
            texts = (kinds[i % len(kinds)](settings.size, settings.seed + i) for i in range(settings.growth_texts))
            resident = in_fresh_process(MEMORY, "ours", name, cache=cache, texts=texts)["resident"]
            label = f"{len(resident)} texts of {settings.size:,}"
            # The memo is emptied when it is full, so what is held goes up and down; its peaks must not go up.
            half = (len(resident) + 1) // 2
            growth = (max(resident[-half:]) - max(resident[:half])) / half
            for share in (0.25, 0.5, 0.75, 1.0):
                at = max(1, round(share * len(resident)))
                yield Row("memory", name, label, "auto", f"resident after {at}", resident[at - 1], "MB")
            goal = at_most(0.05)
            yield Row("memory", name, label, "auto", "growth of the peak a text, second half", growth, "MB", goal)


SECTIONS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "plain": plain,
    "chat": chat,
    "untidy": untidy,
    "cores": cores,
    "linear": linear,
    "decode": decode,
    "load": load_times,
    "memory": memory,
}


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    options.add_sections(parser, [*SECTIONS, "all"], ["plain"])
    options.add_tokenizers(parser, registry.embedded_names())
    options.add_corpora(parser)
    options.add_backends(parser, BACKENDS, ["python", "numpy"])
    options.add_number(parser, "size", 1_000_000, "characters of a text")
    options.add_number(parser, "repetitions", 7, "of each figure; the median counts")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the first repetition's text")
    options.add_number(parser, "growth-texts", 200, "how many, in the section memory")
    options.add_json(parser)
    options.add_plot(parser, "the section plain")
    return parser


def main() -> int:
    parser = command_line()
    given = parser.parse_args()
    chosen = list(SECTIONS) if "all" in given.sections else list(dict.fromkeys(given.sections))
    if given.plot and "plain" not in chosen:
        parser.error("--plot draws the section plain: name it, too")
    settings = Settings(
        tuple(given.tokenizers),
        tuple(given.corpora),
        tuple(given.backends),
        given.size,
        given.repetitions,
        given.seed,
        given.growth_texts,
    )
    facts = machine()
    for key, value in facts.items():
        print(f"{key:>12}: {value}")
    for corpus in settings.corpora:
        print(f"{corpus:>12}: {corpora.source(corpus)}")
    rows: list[Row] = []
    try:
        for section in chosen:
            found = []
            function = SECTIONS[section]
            for row in function(settings):
                found.append(row)
                if sys.stderr.isatty():
                    print(f"\r{section}: {row.tokenizer} {row.text}".ljust(79), end="\r", file=sys.stderr)
            show(f"{section}: {(function.__doc__ or '').strip()}", found)
            rows += found
    except IdsDiffer as problem:
        print(f"\nNO FIGURES: {problem}", file=sys.stderr)
        return 1
    missed = sum(row.verdict.startswith("MISSED") for row in rows)
    print(f"goals: {sum(bool(row.verdict) for row in rows) - missed} met, {missed} missed")
    if given.json:
        write_json(given.json, facts, {"sections": chosen, **vars(settings)}, rows)
    if given.plot:
        plot(given.plot, facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
