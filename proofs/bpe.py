"""Statements about BPE, each checked on every short word over many small vocabularies.

BPE of a word: merge the leftmost pair of least rank, until no rule is left.  The statements are proved in
``proofs/README.md`` for all vocabularies; here a program tries to refute them where exhaustion is possible:
random vocabularies over two or three symbols, whose ranks come in no particular order (in vocabularies derived
from rank files a rule may well rank below the rules that made its parts), and all words up to a length.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from tokenizers import models

from toktier.bpe.hashing import ABSENT
from toktier.bpe.rounds import mergeable_at_once
from toktier.bpe.symbols import FirstSymbols, certified_starts
from toktier.bpe.tables import byte_alphabet, merges, token_bytes

Pair = tuple[str, str]
#: Rank of each rule; the symbol that a rule makes is its two parts joined.
Ranks = Mapping[Pair, int]


def bpe(symbols: Sequence[str], ranks: Ranks) -> list[str]:
    """One merge at a time: the definition."""
    word = list(symbols)
    while True:
        rules = [(ranks[pair], at) for at, pair in enumerate(pairwise(word)) if pair in ranks]
        if not rules:
            return word
        at = min(rules)[1]
        word[at : at + 2] = [word[at] + word[at + 1]]


def by_engine(word: str, ranks: Ranks) -> list[str]:
    """BPE by the reference engine, from single characters."""
    vocabulary = _numbered(ranks, word)
    model = models.BPE(vocabulary, sorted(ranks, key=lambda pair: ranks[pair]))
    return [token.value for token in model.tokenize(word)]


def _numbered(ranks: Ranks, characters: str = "") -> dict[str, int]:
    """A vocabulary of all that rules take and make, and of ``characters``."""
    tokens = [token for left, right in ranks for token in (left, right, left + right)]
    return {token: id for id, token in enumerate(dict.fromkeys([*characters, *tokens]))}


def bpe_in_rounds(symbols: Sequence[str], ranks: Ranks, at_once: Collection[Pair]) -> list[str]:
    """Like BPE, but a pair of ``at_once`` is merged everywhere in a round, from the left without overlap."""
    word = list(symbols)
    while True:
        present = [pair for pair in pairwise(word) if pair in ranks]
        if not present:
            return word
        least = min(present, key=lambda pair: ranks[pair])
        merged: list[str] = []
        at = 0
        more = True
        while at < len(word):
            if more and tuple(word[at : at + 2]) == least:
                merged.append(word[at] + word[at + 1])
                at += 2
                more = least in at_once
            else:
                merged.append(word[at])
                at += 1
        word = merged


def rules_at_once(ranks: Ranks) -> frozenset[Pair]:
    """The rules for which ``toktier`` merges a whole round at once (:mod:`toktier.bpe.rounds`)."""
    rules = sorted(ranks, key=lambda pair: ranks[pair])
    table = merges({"vocab": _numbered(ranks), "merges": [list(rule) for rule in rules]})
    marked = mergeable_at_once(table)
    return frozenset(rule for rule, mark in zip(rules, marked.tolist(), strict=True) if mark)


#: Two rules and a word for which merging a round's occurrences all at once is wrong.
ROUNDS_FAIL: tuple[Ranks, str] = ({("ab", "a"): 0, ("a", "b"): 1}, "abab")


def random_ranks(source: random.Random, symbols: str, rules: int) -> dict[Pair, int]:
    """Rules over what earlier rules made, with their ranks shuffled or not."""
    tokens = list(symbols)
    pairs: dict[Pair, None] = {}
    for _ in range(rules):
        pair = source.choice(tokens), source.choice(tokens)
        if len(pair[0] + pair[1]) <= 6:
            pairs.setdefault(pair)
            if pair[0] + pair[1] not in tokens:
                tokens.append(pair[0] + pair[1])
    order = list(pairs)
    if source.random() < 0.7:
        source.shuffle(order)
    return {pair: rank for rank, pair in enumerate(order)}


def words(symbols: Sequence[str], longest: int) -> Iterator[tuple[str, ...]]:
    """All words up to a length."""
    for length in range(1, longest + 1):
        yield from product(symbols, repeat=length)


# --- the statements ---------------------------------------------------------------
# Each is a function of a vocabulary and the length of words to try, and returns a word that refutes it, or None.


def barrier(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """Where no token holds u directly before v, BPE on either side of u|v is independent of the other side."""
    tokens = [left + right for left, right in ranks]
    barriers = {(u, v) for u, v in product(symbols, repeat=2) if not any(u + v in token for token in tokens)}
    for word in words(symbols, longest):
        whole = bpe(word, ranks)
        for at in range(1, len(word)):
            if word[at - 1 : at + 1] in barriers and whole != bpe(word[:at], ranks) + bpe(word[at:], ranks):
                return "".join(word)
    return None


def local_validity(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """Tokens are BPE of the word that they make up if and only if each two neighbours are BPE of the two."""
    tokens = [
        *symbols,
        *(token for token in dict.fromkeys(left + right for left, right in ranks) if bpe(token, ranks) == [token]),
    ]
    joined = {pair: bpe(pair[0] + pair[1], ranks) == list(pair) for pair in product(tokens, repeat=2)}

    def cut(word: str) -> Iterator[list[str]]:
        if not word:
            yield []
        for token in tokens:
            if word.startswith(token):
                for rest in cut(word[len(token) :]):
                    yield [token, *rest]

    for letters in words(symbols, longest):
        word = "".join(letters)
        right = bpe(word, ranks)
        for candidate in cut(word):
            if (candidate == right) != all(joined[pair] for pair in pairwise(candidate)):
                return word
    return None


def rounds(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """Merging a round at once, for the rules that allow it, is merging one pair at a time."""
    return _refuted_rounds(ranks, symbols, longest, rules_at_once(ranks))


def rounds_of_all_rules(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """Merging a round at once is merging one pair at a time for all rules: false, a negative control."""
    return _refuted_rounds(ranks, symbols, longest, ranks)


def rounds_by_left_parts(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """It is for rules whose symbol is not the *left* part of one of less rank: false, a negative control."""
    return _refuted_rounds(ranks, symbols, longest, _unused(ranks, lambda pair: pair[:1]))


def rounds_by_right_parts(ranks: Ranks, symbols: str, longest: int) -> str | None:
    """It is for rules whose symbol is not the *right* part of one of less rank: false, a negative control."""
    return _refuted_rounds(ranks, symbols, longest, _unused(ranks, lambda pair: pair[1:]))


def _unused(ranks: Ranks, parts: Callable[[Pair], Sequence[str]]) -> list[Pair]:
    """Rules whose symbol is not among the ``parts`` of a rule of less rank."""
    return [
        rule
        for rule, rank in ranks.items()
        if not any("".join(rule) in parts(other) and ranks[other] < rank for other in ranks)
    ]


def _refuted_rounds(ranks: Ranks, symbols: str, longest: int, at_once: Collection[Pair]) -> str | None:
    """A word on which the two ways of merging differ."""
    tried = (
        "".join(word)
        for word in words(symbols, longest)
        if bpe(word, ranks) != bpe_in_rounds(word, ranks, at_once)
    )
    return next(tried, None)


Statement = Callable[[Ranks, str, int], "str | None"]
STATEMENTS: tuple[Statement, ...] = (barrier, local_validity, rounds)
WRONG_STATEMENTS: tuple[Statement, ...] = (rounds_of_all_rules, rounds_by_left_parts, rounds_by_right_parts)


@dataclass(frozen=True)
class Checked:
    """``vocabularies`` tried, of which ``telling`` are not trivial, and what was refuted: (ranks, word)."""

    statement: str
    vocabularies: int
    telling: int
    refuted: tuple[Ranks, str] | None


def check(statement: Statement, vocabularies: int, seed: int = 0) -> Checked:
    """Try to refute a statement; a vocabulary is telling if not all of its rules may be applied at once."""
    source = random.Random(seed)
    telling = 0
    for number in range(vocabularies):
        symbols, longest = ("ab", 7) if number % 2 else ("abc", 5)
        ranks = random_ranks(source, symbols, source.randrange(2, 9))
        telling += len(rules_at_once(ranks)) < len(ranks)
        word = statement(ranks, symbols, longest)
        if word is not None:
            return Checked(statement.__name__, number + 1, telling, (ranks, word))
    return Checked(statement.__name__, vocabularies, telling, None)


# --- certified starts -------------------------------------------------------------

_CHARACTERS = "中\u4e2eéa"  # the first two share their first two bytes


def check_certified_starts(vocabularies: int, seed: int = 0) -> Checked:
    """Merging from the whole characters that ``toktier.bpe.symbols`` certifies = merging from bytes.

    A vocabulary is telling if for some word the certified starts are fewer symbols than its bytes.
    """
    source = random.Random(seed)
    shown = {byte: char for char, byte in byte_alphabet().items()}

    def spelled(text: str) -> list[str]:
        return [shown[byte] for byte in text.encode()]

    telling = 0
    texts = ["".join(word) for word in words(_CHARACTERS, 4)]
    for number in range(vocabularies):
        ranks = _ranks_of_bytes(source, [spelled(text) for text in texts])
        vocabulary = {char: byte for byte, char in shown.items()}
        for left, right in ranks:
            vocabulary.setdefault(left + right, len(vocabulary))
        names = {id: token for token, id in vocabulary.items()}
        first = _first_symbols(vocabulary, ranks)
        shorter = False
        for text in texts:
            symbols, _ = first.of(text.encode(), np.zeros(1, np.int64))
            start = [names[id] for id in symbols.tolist()]
            shorter |= len(start) < len(text.encode())
            if bpe(start, ranks) != bpe(spelled(text), ranks):
                return Checked("certified starts", number + 1, telling, (ranks, text))
        telling += shorter
    return Checked("certified starts", vocabularies, telling, None)


def _ranks_of_bytes(source: random.Random, spellings: Sequence[list[str]]) -> dict[Pair, int]:
    """Rules that apply somewhere: pairs of neighbours in a few words, merged at random."""
    pairs: dict[Pair, None] = {}
    for _ in range(source.randrange(2, 5)):
        word = list(source.choice(spellings))
        while len(word) > 1 and source.random() < 0.9:
            at = source.randrange(len(word) - 1)
            pairs.setdefault((word[at], word[at + 1]))
            word[at : at + 2] = [word[at] + word[at + 1]]
    order = list(pairs)
    if source.random() < 0.5:
        source.shuffle(order)
    return {pair: rank for rank, pair in enumerate(order)}


def _first_symbols(vocabulary: dict[str, int], ranks: Ranks) -> FirstSymbols:
    rules = [list(pair) for pair in sorted(ranks, key=lambda pair: ranks[pair])]
    table = merges({"vocab": vocabulary, "merges": rules})
    of_byte = np.full(256, ABSENT, np.uint32)
    for char, byte in byte_alphabet().items():
        of_byte[byte] = vocabulary[char]
    of_character, neighbours = certified_starts(token_bytes(vocabulary, True), table, of_byte)
    return FirstSymbols(of_byte, of_character, neighbours)


#: Rules, with their ranks, and a word (of the character 中, b, c) for which starting from the whole character is
#: wrong although no rule uses a *part* of it from outside: the rule that takes 中 itself ranks below its makers.
STARTS_FAIL_PARTS: tuple[tuple[tuple[str, str], ...], str] = (
    (("中", "b"), ("b", "c"), ("\xe4", "\xb8"), ("\xe4\xb8", "\xad")),
    "中bc",
)


def start_from_whole(text: str) -> tuple[list[str], list[str]]:
    """BPE of a word under :data:`STARTS_FAIL_PARTS`, from bytes and with 中 whole from the start."""
    name = {"中": "\xe4\xb8\xad"}
    ranks = {(name.get(a, a), name.get(b, b)): rank for rank, (a, b) in enumerate(STARTS_FAIL_PARTS[0])}
    by_bytes = [char for char in text.encode().decode("latin-1")]
    return bpe(by_bytes, ranks), bpe([name.get(char, char) for char in text], ranks)
