"""What the session store costs: threads, finding by content, the file.

    python benchmarks/store.py                         # all sections, qwen3
    python benchmarks/store.py threads --sessions 200

`threads` plays as many calls on one thread and on several, in turn; each call appends to one of the sessions,
which are made of generated transcripts (`transcripts.py`).  Beside it stands what threads that share nothing but
the interpreter make of the same cores.  `content` and `file` compare with calls by name in memory, in processor
time of the calling thread.  Ids are compared with the reference's at the end of each section; a difference ends
the run with status 1.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import options
from measuring import IdsDiffer, Row, machine, median, pin, show, write_json
from transcripts import transcript

import toktier

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    tokenizer: str
    sessions: int
    threads: int
    size: int
    repetitions: int


def check(tok: toktier.Tokenizer, text: str, ids: Sequence[int]) -> None:
    if list(ids) != tok.reference().encode(text, add_special_tokens=False).ids:
        raise IdsDiffer(f"{tok.name}, a text of {len(text):,} characters that begins {text[:40]!r}")


def threads(settings: Settings) -> Iterator[Row]:
    """Calls a second on several threads, times those on one (all cores)"""
    tok = toktier.load(settings.tokenizer)
    source = transcript(0, 2_000_000)
    names = [f"chat-{number}" for number in range(settings.sessions)]
    store = toktier.SessionStore()
    random_ = random.Random(0)
    texts = {}
    for name in names:
        start = random_.randrange(len(source) - 40_000)
        texts[name] = source[start : start + random_.randrange(2_000, 40_000)]
        store.encode(tok, texts[name], name)

    lengths = {name: len(text) for name, text in texts.items()}

    def deltas() -> list[tuple[str, str]]:
        """Each session is appended to twice, about 1,400 characters, in random order."""
        calls = []
        for name in random_.sample(2 * names, 2 * len(names)):
            start = random_.randrange(len(source) - 3_000)
            calls.append((name, source[start : start + random_.randrange(200, 2_600)]))
        return calls

    def append(name: str, delta: str) -> None:
        store.session(tok, name).append(delta)

    words = re.compile(r" ?[A-Za-z]+|\s+|.")
    known = {word: word.encode() for word in words.findall(source)}

    def plain_python(_: str, delta: str) -> None:
        """Work that shares nothing but the interpreter."""
        b"".join([known.get(word, b"") for word in words.findall(delta)])

    def play(call: Callable[[str, str], None], calls: list[tuple[str, str]], count: int) -> tuple[float, float]:
        """Calls a second, and milliseconds of processor time a call."""
        barrier = threading.Barrier(count + 1)

        def work(number: int) -> None:
            barrier.wait()
            for name, delta in calls[number::count]:
                call(name, delta)
            barrier.wait()

        workers = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for worker in workers:
            worker.start()
        barrier.wait()
        begin, work_before = time.perf_counter(), time.process_time()
        barrier.wait()
        elapsed, worked = time.perf_counter() - begin, time.process_time() - work_before
        for worker in workers:
            worker.join()
        return len(calls) / elapsed, 1e3 * worked / len(calls)

    def ratio(rates: list[list[tuple[float, float]]]) -> float:
        return median(a / b for (b, _), (a, _) in zip(*rates, strict=True))

    counts = (1, settings.threads)
    appended: list[list[tuple[float, float]]] = [[], []]
    plain: list[list[tuple[float, float]]] = [[], []]
    for turn in range(settings.repetitions + 1):  # the first one warms up
        for at in (0, 1) if turn % 2 else (1, 0):
            calls = deltas()
            for name, delta in calls:
                lengths[name] += len(delta)
            appended[at].append(play(append, calls, counts[at]))
            plain[at].append(play(plain_python, calls, counts[at]))
    appended, plain = ([rates[1:] for rates in both] for both in (appended, plain))
    for name in random_.sample(names, min(20, len(names))):
        session = store.session(tok, name)
        if not session.text.startswith(texts[name]) or len(session) != lengths[name]:
            raise IdsDiffer(f"{name} has lost an update")
        check(tok, session.text, session.ids.tolist())
    label = f"{settings.sessions:,} sessions"
    for who, found in zip(("1 thread", f"{settings.threads} threads"), appended, strict=True):
        yield Row("threads", tok.name, label, "auto", who, median(rate for rate, _ in found), "calls/s")
        yield Row("threads", tok.name, label, "auto", f"{who}, processor", median(work for _, work in found), "ms")
    many = f"{settings.threads} threads / 1"
    yield Row("threads", tok.name, label, "auto", many, ratio(appended), "x", (">=", 1.0))
    yield Row("threads", "none", "plain Python", "none", many, ratio(plain), "x")


def _turns(size: int, seed: int, count: int) -> list[str]:
    """A transcript of ``size`` characters that grows by about 1,400 a turn, its generation prompt replaced."""
    source = transcript(seed, size + 1_500 * count)
    prompt = "<|im_start|>assistant\n<think>\n"
    return [source[: size + 1_400 * turn] + prompt for turn in range(count)]


def _ms(call: Callable[[], T]) -> tuple[float, T]:
    """Milliseconds of this thread's processor time, and the result."""
    begin = time.thread_time()
    result = call()
    return 1e3 * (time.thread_time() - begin), result


def _each(calls: Sequence[Callable[[str], object]], texts: Sequence[str]) -> list[list[float]]:
    """Milliseconds of each call for each text but the first, the calls taking turns at being first."""
    found: list[list[float]] = [[] for _ in calls]
    for turn, text in enumerate(texts):
        for at in sorted(range(len(calls)), key=lambda at: (at + turn) % len(calls)):
            elapsed, _ = _ms(partial(calls[at], text))
            if turn:
                found[at].append(elapsed)
    return found


def content(settings: Settings) -> Iterator[Row]:
    """A call by content against the same by name and against encoding the whole text (one core)"""
    pin(1)
    tok = toktier.load(settings.tokenizer)
    for size in (settings.size // 10, settings.size):
        # A store and a tokenizer for each, so that none finds what another has left.
        first, second = toktier.SessionStore(), toktier.SessionStore()
        turns = _turns(size, 1, settings.repetitions + 1)
        named, found, whole = _each(
            [
                partial(first.encode, copy(tok), session_id="a"),
                partial(second.encode, copy(tok)),
                partial(copy(tok).encode_to_numpy, threads=1),
            ],
            turns,
        )
        check(tok, turns[-1], first.encode(tok, turns[-1], "a").tolist())
        check(tok, turns[-1], second.encode(tok, turns[-1]).tolist())
        if second.counters.misses != 1:
            raise IdsDiffer("a text was not found by its content")
        label = f"{size:,} characters"
        yield Row("content", tok.name, label, "auto", "by name", median(named), "ms")
        yield Row("content", tok.name, label, "auto", "by content", median(found), "ms")
        yield Row("content", tok.name, label, "auto", "encode", median(whole), "ms")


def file(settings: Settings) -> Iterator[Row]:
    """A call by name with and without a file, and reading a session back (one core)"""
    pin(1)
    tok = toktier.load(settings.tokenizer)
    turns = _turns(settings.size, 2, settings.repetitions + 1)
    label = f"{settings.size:,} characters"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sessions.db")
        memory, stored = toktier.SessionStore(), toktier.SessionStore(path)
        plain, written = _each(
            [partial(memory.encode, copy(tok), session_id="a"), partial(stored.encode, copy(tok), session_id="a")],
            turns,
        )
        flushing = []
        text = turns[-1]
        for _ in range(settings.repetitions):
            stored.flush()
            text = text[:-20] + "and more of the same, " * 64
            stored.encode(tok, text, "a")
            flushing.append(_ms(stored.flush)[0])
        stored.close()
        loading = []
        for _ in range(settings.repetitions):
            with toktier.SessionStore(path) as store:
                elapsed, session = _ms(partial(store.session, tok, "a"))
                loading.append(elapsed)
                if session.text != text or store.counters.restored != 1:
                    raise IdsDiffer("the file has lost a session")
                check(tok, text, session.ids.tolist())
    encoding = [_ms(partial(tok.encode_to_numpy, text, threads=1))[0] for _ in range(settings.repetitions)]
    yield Row("file", tok.name, label, "auto", "call, in memory", median(plain), "ms")
    yield Row("file", tok.name, label, "auto", "call, written behind", median(written), "ms")
    yield Row("file", tok.name, label, "auto", "writing one change", median(flushing), "ms")
    yield Row("file", tok.name, label, "auto", "reading it back", median(loading), "ms")
    yield Row("file", tok.name, label, "auto", "encode", median(encoding), "ms")


SECTIONS: dict[str, Callable[[Settings], Iterator[Row]]] = {"threads": threads, "content": content, "file": file}


def command_line() -> argparse.ArgumentParser:
    parser = options.new(__doc__)
    options.add_sections(parser, list(SECTIONS), list(SECTIONS))
    about = "name or path (default: qwen3)"
    parser.add_argument("--tokenizer", metavar="NAME", type=options.tokenizer, default="qwen3", help=about)
    options.add_number(parser, "sessions", 1_000, "in the section threads")
    options.add_number(parser, "threads", 8, "in the section threads")
    options.add_number(parser, "size", 1_000_000, "characters of a text")
    options.add_number(parser, "repetitions", 5, "of each figure; the median counts")
    options.add_json(parser)
    return parser


def main() -> int:
    given = command_line().parse_args()
    settings = Settings(given.tokenizer, given.sessions, given.threads, given.size, given.repetitions)
    chosen = given.sections
    facts = machine()
    for key, value in facts.items():
        print(f"{key:>12}: {value}")
    rows: list[Row] = []
    try:
        for section in chosen:
            found = list(SECTIONS[section](settings))
            show(f"{section}: {SECTIONS[section].__doc__}", found)
            rows += found
    except IdsDiffer as problem:
        print(f"\nNO FIGURES: {problem}", file=sys.stderr)
        return 1
    if given.json:
        write_json(given.json, facts, {"sections": chosen, **vars(settings)}, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
