"""Merging, judged by the reference's BPE model on small vocabularies made to be awkward."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
import small
from conftest import artifact, reference
from hypothesis import given, settings
from hypothesis import strategies as st
from judge import ENGINES, engine
from numpy.typing import NDArray
from tokenizers.models import BPE

from toktier.artifact import Artifact
from toktier.bpe import pumping, rounds, tables, windows
from toktier.bpe.batch import merge_words
from toktier.bpe.hashing import ABSENT, MULTIPLIER, KeyReader, key_table, pair_table
from toktier.bpe.memo import Memo
from toktier.bpe.rounds import merge_in_rounds, mergeable_at_once
from toktier.bpe.word import PairRanks, merge_long_word, merge_word
from toktier.errors import ArtifactError
from toktier.tokenizer import Tokenizer

Pair = tuple[str, str]


def random_merges(random_: random.Random, symbols: Sequence[str], rules: int) -> list[Pair]:
    """Rules over ``symbols`` in any order of rank: one that consumes a symbol may outrank the one that makes it.

    Some results are made by several rules, and some rules come twice.
    """
    known = list(symbols)
    merges: list[Pair] = []
    for _ in range(rules):
        pair = (random_.choice(known), random_.choice(known))
        if random_.random() < 0.4:  # another way to make what there is already
            token = random_.choice([t for t in known if len(t) > 1] or ["".join(pair)])
            at = random_.randrange(1, len(token))
            if token[:at] in known and token[at:] in known:
                pair = (token[:at], token[at:])
        if len("".join(pair)) > 12:
            continue
        merges.append(pair)
        if "".join(pair) not in known:
            known.append("".join(pair))
    if random_.random() < 0.7:
        random_.shuffle(merges)
    else:  # nearly in order
        for _ in range(3):
            i, j = random_.randrange(len(merges)), random_.randrange(len(merges))
            merges[i], merges[j] = merges[j], merges[i]
    return merges


def words(random_: random.Random, symbols: Sequence[str], merges: Sequence[Pair], count: int) -> Iterator[str]:
    """Random ones, periodic ones, and tokens put together."""
    made = ["".join(pair) for pair in merges]
    for _ in range(count):
        kind = random_.randrange(4)
        if kind == 0:
            yield "".join(random_.choices(symbols, k=random_.randrange(1, 30)))
        elif kind == 1:
            yield random_.choice(symbols) * random_.randrange(1, 40)
        elif kind == 2:
            period = "".join(random_.choices(symbols, k=random_.randrange(2, 6)))
            yield period * random_.randrange(1, 9) + random_.choice(symbols)
        else:
            yield "".join(random_.choices(made, k=random_.randrange(1, 7)))


def vocabulary(symbols: Sequence[str], merges: Sequence[Pair]) -> dict[str, int]:
    vocab = {symbol: id for id, symbol in enumerate(symbols)}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    return vocab


class Vocabulary:
    """A model of the reference, and our tables of the same."""

    def __init__(self, symbols: Sequence[str], merges: Sequence[Pair]) -> None:
        self.vocab = vocabulary(symbols, merges)
        self.model = BPE(vocab=self.vocab, merges=list(merges), cache_capacity=0)
        self.merges = tables.merges({"vocab": self.vocab, "merges": [list(pair) for pair in merges]})
        self.ranks = PairRanks(self.merges.table)
        self.results = self.merges.result.tolist()

    def right(self, word: str) -> list[int]:
        return [token.id for token in self.model.tokenize(word)]

    def symbols(self, word: str) -> list[int]:
        return [self.vocab[char] for char in word]

    def long_word(self, symbols: list[int]) -> tuple[list[int], list[int]]:
        return merge_long_word(symbols, self.ranks, self.results)


def patiently(symbols: NDArray[np.uint32], merges: tables.Merges) -> NDArray[np.uint32] | None:
    """A word in rounds, however short it is and many they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_PATIENCE", 1 << 20)
        return merge_in_rounds(symbols, merges, mergeable_at_once(merges))


def assert_merged(vocab: Vocabulary, texts: Sequence[str]) -> None:
    right = [vocab.right(text) for text in texts]
    lengths = np.array([len(text) for text in texts])
    starts = np.cumsum(lengths) - lengths
    flat = np.array([symbol for text in texts for symbol in vocab.symbols(text)], np.uint32)
    merged, first = merge_words(flat, starts, vocab.merges)
    bounds = [*np.searchsorted(first, starts).tolist(), len(merged)]
    together = [merged[a:b].tolist() for a, b in pairwise(bounds)]
    nothing = vocab.merges.table.nothing
    in_rounds = patiently(np.insert(flat, starts[1:], nothing), vocab.merges)
    if in_rounds is not None:
        assert in_rounds.tolist() == [*chain.from_iterable((*ids, nothing) for ids in right)][:-1]
    strings = {id: token for token, id in vocab.vocab.items()}
    for text, ids, word in zip(texts, right, together, strict=True):
        assert word == ids, text
        rounds_alone = patiently(np.array(vocab.symbols(text), np.uint32), vocab.merges)
        assert rounds_alone is not None
        assert rounds_alone.tolist() == ids, text
        assert merge_word(vocab.symbols(text), vocab.ranks, vocab.results) == ids, text
        found, begins = vocab.long_word(vocab.symbols(text))
        assert found == ids, text
        ends = np.cumsum([len(strings[id]) for id in ids]).tolist()
        assert begins == [0, *ends[:-1]], text


@pytest.mark.parametrize("alphabet", ["a", "ab", "abc", "abcdefgh"])
def test_random_vocabularies(alphabet: str) -> None:
    random_ = random.Random(alphabet)
    for _ in range(60):
        merges = random_merges(random_, alphabet, random_.choice((1, 3, 8, 30)))
        assert_merged(Vocabulary(alphabet, merges), list(words(random_, alphabet, merges, 30)))


@settings(max_examples=150)
@given(st.data())
def test_any_vocabulary(data: st.DataObject) -> None:
    known = ["a", "b"]
    merges: list[Pair] = []
    for _ in range(data.draw(st.integers(1, 8))):
        merges.append((data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))))
        if "".join(merges[-1]) not in known:
            known.append("".join(merges[-1]))
    merges = data.draw(st.permutations(merges))
    texts = data.draw(st.lists(st.text("ab", min_size=1, max_size=24), min_size=1, max_size=6))
    assert_merged(Vocabulary("ab", merges), texts)


def test_a_rule_may_outrank_the_one_that_made_its_symbol() -> None:
    """Then merging all leftmost occurrences at once goes wrong, and so do rules taken in one pass."""
    vocab = Vocabulary("abc", [("ab", "a"), ("a", "b"), ("b", "a"), ("aba", "b")])
    assert_merged(vocab, ["abababa", "abab", "ababababab" * 3, "cabac", "bababa"])


def test_of_rules_for_one_pair_the_last_counts() -> None:
    vocab = Vocabulary("abc", [("a", "b"), ("b", "c"), ("a", "b")])
    assert_merged(vocab, ["abc", "ababc", "bcabc"])
    assert len(vocab.merges.left) == 2


def test_no_rules() -> None:
    assert_merged(Vocabulary("ab", []), ["a", "ab", "bbaba"])


def test_no_words() -> None:
    merged, first = merge_words(
        np.empty(0, np.uint32), np.empty(0, np.int64), Vocabulary("ab", [("a", "b")]).merges
    )
    assert len(merged) == len(first) == 0


def test_ranks_are_forgotten_but_not_lost() -> None:
    random_ = random.Random(1)
    merges = random_merges(random_, "abcd", 40)
    vocab = Vocabulary("abcd", merges)
    vocab.ranks = PairRanks(vocab.merges.table, limit=5)
    assert_merged(vocab, list(words(random_, "abcd", merges, 60)))
    assert len(vocab.ranks) <= 5


@pytest.mark.parametrize(
    "bad",
    [[["a", "x"]], [["a"]], ["a b c"], ["ab"], [["b", "a"]]],
    ids=["token", "one", "three", "none", "result"],
)
def test_bad_merges(bad: list[Any]) -> None:
    with pytest.raises(ArtifactError, match="merge"):
        tables.merges({"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": bad})


# --- windows ---------------------------------------------------------------------------


@pytest.mark.parametrize("few", [0, 1_000], ids=["batches", "one by one"])
@pytest.mark.parametrize("alphabet", ["a", "ab", "abcd"])
def test_windows(alphabet: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow ones, so that short words have many.  They may give up; then they say so."""
    monkeypatch.setattr(windows, "_FEW", few)
    random_ = random.Random(f"{alphabet}{few}")
    joined = 0
    for _ in range(20):
        sizes = random_.choice((((3, 2),), ((4, 4), (9, 9)), ((2, 1), (6, 6), (24, 24))))
        monkeypatch.setattr(windows, "_SIZES", sizes)
        merges = random_merges(random_, alphabet, random_.choice((2, 6, 20)))
        vocab = Vocabulary(alphabet, merges)
        for word in words(random_, alphabet, merges, 40):
            symbols = np.array(vocab.symbols(word), np.uint32)
            found = windows.merge_long(symbols, vocab.merges, vocab.long_word)
            if found is not None:
                assert found.tolist() == vocab.right(word), (sizes, merges, word)
                joined += len(word) > sizes[0][0] + sizes[0][1]
    assert joined > 100


def test_windows_of_real_width() -> None:
    random_ = random.Random(2)
    for alphabet in ("a", "ab", "abcdefghijklmnop"):
        merges = random_merges(random_, alphabet, 60)
        vocab = Vocabulary(alphabet, merges)
        for length in (143, 144, 145, 240, 241, 500, 1_537, 5_000):
            for word in ("".join(random_.choices(alphabet, k=length)), (alphabet * length)[:length]):
                symbols = np.array(vocab.symbols(word), np.uint32)
                found = windows.merge_long(symbols, vocab.merges, vocab.long_word)
                assert found is None or found.tolist() == vocab.right(word), (merges, length)


def test_rounds_are_given_up() -> None:
    merges = [("a", "bc"), ("b", "c")]  # the first rule takes what the second one makes, so this is not at once
    vocab = Vocabulary("abc", merges)
    symbols = np.array(vocab.symbols("abc" * 50), np.uint32)
    assert merge_in_rounds(symbols, vocab.merges, mergeable_at_once(vocab.merges)) is None


def test_a_short_word_is_worth_few_rounds() -> None:
    """A round costs the same for 400 symbols as for one, and a queue takes them in the time of some ten rounds."""
    alphabet = "abcdefghijklmnopqrstuvwx"
    vocab = Vocabulary(alphabet, [*zip(alphabet[::2], alphabet[1::2], strict=True)])
    word = np.array(vocab.symbols(alphabet), np.uint32)
    at_once = mergeable_at_once(vocab.merges)
    assert at_once.all()
    assert merge_in_rounds(np.tile(word, 17), vocab.merges, at_once) is None
    merged = merge_in_rounds(np.tile(word, 1700), vocab.merges, at_once)
    assert merged is not None
    assert merged.tolist() == vocab.right(alphabet) * 1700


def test_long_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pumping, "_LENGTH", 24)
    random_ = random.Random(3)
    lengthened = 0
    for _ in range(60):
        alphabet = random_.choice(("a", "ab", "abc"))
        merges = random_merges(random_, alphabet, random_.choice((2, 6, 20)))
        vocab = Vocabulary(alphabet, merges)
        for _ in range(12):
            before, after = ("".join(random_.choices(alphabet, k=random_.randrange(20))) for _ in range(2))
            text = before + random_.choice(alphabet) * random_.randrange(40, 90) + after
            word = np.array(vocab.symbols(text), np.uint32)
            run = pumping.longest_run(word)
            token = None if run is None else pumping.run_token(int(word[run[0]]), vocab.long_word)
            if run is None or token is None:
                continue
            short, number = pumping.shortened(word, run, token[1])
            assert len(word) - len(short) == number * token[1]
            ids = np.array(vocab.long_word(short.tolist())[0], np.uint32)
            found = pumping.lengthened(ids, *token, number)
            if found is not None:
                lengthened += 1
                assert found.tolist() == vocab.right(text), (merges, text)
    assert lengthened > 200


@pytest.mark.parametrize("name", ["gpt2", "gpt-oss"])
def test_long_pieces_side_by_side(name: str) -> None:
    """Runs, periods and random ones, equal and different, which are merged in different ways, in one text."""
    random_ = random.Random(name)
    made: list[Callable[[int], str]] = [
        lambda size: " " * size,
        lambda size: random_.choice("=-a.") * size,
        lambda size: (random_.choice(("ab", "abc", "haha", "\n \t", "=-")) * size)[:size],
        lambda size: "".join(random_.choices("abcdefgh", k=size)),
        lambda size: "".join(random_.choices("ab", k=size)),
        lambda size: " " * 80 + "".join(random_.choices(" \t", k=size)),
        lambda size: "".join(random_.choices("\u597d\u4e2d\u6587\u00e9", k=size)),
        lambda size: "a" * size + "".join(random_.choices("xyz", k=size)),
        lambda size: ("abcdefghijklm" * size)[:size],
    ]
    tok, judge = engine(name), reference(name)
    pieces = [make(size) for make in made for size in (401, 402, 402, 1_500)] + [make(3_001) for make in made]
    random_.shuffle(pieces)
    text = "1".join(pieces)
    right = judge.encode(text, add_special_tokens=False).ids
    for backend in ENGINES:
        assert tok.encode(text, False, backend=backend) == right
    for piece in pieces[::4]:
        assert tok.encode(piece, False, backend="python") == judge.encode(piece, add_special_tokens=False).ids


def test_long_words_of_characters() -> None:
    """They are cut where no rule merges across."""
    random_ = random.Random(5)
    for _ in range(12):
        merges = random_merges(random_, "abcd", random_.choice((2, 6, 15)))
        pieces = [*(f"<0x{byte:02X}>" for byte in range(256)), *"abcd", *("".join(pair) for pair in merges)]
        vocab = {piece: id for id, piece in enumerate(dict.fromkeys(pieces))}
        model = {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in merges], "byte_fallback": True}
        document = small.document(pre_tokenizer=None, decoder=None, model=model)
        tok, judge = ours(document), small.build(document)
        text = "".join(random_.choice("abcd\u00e9\u6587") * random_.choice((1, 1, 2, 5)) for _ in range(1_500))
        for word in (text, text[:600] + "a" * 1_500 + text[600:]):
            right = judge.encode(word).ids
            assert [tok.encode(word, backend=backend) for backend in ENGINES] == [right] * 2, merges


# --- whole byte-level tokenizers ---------------------------------------------------------


def byte_level(merges: Sequence[Pair], **model: Any) -> dict[str, Any]:
    """A tokenizer over bytes (in GPT-2's alphabet) that cuts at line feeds."""
    split = {"type": "Split", "pattern": {"Regex": r"\n"}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    vocab = vocabulary([small.CHAR_OF[byte] for byte in range(256)], merges)
    return small.document(
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level]},
        model={"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in merges], **model},
    )


def ours(document: dict[str, Any]) -> Tokenizer:
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "small"))
    assert tok.backends[1:] == ENGINES, tok.explain()
    return tok


#: Characters that share lead bytes, trail bytes and whole sequences of them.
CHARACTERS = "aé\u00e8\u0129中\u4e2e\u4ead\uad2d\U0001f600\U0001f601\U0001f640"


def in_bytes(text: str) -> list[str]:
    return [small.CHAR_OF[byte] for byte in text.encode()]


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(12, 200))]
)
def test_certified_starts(seed: int) -> None:
    """Characters merge first only where that is certain: ranks here are in any order."""
    random_ = random.Random(seed)
    characters = random_.sample(CHARACTERS, random_.randrange(2, 6))
    pool = [byte for char in characters for byte in in_bytes(char)]
    merges: list[Pair] = []
    if seed % 3:  # make each character whole, from the left or from the right
        for char in characters:
            parts = in_bytes(char)
            while len(parts) > 1:
                at = random_.randrange(len(parts) - 1)
                merges.append((parts[at], parts[at + 1]))
                parts[at : at + 2] = ["".join(parts[at : at + 2])]
    if seed % 2:
        random_.shuffle(merges)
    known = [*pool, *("".join(pair) for pair in merges), *("".join(pair) for pair in merges)]
    for _ in range(random_.choice((4, 12, 30))):  # and rules that cross from one to another
        pair = (random_.choice(known), random_.choice(known))
        if len("".join(pair)) <= 14:
            merges.insert(random_.randrange(len(merges) + 1) if random_.random() < 0.7 else len(merges), pair)
            known.append("".join(pair))
    document = byte_level(merges, ignore_merges=bool(seed % 4 == 0))
    judge, tok = small.build(document), ours(document)
    texts = ["".join(random_.choices(characters, k=random_.randrange(1, 14))) for _ in range(300)]
    texts += [char * n for char in characters for n in (1, 2, 3, 16, 50)]
    right = [e.ids for e in judge.encode_batch(texts)]
    for backend in ENGINES:
        assert tok.encode_batch(texts, backend=backend) == right
        assert [tok.encode(text, backend=backend) for text in texts] == right
        assert tok.encode("\n".join(texts), backend=backend) == judge.encode("\n".join(texts)).ids


@pytest.mark.parametrize("merges", [[], [("a", "b")], [("Ã", "©")], [("©", "Ã")]], ids=str)
def test_hardly_any_rules(merges: list[Pair]) -> None:
    document = byte_level(merges)
    judge, tok = small.build(document), ours(document)
    for text in ("", "a", "abab", "éé", "aé中b", "é" * 500):
        for backend in ENGINES:
            assert tok.encode(text, backend=backend) == judge.encode(text).ids


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_whole_pieces(ignore_merges: bool) -> None:
    """A token is only looked up whole where merging makes it of its own bytes, or the model says so."""
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"), ("c", "d"), ("abc", "d")]
    document = byte_level(merges, ignore_merges=ignore_merges)
    vocab = document["model"]["vocab"]
    for token in ("abcd", "bcd", "xyz", "zz", "a" * 15, "a" * 16, "a" * 40, "\u0100", "\u0100\u0100", "a\u0100"):
        vocab.setdefault(token, len(vocab))  # no rule makes most of these
    judge, tok = small.build(document), ours(document)
    texts = ["abcd", "abc", "bcd", "cd", "xyz", "zz", "zzz", "\0", "\0\0", "\0\0\0", "a\0", "a", "a\0\0", ""]
    texts += ["a" * n for n in (14, 15, 16, 17, 39, 40, 41)]
    texts += ["\n".join(texts), "xyzabcd\nxyz\nabcdxyz"]
    for backend in ENGINES:
        assert [tok.encode(text, backend=backend) for text in texts] == [judge.encode(text).ids for text in texts]
        assert tok.encode_batch(texts, backend=backend) == [judge.encode(text).ids for text in texts]


def test_character_level_with_ignore_merges() -> None:
    """The model sees one word, the whole text, so that only that may be looked up whole."""
    symbols = [f"<0x{byte:02X}>" for byte in range(256)] + list("\u2581abcd")
    vocab = {symbol: id for id, symbol in enumerate(symbols)}
    for token in ("ab", "\u2581ab", "cd", "\u2581c", "\u2581cd"):
        vocab[token] = len(vocab)
    for ignore_merges in (False, True):
        document = small.document(
            pre_tokenizer=None,
            decoder=None,
            normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            model={
                "type": "BPE",
                "vocab": vocab,
                "merges": [["a", "b"]] + [["\u2581", "c"]] * ignore_merges,
                "byte_fallback": True,
                "ignore_merges": ignore_merges,
            },
        )
        judge = small.build(document)
        tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "small"))
        for text in (" ab", "ab", "cd", " cd", " ab ab", "ab cd", " cd cd", "é \u4e2d", " c d", "<0x41>", ""):
            for backend in tok.backends:
                assert tok.encode(text, backend=backend) == judge.encode(text).ids, (text, ignore_merges)


def test_what_was_encoded_before_does_not_matter() -> None:
    random_ = random.Random(3)
    letters = "etaoin shrdlu éж中\n0"
    texts = ["".join(random_.choices(letters, k=random_.randrange(1, 60))) for _ in range(300)]
    for backend in ENGINES:
        fresh = Tokenizer(artifact("gpt2"))
        one = [fresh.encode(text, backend=backend) for text in texts]
        other = Tokenizer(artifact("gpt2"))
        for text in reversed(texts):
            other.encode(text[1:] + text, backend=backend)
        assert [other.encode(text, backend=backend) for text in texts] == one


# --- tables ----------------------------------------------------------------------------------


def test_pairs_are_found_and_others_are_not() -> None:
    random_ = np.random.default_rng(4)
    for size, count in ((2, 3), (60, 900), (200_000, 50_000), (1 << 18, 4)):
        pairs = np.unique(random_.integers(0, size, (count, 2), np.uint32), axis=0)
        pairs = random_.permutation(np.concatenate((pairs, [[0, 0]])))
        pairs = pairs[np.sort(np.unique(pairs, axis=0, return_index=True)[1])].astype(np.uint32)
        table = pair_table(pairs[:, 0], pairs[:, 1], size)
        assert table.find(pairs[:, 0], pairs[:, 1]).tolist() == list(range(len(pairs)))
        known = set(map(tuple, pairs.tolist()))
        others = random_.integers(0, size, (2_000, 2), np.uint32)
        missing = np.array([pair for pair in others.tolist() if tuple(pair) not in known], np.uint32).reshape(
            -1, 2
        )
        assert (table.find(missing[:, 0], missing[:, 1]) == ABSENT).all()
        nothing = np.full(len(pairs), table.nothing, np.uint32)
        assert (table.find(pairs[:, 0], nothing) == ABSENT).all()
        assert (table.find(nothing, pairs[:, 1]) == ABSENT).all()
        ranks = PairRanks(table)
        for rank, (a, b) in enumerate(pairs[:500].tolist()):
            assert ranks[a << ranks.shift | b] == rank
        for a, b in missing[:500].tolist():
            assert ranks[a << ranks.shift | b] == int(ABSENT)


def test_pairs_that_collide() -> None:
    """All of them hash to one bucket: another multiplier is taken."""
    id_bits = (1 << 12).bit_length()
    left, right = (grid.ravel() for grid in np.meshgrid(np.arange(1 << 12), np.arange(0, 1 << 12, 7)))
    key = (left.astype(np.uint64) << np.uint64(id_bits)) | right.astype(np.uint64)
    least = np.flatnonzero(key * MULTIPLIER < 1 << 53)[:400]
    assert len(least) == 400
    left, right = left[least].astype(np.uint32), right[least].astype(np.uint32)
    table = pair_table(left[::2], right[::2], 1 << 12)
    assert table.displacement.multiplier != MULTIPLIER
    assert table.find(left[::2], right[::2]).tolist() == list(range(len(left[::2])))
    assert (table.find(left[1::2], right[1::2]) == ABSENT).all()
    ranks = PairRanks(table)
    assert [ranks[a << ranks.shift | b] for a, b in zip(left[::2].tolist(), right[::2].tolist(), strict=True)] == [
        *range(len(left[::2]))
    ]


def test_keys_that_collide() -> None:
    """Keys whose hashes are equal under the first multiplier, and the key that hashes to 0 under every one."""
    high = np.arange(1, 200, dtype=np.uint64)
    low, ids = high * MULTIPLIER, np.arange(200, dtype=np.uint32)
    low, high = np.append(low, np.uint64(0)), np.append(high, np.uint64(0))
    table = key_table(low, high, ids)
    assert table.displacement.multiplier != MULTIPLIER
    assert table.find(low, high).tolist() == ids.tolist()
    reader = KeyReader(table)
    assert [reader.find(b << 64 | a) for a, b in zip(low.tolist(), high.tolist(), strict=True)] == ids.tolist()
    assert (table.find(low + np.uint64(1), high) == ABSENT).all()
    assert reader.find(1 << 64 | 1) is None


def test_keys_that_differ_in_their_top_bits_alone() -> None:
    """A byte, and it with six zeros and any byte behind: under each multiplier two of them might be equal."""
    last = np.arange(1, 256, dtype=np.uint64)
    low = np.append(last << np.uint64(56), np.uint64(0)) | np.uint64(ord("x"))
    high = np.append(np.full(255, 8 << 56, np.uint64), np.uint64(1 << 56))
    table = key_table(low, high, np.arange(256, dtype=np.uint32))
    assert table.find(low, high).tolist() == [*range(256)]


def test_known_seeds_give_the_same_table_and_those_of_other_keys_do_no_harm() -> None:
    left, right = np.random.default_rng(1).permutation(1 << 16).astype(np.uint32).reshape(2, -1)
    table, other = pair_table(left, right, 1 << 16), pair_table(right, left, 1 << 16)
    for by in (table.displacement, other.displacement):
        again = pair_table(left, right, 1 << 16, (by.seeds, by.multiplier))
        assert np.array_equal(again.entries, table.entries)
        assert (again.displacement.seeds is by.seeds) == (by is table.displacement)


def test_empty_tables_find_nothing() -> None:
    none = np.empty(0, np.uint32)
    assert pair_table(none, none, 3).find(*np.zeros((2, 1), np.uint32)).tolist() == [ABSENT]
    words = np.empty(0, np.uint64)
    assert key_table(words, words, none).find(*np.zeros((2, 1), np.uint64)).tolist() == [ABSENT]
    assert KeyReader(key_table(words, words, none)).find(0) is None


def test_a_vocabulary_too_large_for_its_table() -> None:
    with pytest.raises(ArtifactError, match="too large"):
        pair_table(np.zeros(1 << 16, np.uint32), np.arange(1 << 16, dtype=np.uint32), 1 << 24)


def test_short_keys_are_exact() -> None:
    """Zeros within, before and behind; the same bytes at other lengths; all that follows in the buffer."""
    pieces = [b"\0" * n for n in range(1, 16)] + [b"a" + b"\0" * n for n in range(15)]
    pieces += [b"\0" * n + b"a" for n in range(1, 15)] + [bytes(range(n, n + 15)) for n in range(40)]
    pieces += [b"\xff" * n for n in range(1, 16)]
    assert len(set(pieces)) == len(pieces)
    joined = np.frombuffer(b"".join(pieces) + b"\xff" * tables.PADDING, np.uint8)
    lengths = np.array([len(piece) for piece in pieces])
    low, high = tables.short_keys(joined, np.cumsum(lengths) - lengths, lengths)
    assert len(set(zip(low.tolist(), high.tolist(), strict=True))) == len(pieces)
    alone = [
        tables.short_keys(np.frombuffer(p + bytes(16), np.uint8), np.zeros(1, int), np.array([len(p)]))
        for p in pieces
    ]
    assert [(int(a[0]), int(b[0])) for a, b in alone] == list(zip(low.tolist(), high.tolist(), strict=True))
    longer = np.full(len(pieces), tables.SHORT + 1)
    for key in zip(
        *map(np.ndarray.tolist, tables.short_keys(joined, np.cumsum(lengths) - lengths, longer)), strict=True
    ):
        assert key not in set(zip(low.tolist(), high.tolist(), strict=True))
    ids = np.arange(len(pieces), dtype=np.uint32)
    table = key_table(low[::2], high[::2], ids[::2])
    assert table.find(low, high)[::2].tolist() == ids[::2].tolist()
    assert (table.find(low, high)[1::2] == ABSENT).all()


# --- the memo ----------------------------------------------------------------------------------


def _numbers(pieces: Sequence[str]) -> list[bytes]:
    return [np.arange(len(piece) % 4, dtype=np.uint32).tobytes() + piece[:4].encode() for piece in pieces]


@pytest.mark.parametrize("budget", [1, 5_000, 1 << 20])
def test_the_memo_gives_what_it_was_given(budget: int) -> None:
    random_ = random.Random(5)
    asked: list[str] = []
    memo = Memo(lambda pieces: asked.extend(pieces) or _numbers(pieces), budget)
    for _ in range(200):
        pieces = ["x" * random_.randrange(1, 500) for _ in range(random_.randrange(1, 40))]
        assert memo.encode(pieces) == _numbers(pieces)
    if budget == 1 << 20:
        short = [piece for piece in asked if len(piece) <= 400]
        assert len(short) == len(set(short)), "asked again for what it knew"


def test_pieces_without_ids_are_remembered_too() -> None:
    memo = Memo(lambda pieces: [b"" for _ in pieces])
    assert memo.encode(["a", "b", "a"]) == memo.encode(["a", "b", "a"]) == [b"", b"", b""]
    assert memo.encode([]) == []


@pytest.mark.parametrize("budget", [1, 1000])
def test_added_tokens_keep_their_places_among_pieces(budget: int) -> None:
    memo = Memo(_numbers, budget)
    place = ABSENT.tobytes()
    for number in range(100):
        assert memo.encode(["", f"{number}", "", ""]) == [place, *_numbers([f"{number}"]), place, place]


def test_the_memo_is_bounded() -> None:
    budget = 100_000
    memo = Memo(_numbers, budget)
    most = 0
    for number in range(20_000):
        memo.encode([f"{number}", f"piece {number}"])
        held = memo._known
        size = sum(map(len, held)) + sum(map(len, held.values())) + 150 * len(held)
        assert size <= budget
        most = max(most, len(held))
    assert most > 100
