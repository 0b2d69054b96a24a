"""Piece starts on the device, mostly by run decomposition, against the spec, ``numpy`` and the reference."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import adversarial
import numpy as np
import pytest
from conftest import artifact
from judge import engine
from numpy.typing import NDArray
from test_spec import in_engine_set, starts_by_reference
from unoptimized import UNOPTIMIZED, jax

from spec import FAMILIES, piece_starts
from toktier import batching
from toktier.artifact import Artifact
from toktier.backends.jax import assembling, bits, pipeline, runs
from toktier.backends.jax.backend import _bytes
from toktier.backends.jax.splitting import split_tables
from toktier.pipeline import ByteLevel, Digits, PreTokenizer, PreTokenizerSequence, Split
from toktier.records import replace
from toktier.segments import NO_IDS, NO_POSITIONS, PreparedText
from toktier.tokenizer import Tokenizer

#: Bytes of a batch of documents.
SIZE = 1 << 18
#: Embedded tokenizers of the families; for the others, GPT-2's vocabulary stands behind the family's patterns.
EMBEDDED = {"r50k": "gpt2", "qwen2": "qwen3", "o200k": "gpt-oss", "deepseek": "deepseek-v3"}
#: Pre-tokenizers that the spec has no rules for.
LEVELS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
EACH_DIGIT = {"type": "Digits", "individual_digits": True}


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


OTHERS = {
    "starcoder": [EACH_DIGIT, LEVELS | {"use_regex": True}],
    "deepseek-coder": [
        *map(split, ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")),
        EACH_DIGIT,
        LEVELS,
    ],
}
#: At least one character of each class, of one byte and of more, and contractions, which carry along most.
CHARACTERS = (
    *("\n", " ", "\t", "\u3000", "1", "\u0661", "'", "'s", "'ll", "'rE", "'\u017f", "s", "r", "e", "L", "x", "A"),
    *(
        "\u0967",
        "\U00011de0",
        "\u2003",
        "\u00e9",
        "\u01c5",
        "\u02b0",
        "\u4e2d",
        "\u0301",
        "!",
        "/",
        "\u20ac",
        "\u3042",
        "\u30fb",
        "\u3040",
        "\x00",
    ),
)
#: Texts in which what is carried along changes with every repetition.
ALTERNATING = (
    "'s",
    "a's",
    "\n//\u0301",
    "\n/!\u0301",
    "\n//!",
    "!/\n",
    "a\n/",
    "\u0301's",
    "\u4e2dA",
    "'lla",
    "!a",
)

every_family = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.campaign) if name in ("qwen3_5", "tekken") else name
        for name in (*FAMILIES, *OTHERS)
        if name != "bert"
    ],
)


@cache
def of_family(name: str) -> Tokenizer:
    """A tokenizer with the pre-tokenizer of the family."""
    if name in EMBEDDED:
        return engine(EMBEDDED[name])
    steps = OTHERS[name] if name in OTHERS else [*map(split, FAMILIES[name].patterns), LEVELS]
    document = artifact("gpt2").document()
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    return Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), name))


@cache
def on_device(name: str, machine: bool) -> Callable[[bytes], NDArray[np.int64]]:
    """The bytes at which pieces begin, by runs, or by the machine that other pre-tokenizers take."""
    compiled = of_family(name)._compiled
    assert compiled.engine is not None
    split = compiled.engine.split
    tables = split_tables(split) if machine else runs.run_tables(compiled.pipeline.pre_tokenizer, split)
    assert tables is not None
    sizes = pipeline.Sizes(512, 1 << 13)
    starts = jax.jit(
        lambda data: bits.unpack(pipeline.starts_of(data, tables, sizes)[0]), compiler_options=UNOPTIMIZED
    )

    def found(data: bytes) -> NDArray[np.int64]:
        return np.flatnonzero(np.asarray(starts(np.frombuffer(data.ljust(SIZE, b"\xfe"), np.uint8))))

    return found


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """As many texts at a time as fit."""
    batch: list[str] = []
    free = SIZE
    for text in texts:
        size = len(text.encode()) + 1
        if size > free:
            yield batch
            batch, free = [], SIZE
        batch.append(text)
        free -= size
    yield batch


def check(name: str, texts: Iterable[str], by_all: bool = False, machine: bool = False) -> int:
    """Compare with the ``numpy`` backend, and if told so with the spec and the reference; how many texts."""
    backend, judge = of_family(name)._backends["numpy"], of_family(name).reference().pre_tokenizer
    count = 0
    for batch in batches(texts):
        joined, _ = batching.join([PreparedText(text, NO_POSITIONS, NO_POSITIONS, NO_IDS, True) for text in batch])
        data = _bytes(joined)
        found = assembling.Positions(data, joined).characters(on_device(name, machine)(data)).tolist()
        assert found == backend.piece_starts(joined).tolist()
        count += len(batch)
        if by_all:
            places = list(itertools.accumulate((len(text) + 1 for text in batch), initial=0))
            firsts = np.searchsorted(found, places).tolist()
            for text, place, first, stop in zip(batch, places, firsts, firsts[1:], strict=False):
                own = [start - place for start in found[first : stop - 1]]  # behind a text is a seam, a piece
                if name in OTHERS:
                    found_there = judge.pre_tokenize_str(text)
                    assert own == [start for _, (start, _) in found_there], text
                else:
                    assert own == starts_by_reference(name, text), text
                    assert own == piece_starts(FAMILIES[name], text, in_engine_set), text
    return count


def dense(seed: int, count: int) -> Iterator[str]:
    """Texts of a few of the characters, so that each stands in many contexts."""
    choose = random.Random(seed)
    for _ in range(count):
        few = choose.sample(CHARACTERS, choose.randint(2, 6))
        yield "".join(choose.choices(few, k=choose.randint(1, 24)))


@cache
def texts() -> tuple[str, ...]:
    """The same for all families: what alternates, what is dense, the adversarial ones, and long runs."""
    long = ("!" + "\n" * 3_000 + "  a", " " * 3_000 + "\n" * 3_000)
    runs = adversarial.long_runs(2, (63, 64, 65, 700))
    return (*alternating(12), *dense(2, 8_000), *adversarial.battery((), 8, 4_000), *runs, *long)


def test_families() -> None:
    """They are those of the spec and two more, and a pre-tokenizer that does something else is of none."""
    spec = {family.patterns for name, family in FAMILIES.items() if name != "bert"}
    assert spec < set(runs.FAMILIES) and len(runs.FAMILIES) == len(spec) + len(OTHERS)
    for name in EMBEDDED.values():
        compiled = engine(name)._compiled
        assert compiled.engine is not None
        split, steps = compiled.engine.split, compiled.pipeline.pre_tokenizer
        assert runs.run_tables(steps, split) is not None
        for other, known in variants(steps):
            assert (runs.run_tables(other, split) is not None) is known, other


def variants(steps: PreTokenizer | None) -> Iterator[tuple[PreTokenizer | None, bool]]:
    """Pre-tokenizers that are nearly the same, and whether they cut alike."""
    yield None, False
    if isinstance(steps, ByteLevel):
        yield replace(steps, use_regex=False), False
        yield replace(steps, add_prefix_space=True), False
        yield PreTokenizerSequence((Digits(True), steps)), True
        yield PreTokenizerSequence((Digits(False), steps)), False
        yield PreTokenizerSequence((steps, Digits(True))), False
        return
    assert isinstance(steps, PreTokenizerSequence)
    *splits, levels = steps.stages
    for number, split in enumerate(splits):
        assert isinstance(split, Split)
        for behavior, invert, alike in (
            ("Removed", True, len(splits) == 1),
            ("Removed", False, False),
            ("Contiguous", False, False),
        ):
            other = replace(split, behavior=behavior, invert=invert)
            yield PreTokenizerSequence((*splits[:number], other, *splits[number + 1 :], levels)), alike
    yield PreTokenizerSequence(tuple(splits)), False
    yield PreTokenizerSequence((*splits, Digits(True), levels)), False
    yield PreTokenizerSequence((*splits, splits[0], levels)), False


@every_family
def test_starts(name: str) -> None:
    """All pairs of characters, texts that alternate, random ones, and long runs."""
    check(name, (a + b for a in CHARACTERS for b in CHARACTERS), by_all=True)
    check(name, dense(1, 600), by_all=True)
    check(name, texts())


@pytest.mark.parametrize("name", ["o200k", "deepseek"])
def test_starts_by_the_machine(name: str) -> None:
    """Of one stage and of three."""
    check(name, adversarial.battery((), 8, 2_000), machine=True)
    check(name, dense(2, 1_000), machine=True)


def alternating(times: int) -> Iterator[str]:
    for before in ("", "a", "!", "!!\u0301", " "):
        for one in ALTERNATING:
            for other in ALTERNATING:
                yield before + (one + other) * times


@pytest.mark.campaign
@every_family
def test_starts_campaign(name: str) -> None:
    """More than 100,000 texts, all of them compared with the spec and the reference too."""
    count = check(name, map("".join, itertools.product(CHARACTERS, repeat=3)), by_all=True)
    count += check(name, alternating(100), by_all=True)
    count += check(name, dense(3, 60_000), by_all=True)
    count += check(name, adversarial.battery((), 9, 60_000), by_all=True)
    assert count > 100_000
