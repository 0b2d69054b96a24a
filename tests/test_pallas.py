"""The kernels for a GPU: interpreted on the processor against the reference, and lowered for CUDA without one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from conftest import artifact
from test_bpe import Pair, Vocabulary, random_merges, words
from unoptimized import UNOPTIMIZED, jax

from toktier.backends.jax import compat, pallas_bpe, pallas_lanes, pallas_pieces, pallas_tables, splitting
from toktier.backends.jax.pallas_tables import AT_ONCE, KernelTables, kernel_tables
from toktier.backends.jax.tables import NO_RANK
from toktier.bpe import batch, hashing
from toktier.bpe.hashing import ABSENT
from toktier.bpe.rounds import mergeable_at_once
from toktier.bpe.tables import Merges
from toktier.compiled import compiled
from toktier.tokenizer import Tokenizer

#: What lies behind and between words: nothing may read it as a symbol, nor write it.
FENCE = 3

jnp = jax.numpy
jit = partial(jax.jit, compiler_options=UNOPTIMIZED)


@cache
def merges_of(name: str) -> Merges:
    engine = compiled(artifact(name)).engine
    assert engine is not None
    return engine.pieces.merges


# --- many vocabularies at once --------------------------------------------------------------------


class Many(Vocabulary):
    """Made vocabularies over alphabets of their own, as one, so that one compiled kernel tests them all.

    Their rules are dealt out at random, each one's in order, so that none knows of the others.
    """

    def __init__(self, random_: random.Random, count: int) -> None:
        self.parts: list[tuple[str, list[Pair]]] = []
        for number in range(count):
            size = random_.choice((1, 2, 2, 3, 8))
            alphabet = "".join(chr(0x4E00 + 8 * number + i) for i in range(size))
            self.parts.append((alphabet, random_merges(random_, alphabet, random_.choice((1, 3, 8, 30)))))
        a, b, c = "\u3041\u3042\u3043"  # a rule outranks the one that made its symbol
        self.parts.append((a + b + c, [(a + b, a), (a, b), (b, a), (a + b + a, b)]))
        turns = [number for number, (_, merges) in enumerate(self.parts) for _ in merges]
        random_.shuffle(turns)
        rules = [iter(merges) for _, merges in self.parts]
        super().__init__("".join(alphabet for alphabet, _ in self.parts), [next(rules[turn]) for turn in turns])

    def words(self, random_: random.Random, above: int, limit: int, count: int) -> list[str]:
        """Words of every length from one below ``above`` to one above ``limit``, and ``count`` others."""
        if limit <= 32:
            sizes = [*range(max(above - 1, 0), limit + 2)]
        else:
            sizes = [above - 1, above, above + 1, above + 2, limit - 1, limit, limit + 1]
        made = []
        for size in sizes + random_.choices(range(above + 1, limit + 1), k=count):
            alphabet, merges = random_.choice(self.parts)
            word = ""
            while len(word) < size:
                word += next(words(random_, alphabet, merges, 1)) if merges else alphabet
            made.append(word[:size])
        return [*made, self.parts[-1][0][:2] * (limit // 2), self.parts[0][0][:1] * limit]


def interpreted(
    words: Sequence[Sequence[int]], tables: KernelTables, above: int, limit: int
) -> tuple[list[list[int]], list[int]]:
    """The words after :func:`pallas_bpe.merge_spans`, which lie with gaps in any order, and the numbers left."""
    order = random.Random(len(words)).sample(range(len(words)), len(words))
    starts, symbols = np.zeros(len(words), np.int32), [FENCE]
    for number in order:
        starts[number] = len(symbols)
        symbols += [*words[number], *[FENCE] * (number % 3)]
    lengths = np.array([len(word) for word in words], np.int32)
    merge = jax.jit(
        partial(pallas_bpe.merge_spans, above=above, limit=limit, interpret=True),
        compiler_options=UNOPTIMIZED if limit <= 128 else None,  # long words take long
    )
    before = np.array(symbols, np.int32)
    after, counts = map(np.asarray, merge(before, starts, lengths, tables))
    outside = np.ones(len(before), np.bool_)
    for start, length in zip(starts, lengths, strict=True):
        outside[start : start + length] = False
    assert (after[outside] == before[outside]).all()
    for start, length, count in zip(starts, lengths, counts, strict=True):
        assert (after[start + count : start + length] == -1).all()
    return [after[s : s + c].tolist() for s, c in zip(starts, counts, strict=True)], counts.tolist()


# --- words of every class ------------------------------------------------------------------------------

REAL = ("gpt2", "qwen3", "gpt-oss", "deepseek-v3")


@cache
def rules() -> tuple[Many, KernelTables, list[int]]:
    """The rules of made vocabularies and of the embedded ones as those of one, and where each one's ids begin."""
    made = Many(random.Random(5), 60)
    parts = [made.merges, *map(merges_of, REAL)]
    bases = [0, *np.cumsum([merges.table.nothing for merges in parts]).tolist()]
    columns = [
        np.concatenate([column(m) + np.uint32(base) for m, base in zip(parts, bases, strict=False)])
        for column in map(attrgetter, ("left", "right", "result"))
    ]
    table = hashing.pair_table(columns[0], columns[1], bases[-1])
    return made, kernel_tables(Merges(columns[0], columns[1], columns[2], table)), bases


def real_words(random_: random.Random, above: int, longest: int) -> list[bytes]:
    letters = "etaoinshrdlucmfwyp"
    text = [
        *("tokenization", "Straße", "naïveté", "Übermensch", "зависимость", "自然言語処理", "인공지능", "ภาษาไทย"),
        *("🤖🦾", "e\u0301te\u0301", "  \t", "\n\n\n", "def", "__init__", "snake_case_name", "HTTPResponse"),
    ]
    made = ["".join(random_.choices(letters, k=random_.randrange(2, longest + 1))) for _ in range(300)]
    made += [random_.choice("-=_ *#.a0\n") * random_.randrange(2, longest + 1) for _ in range(60)]
    made += ["".join(random_.choices(text, k=random_.randrange(1, 4))) for _ in range(300)]
    return [data for word in made if above < len(data := word.encode()) <= longest]


@pytest.mark.parametrize(
    ("above", "limit"),
    [(1, 16), pytest.param(16, 32, marks=pytest.mark.campaign), (32, 128), (128, 1024)],  # 32 is as 16, and slow
)
def test_words(above: int, limit: int) -> None:
    """Of made vocabularies, too short and too long ones among them, and of the embedded ones."""
    made, tables, bases = rules()
    random_ = random.Random(limit)
    texts = made.words(random_, above, limit, {16: 1000, 32: 300}.get(limit, 80))
    symbols = [made.symbols(text) for text in texts]
    right = [
        made.right(text) if above < len(text) <= limit else first
        for text, first in zip(texts, symbols, strict=True)
    ]
    assert sum(first != ids for first, ids in zip(symbols, right, strict=True)) > len(texts) // 3
    chosen = random_.sample(real_words(random_, above, limit), 100 if limit <= 32 else 40)
    for name, base in zip(REAL, bases[1:], strict=False):
        engine = compiled(artifact(name)).engine
        assert engine is not None
        of_byte = engine.pieces.first.of_byte
        first = [of_byte[np.frombuffer(word, np.uint8)] for word in chosen]
        starts = np.cumsum([0, *map(len, first)])[:-1]
        ids, kept = batch.merge_words(np.concatenate(first), starts, merges_of(name))
        bounds = batch.word_bounds(kept, starts).tolist()
        right += [(ids[a:b] + base).tolist() for a, b in pairwise(bounds)]
        symbols += [(word + base).tolist() for word in first]
    merged, counts = interpreted(symbols, tables, above, limit)
    assert merged == right
    assert counts == [*map(len, right)]


# --- all pieces of a text ---------------------------------------------------------------------------

SIZE = 4096


def texts_of(random_: random.Random, count: int) -> Iterator[str]:
    """Texts of words, scripts and repetitions, among them some that fill the buffer to the last byte."""
    for number in range(count):
        parts: list[str] = []
        while sum(map(len, parts)) < SIZE // (1 if number % 3 else 40):
            word = "".join(random_.choices("etaoinsrhldcu", k=random_.randrange(1, 30)))
            script = "".join(chr(random_.randrange(0x4E00, 0x9FA5)) for _ in range(random_.randrange(1, 60)))
            same = random_.choice("-= #.\n*0aé中") * random_.choice((1, 5, 40, 300, 1500))
            parts.append(
                random_.choice((word, script, same, " the quick brown fox", "🤖e\u0301 ภาษา", "зависимость"))
            )
        data = "".join(parts).encode()[: SIZE - number % 2]
        yield data.decode(errors="ignore")


def test_pieces_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pallas_pieces, "SHORT", (8,))  # fewer kernels to compile
    monkeypatch.setattr(pallas_bpe, "SHORT", (8,))
    monkeypatch.setattr(pallas_pieces, "LONG", (128, 1024))
    monkeypatch.setattr(pallas_bpe, "LONG", (128, 1024))
    engine = compiled(artifact("qwen3")).engine
    assert engine is not None
    tok = Tokenizer(artifact("qwen3"), backend="numpy")
    tables = kernel_tables(engine.pieces.merges)
    merge = jit(partial(pallas_pieces.merge_pieces, interpret=True))
    left = 0
    for number, text in enumerate(texts_of(random.Random(3), 18)):
        normal, pieces = tok.pieces(text)
        sizes = [len(piece.text.encode()) for piece in pieces]
        first, words = engine.pieces.first.of(normal.encode(), np.cumsum([0, *sizes])[:-1])
        symbols = np.full(SIZE, number, np.int32)  # what lies behind the text is without meaning
        symbols[: len(first)] = first
        starts, counts, outcome = np.full((3, SIZE), [[0], [0], [-1]], np.int32)
        starts[: len(words)], counts[: len(words)] = words, np.diff(words, append=len(first))
        lacking = number % 4 == 3  # a byte that the vocabulary lacks, in the middle of some piece
        if lacking:
            symbols[len(first) // 2] = -1
        right = np.full(SIZE, -1)
        for i, (piece, start, count) in enumerate(zip(pieces, words.tolist(), counts.tolist(), strict=False)):
            ids = piece.ids
            if len(ids) == 1 and i % 2:  # as if looked up, or an added token
                outcome[i] = ids[0] if i % 3 else -2
                ids = (int(outcome[i]),)
            elif count > 1024 or (symbols[start : start + count] < 0).any():
                ids = (pallas_pieces.LEFT,)
                left += 1
            right[start : start + len(ids)] = ids
        assert np.array_equal(np.asarray(merge(symbols, starts, counts, outcome, tables)), right), text
    assert left > 5


# --- lanes of a pre-tokenizer stage ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt-oss", "deepseek-v3"])
def test_lanes_are_walked_as_without_a_kernel(name: str) -> None:
    """Any text will do, cut anywhere, after any earlier stage: the steps are compared, not their sense."""
    engine = compiled(artifact(name)).engine
    assert engine is not None
    stage = jax.tree.map(jnp.asarray, splitting._stage_tables(engine.split.splitter.stages[-1]))
    random_ = np.random.default_rng(7)
    size = 600
    seen = jnp.asarray(random_.integers(-1, stage.atoms, size), jnp.int32)
    restarts = jnp.where(random_.integers(0, 2, size) > 0, stage.restart, 0)
    begins = jnp.asarray(random_.integers(0, 2, size) > 0)
    edges = np.unique(random_.integers(0, size, 80))
    starts, stops = jnp.asarray(edges[:-1], jnp.int32), jnp.asarray(edges[1:] - (edges[:-1] % 3 == 0), jnp.int32)
    steps = jnp.max(stops - starts)
    path = splitting._back(stage, seen, starts, stops, steps, jnp.zeros(size, jnp.int32))
    right = splitting._forth(stage, seen >= 0, restarts, path, starts, stops, steps, begins)
    walk = partial(pallas_lanes.walk_lanes, first=stage.first, interpret=True)
    found = jit(walk)(begins, seen, restarts, starts, stops, stage.oracle, stage.walk)
    assert np.array_equal(np.asarray(found), np.asarray(right))
    assert not np.array_equal(np.asarray(found), np.asarray(begins))


# --- the tables -----------------------------------------------------------------------------------


class Gathers:
    """Stands in for :class:`compat.Memory` where there is no kernel."""

    def load(self, array: Any, at: Any, mask: Any, other: int) -> Any:
        return jnp.where(mask, array[at], other)


@pytest.mark.parametrize("name", REAL)
def test_every_rule_is_found_and_nothing_else(name: str) -> None:
    merges = merges_of(name)
    tables = kernel_tables(merges)
    random_ = np.random.default_rng(1)
    left = np.concatenate((merges.left, random_.choice(merges.left, 100_000), merges.left))
    right = np.concatenate((merges.right, random_.choice(merges.right, 100_000), merges.left))
    find = jit(partial(pallas_bpe._find, tables, Gathers(), tables.pairs))  # type: ignore[arg-type]
    found = np.asarray(find(left, right, np.ones(len(left), np.bool_)))
    expected = merges.table.find(left, right)
    expected[expected == ABSENT] = NO_RANK
    assert np.array_equal(found, expected.astype(np.int32))
    assert (np.asarray(find(left, right, np.zeros(len(left), np.bool_))) == NO_RANK).all()
    assert ((np.asarray(tables.made)[:-1] & pallas_tables.ID) == merges.result).all()


@pytest.mark.parametrize(("ids", "rules"), [(3, 2), (40, 30), (65_536, 1_000), (65_537, 1_000), (1 << 20, 1_000)])
def test_words_of_a_pair_at_every_width(ids: int, rules: int) -> None:
    """A pair in two words is the pair, whatever the number of bits of an id."""
    random_ = np.random.default_rng(ids)
    numbers = random_.choice(np.arange(ids, dtype=np.uint32), (4 * rules, 2))
    pairs = np.unique(np.concatenate((numbers, [[0, 0], [ids - 1, ids - 1], [0, ids - 1]])), axis=0).astype(
        np.uint32
    )
    bits = ids.bit_length()
    upper, lower = pallas_tables.words_of(pairs[:, 0], pairs[:, 1], bits)
    assert len(np.unique(np.stack((upper, lower)), axis=1).T) == len(pairs)
    assert int(lower.max()).bit_length() <= max(0, 2 * bits - 32)


# --- which rules may be applied everywhere at once ------------------------------------------------


def everywhere(symbols: list[int], merges: Merges, at_once: Sequence[bool]) -> list[int]:
    """BPE that merges all occurrences of the pair of least rank, for the rules marked so."""
    rank_of: dict[tuple[int, ...], int] = {
        pair: r for r, pair in enumerate(zip(merges.left.tolist(), merges.right.tolist(), strict=True))
    }
    result = merges.result.tolist()
    while found := [rank_of[pair] for pair in pairwise(symbols) if pair in rank_of]:
        rank, merged, at, more = min(found), [], 0, True
        while at < len(symbols):
            if more and rank_of.get(tuple(symbols[at : at + 2])) == rank:
                merged.append(result[rank])
                at, more = at + 2, at_once[rank]
            else:
                merged.append(symbols[at])
                at += 1
        symbols = merged
    return symbols


def test_merging_at_once_where_allowed_changes_nothing() -> None:
    random_ = random.Random(9)
    marked = wrong = 0
    for _ in range(150):
        alphabet = random_.choice(("ab", "abc"))
        merges = random_merges(random_, alphabet, 8)
        vocabulary = Vocabulary(alphabet, merges)
        at_once = mergeable_at_once(vocabulary.merges).tolist()
        for word in words(random_, alphabet, merges, 20):
            symbols, right = vocabulary.symbols(word), vocabulary.right(word)
            assert everywhere(symbols, vocabulary.merges, at_once) == right, word
            wrong += everywhere(symbols, vocabulary.merges, [True] * len(at_once)) != right
        marked += sum(at_once)
    assert marked > 200 and wrong > 50  # the mark is given often, and where it is not, it matters


@pytest.mark.parametrize(("name", "others"), [("gpt2", 0), ("qwen3", 0), ("deepseek-v3", 0), ("gpt-oss", 96_130)])
def test_rules_that_must_be_applied_one_by_one(name: str, others: int) -> None:
    merges = merges_of(name)
    assert np.count_nonzero(~mergeable_at_once(merges)) == others
    assert np.count_nonzero(np.asarray(kernel_tables(merges).made)[:-1] & AT_ONCE == 0) == others


# --- for a GPU, without one -----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [*pallas_bpe.SHORT, *pallas_bpe.LONG])
def test_lowers_for_cuda(limit: int) -> None:
    shape: Any = jax.ShapeDtypeStruct
    tables = KernelTables(shape((1 << 19,), jnp.uint32), shape((150_001,), jnp.int32), 18, 18, 0)
    merge = jax.jit(partial(pallas_bpe.merge_spans, above=1, limit=limit))
    numbers = shape((500,), jnp.int32)
    with compat.named_gpu():
        lowered = merge.trace(shape((9_000,), jnp.int32), numbers, numbers, tables).lower(
            lowering_platforms=("cuda",)
        )
    text = lowered.as_text()
    assert text.count("stablehlo.custom_call") == 1
    assert f'"bpe_{limit}"' in text
