"""Threads that share one tokenizer, with forks in between."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import adversarial
import pytest
from conftest import artifact
from judge import as_text, literals, reference, truncating

from toktier import parallel
from toktier.bpe.memo import Memo
from toktier.lazy import lazy
from toktier.parallel import map_parts
from toktier.tokenizer import Tokenizer

NAME = "qwen3"

Job = tuple[dict[str, Any], str, list[int]]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """Calls with different options, and the ids that each must give."""
    random_ = random.Random(1)
    texts = [*adversarial.battery(literals(NAME), 20, 250)]
    texts += ["".join(random_.choices(texts, k=150)) for _ in range(6)]  # long enough for numpy and for blocks
    texts += ["a" * 3_000, "z<|im_end|>" * 700]
    options: list[dict[str, Any]] = [
        *({"backend": backend} for backend in ("python", "numpy", "auto", "reference")),
        *({"backend": backend, "special": "text"} for backend in ("python", "numpy", "reference")),
        *({"backend": backend, "max_length": 3} for backend in ("python", "numpy", "reference")),
        {"threads": 3},
    ]
    jobs = []
    for text in texts:
        option = random_.choice(options)
        judge = as_text(NAME) if option.get("special") == "text" else reference(NAME)
        right = judge.encode(text).ids
        jobs.append((option, text, right[: option.get("max_length")]))
    return jobs


def run(tok: Tokenizer, jobs: list[Job], seed: int) -> None:
    for option, text, right in random.Random(seed).sample(jobs, len(jobs)):
        assert tok.encode(text, **option) == right, (option, text)
        if len(text) < 200:
            assert tok.count(text, special=option.get("special", "encode")) >= len(right)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """All begin at once; what any of them raises is raised here."""
    barrier = threading.Barrier(count)

    def begin(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(begin, range(count)))


def test_threads_with_different_options(jobs: list[Job]) -> None:
    tok = Tokenizer(artifact(NAME))
    in_threads(lambda number: run(tok, jobs, number), 4)
    run(tok, jobs, 99)
    assert tok.reference().truncation is None


def test_threads_while_memos_overflow(jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memo.__init__, "__defaults__", (3_000,))
    tok = Tokenizer(artifact(NAME))
    in_threads(lambda number: run(tok, jobs, number), 3)


def test_batches_in_threads(jobs: list[Job]) -> None:
    tok = Tokenizer(artifact(NAME))
    texts = [text for _, text, _ in jobs]
    right = [e.ids for e in reference(NAME).encode_batch(texts)]

    def work(number: int) -> None:
        backend = ("python", "numpy", "auto")[number % 3]
        assert tok.encode_batch(texts, backend=backend, threads=1 + number % 2) == right

    in_threads(work, 4)


def test_first_use_in_many_threads() -> None:
    """What is made on first use is made once, or at least right."""
    texts = ["a <|im_end|> b", "e\u0301 x", "hello " * 2_000]
    judge = reference(NAME)
    for _ in range(2):
        tok = Tokenizer(artifact(NAME))

        def work(number: int, tok: Tokenizer = tok) -> None:
            text = texts[number % 3]
            right = judge.encode(text)
            assert tok.encode(text) == right.ids
            assert tok.decode(right.ids, skip_special_tokens=False) == judge.decode(right.ids, False)
            assert tok.encode_with_offsets(text).offsets.tolist() == list(map(list, right.offsets))
            assert tok.vocab_size == max(judge.get_vocab().values()) + 1

        in_threads(work, 6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_fork_while_threads_encode(jobs: list[Job]) -> None:
    """A child starts with one thread and with whatever locks the others held."""
    tok = Tokenizer(artifact(NAME))
    stop = threading.Event()
    failures: list[BaseException] = []
    ours = [job for job in jobs if job[0].get("backend") != "reference"]

    def keep_busy(seed: int) -> None:
        random_ = random.Random(seed)
        try:
            while not stop.is_set():
                tok.encode(
                    "".join(random_.choices("abcdefgh é中\n", k=3_000)), backend=("python", "numpy")[seed % 2]
                )
                run(tok, random_.sample(ours, 20), seed)
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=keep_busy, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    try:
        for seed in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    run(tok, random.Random(seed).sample(ours, 60), seed)
                    tok.encode_batch([text for _, text, _ in ours], backend="numpy", threads=2)
                    status = 0
                finally:
                    os._exit(status)
            assert _wait(child, 60) == 0, "the child hung or got other ids"
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not failures, failures[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_fork_while_a_lazy_attribute_is_made() -> None:
    """There is no lock that the child could wait for, and all threads get the same object."""
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        @lazy
        def value(self) -> object:
            begun.set()
            go_on.wait(0.5)
            return object()

    slow = Slow()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(slow.value))
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if slow.value is slow.value else 1)
    assert _wait(child, 20) == 0, "the child hung"
    go_on.set()
    thread.join()
    assert found == [slow.value]


def _wait(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return None


def test_calls_in_one_another_share_the_threads() -> None:
    """None waits for a thread that waits for it."""

    def row(y: int) -> list[int]:
        return map_parts(lambda x: x * y, range(20), 8)

    def work(_: int) -> None:
        assert map_parts(row, range(60), 8) == [[x * y for x in range(20)] for y in range(60)]

    in_threads(work, 6)


def test_an_error_in_a_part_is_the_callers() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            raise ValueError("part 3")
        time.sleep(0.002)
        done.append(number)

    for _ in range(5):
        done.clear()
        with pytest.raises(ValueError, match="part 3"):
            map_parts(work, range(1000), 4)
        assert len(done) < 900, "the other parts were begun all the same"


def test_a_pool_that_starts_no_thread_keeps_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is begun when some other call's thread is free, and nobody waits for it."""
    begun, go_on = threading.Event(), threading.Event()
    caller = threading.current_thread()

    class Pool:
        def submit(self, work: Callable[[], None]) -> None:
            self.thread = threading.Thread(target=work)
            self.thread.start()
            begun.wait(10)
            raise RuntimeError("can't start new thread")

    def function(part: int) -> int:
        if threading.current_thread() is not caller:
            begun.set()
            go_on.wait(10)
        return part

    pool = Pool()
    monkeypatch.setattr(parallel, "_pool", lambda: pool)
    assert map_parts(function, range(4), 2) == [0, 1, 2, 3]
    go_on.set()
    pool.thread.join()


def test_encoding_while_the_interpreter_shuts_down() -> None:
    """No thread can be had any more."""
    code = (
        "import atexit, toktier; tok = toktier.load('gpt2'); texts = ['some words ' * 100] * 400\n"
        "right = tok.encode_batch(texts, threads=4)\n"
        "atexit.register(lambda: print(tok.encode_batch(texts, threads=4) == right))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "True\n"


def test_truncation_is_no_shared_setting() -> None:
    tok = Tokenizer(artifact(NAME))
    text = "one two three four five six seven eight"
    right = {}
    for length in (1, 2, 3, 5, 8):
        with truncating(NAME, length) as judge:
            right[length] = judge.encode(text).ids

    def work(number: int) -> None:
        for length in random.Random(number).choices(list(right), k=20):
            backend = ("reference", "python", "numpy")[length % 3]
            assert tok.encode(text, max_length=length, backend=backend) == right[length]
            assert tok.encode(text) == right[8]

    in_threads(work, 3)
