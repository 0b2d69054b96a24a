"""The parser, the atoms and the machine, judged by the reference's own ``Split``."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from conftest import parsed, shared_tokenizer_names, tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Regex, pre_tokenizers

from toktier.certificates.relation import derive_relation
from toktier.errors import UnsupportedPatternError
from toktier.patterns import lanes, stdlib, windows
from toktier.patterns.atoms import Atoms, atoms_of
from toktier.patterns.behaviors import pieces_of
from toktier.patterns.charsets import CODE_POINTS, DIGITS, PUNCTUATION, WHITE_SPACE, members, probe
from toktier.patterns.lanes import Splitter
from toktier.patterns.machine import derive
from toktier.patterns.syntax import Property, parse, sets_of
from toktier.pipeline import Digits, PreTokenizer, PreTokenizerSequence, Split
from toktier.pipeline import Regex as RegexPart
from toktier.pipeline import parse as parse_pipeline
from toktier.plan import GPT2_PATTERN
from toktier.registry import embedded_names


class Stages:
    """Patterns applied one after another: by the machine in lanes, by the machine alone, by ``re``.

    All with one behavior, and ``invert`` or not.
    """

    def __init__(
        self, *patterns: str, atoms: Atoms | None = None, behavior: str = "Isolated", invert: bool = False
    ) -> None:
        nodes = [pieces_of(parse(pattern), behavior, invert) for pattern in patterns]
        self.atoms = atoms or atoms_of(list(dict.fromkeys(s for node in nodes for s in sets_of(node))))
        machines = [derive(node, self.atoms) for node in nodes]
        compiled = [stdlib.compile_atoms(n, self.atoms, m.has_gaps) for n, m in zip(nodes, machines, strict=True)]
        self.ascii = [
            stdlib.compile_stand_in(n, self.atoms, m.has_gaps) for n, m in zip(nodes, machines, strict=True)
        ]
        closes = np.ones((self.atoms.count + 1, self.atoms.count + 1), np.bool_)
        closes[:-1, :-1] = derive_relation(machines, self.atoms.count).closes
        self.closes = closes
        by_windows, by_lanes = [], []
        for number, (node, machine, pattern) in enumerate(zip(nodes, machines, compiled, strict=True)):
            alone = derive_relation([machine], self.atoms.count)
            pairs = windows.closing_symbols(alone.closes, number > 0)
            table = windows.make_windows(machine, number > 0, pairs)
            needs = stdlib.first_atoms(node, self.atoms)
            needs = None if needs is None else needs.tolist()
            by_windows.append(lanes.make_stage(machine, pattern, pairs, table, needs))
            by_lanes.append(lanes.make_stage(machine, pattern, pairs, None, None))
        self.splitter = Splitter(tuple(by_windows), self.atoms.count)
        self.lanes_only = Splitter(tuple(by_lanes), self.atoms.count)
        name = re.sub("(?<!^)(?=[A-Z])", "_", behavior).lower()
        self.judges = [pre_tokenizers.Split(Regex(pattern), name, invert) for pattern in patterns]

    def read(self, text: str) -> NDArray[np.uint8]:
        return self.atoms.of_code_point.take(np.frombuffer(text.encode("utf-32-le"), np.uint32))

    def in_lanes(self, text: str) -> list[str]:
        """By windows and lanes, and by lanes alone, which must agree."""
        found = self.splitter.piece_starts(self.read(text))
        np.testing.assert_array_equal(found, self.lanes_only.piece_starts(self.read(text)))
        return _cut(text, np.flatnonzero(found).tolist())

    def alone(self, text: str) -> list[str]:
        return _cut(text, np.flatnonzero(self.splitter.run_alone(self.read(text))).tolist()) if text else []

    def by_ascii(self, text: str) -> list[str]:
        pieces = [text] if text else []
        for pattern in self.ascii:
            pieces = [found for piece in pieces for found in pattern.findall(piece)]
        return pieces

    def right(self, text: str) -> list[str]:
        pieces = [text] if text else []
        for judge in self.judges:
            pieces = [found for piece in pieces for found, _ in judge.pre_tokenize_str(piece) if found]
        return pieces

    def assert_right(self, text: str) -> list[str]:
        right = self.right(text)
        assert self.in_lanes(text) == right, repr(text)
        assert self.alone(text) == right, repr(text)
        if text.isascii():
            assert self.by_ascii(text) == right, repr(text)
        return right

    def assert_all_right(self, texts: Sequence[str]) -> None:
        """The same for many short texts; in lanes they stand in one array, and one in eight alone as well."""
        end = np.array([self.splitter.end], np.uint8)
        joined = np.concatenate([codes for text in texts for codes in (self.read(text), end)])
        inside = joined != end
        found = self.splitter.piece_starts(joined) & inside
        np.testing.assert_array_equal(found, self.lanes_only.piece_starts(joined) & inside)
        at = 0
        for number, text in enumerate(texts):
            right = self.right(text) if number % 8 else self.assert_right(text)
            assert _cut(text, np.flatnonzero(found[at : at + len(text)]).tolist()) == right, repr(text)
            at += len(text) + 1
            assert self.alone(text) == right, repr(text)
            if text.isascii():
                assert self.by_ascii(text) == right, repr(text)


def _cut(text: str, starts: list[int]) -> list[str]:
    assert starts[:1] in ([0], []), "a text begins with a piece"
    return [text[a:b] for a, b in pairwise([*starts, len(text)])]


@pytest.mark.parametrize("step", [1, -1])
def test_the_nearest_flag(step: int) -> None:
    """One at a time where it is near, by search where it is not."""
    random = np.random.default_rng(0)
    for share in (0.5, 0.05, 0.005):
        flags = random.random(2000) < share
        flags[[0, -1]] = True
        places = np.sort(random.integers(0, 2000, 300))
        right = [
            next(p for p in range(start, 2000 if step > 0 else -1, step) if flags[p]) for start in places.tolist()
        ]
        assert lanes._nearest(flags, places, step).tolist() == right
    assert lanes._nearest(flags, places[:0], step).tolist() == []


# --- patterns in use --------------------------------------------------------------------


def _splits(stage: PreTokenizer | None) -> Iterator[str]:
    match stage:
        case PreTokenizerSequence(stages):
            for inner in stages:
                yield from _splits(inner)
        case Split(RegexPart(source), _, _):
            yield source
        case Digits(individual):
            yield r"\d" if individual else r"\d+"  # near enough: what a digit is, is tested apart


@cache
def patterns_of(name: str) -> tuple[str, ...]:
    """The patterns that a tokenizer applies one after another."""
    small = {**parsed(name), "model": {"type": "BPE"}}
    return tuple(_splits(parse_pipeline(small).pre_tokenizer)) or (GPT2_PATTERN,)


@cache
def derived(*patterns: str) -> Stages:
    return Stages(*patterns)


# Those with pre-tokenizers of their own; the others on this list are left to the long run.
_QUICK = (*embedded_names(), "deepseek_llm", "kimi_k2")
_OTHERS = ("cl100k", "deepseek_coder", "mistral_tekken_240911", "qwen3_5", "starcoder")


@pytest.fixture(
    params=[
        *tokenizers(*_QUICK),
        *(pytest.param(*p.values, marks=[*p.marks, pytest.mark.campaign]) for p in tokenizers(*_OTHERS)),
    ]
)
def stages(request: pytest.FixtureRequest) -> Stages:
    """The pre-tokenizer of each tokenizer in turn."""
    return derived(*patterns_of(request.param))


def names_here() -> list[str]:
    """Tokenizers on this machine that have a pre-tokenizer of their own."""
    return [name for name in (*_QUICK, *_OTHERS) if name in {*embedded_names(), *shared_tokenizer_names()}]


def _representatives(atoms: Atoms) -> list[str]:
    firsts = [int(np.flatnonzero(atoms.of_code_point == a)[0]) for a in range(atoms.count)]
    return list(map(chr, firsts))


def test_all_short_strings_of_atoms(stages: Stages) -> None:
    """Every pair and a share of the triples and longer ones, one character standing for each atom."""
    alphabet = _representatives(stages.atoms)
    random_ = random.Random(0)
    texts = ["", *alphabet, *map("".join, product(alphabet, repeat=2))]
    triples = list(map("".join, product(alphabet, repeat=3)))
    texts += triples if len(triples) < 300 else random_.sample(triples, 300)
    texts += ["".join(random_.choices(alphabet, k=random_.randrange(4, 9))) for _ in range(200)]
    stages.assert_all_right(texts)


def test_any_member_of_an_atom_will_do(stages: Stages) -> None:
    """Random members of the atoms rather than representatives: the atoms are as fine as they must be."""
    random_ = random.Random(1)
    members_of = [np.flatnonzero(stages.atoms.of_code_point == a) for a in range(stages.atoms.count)]
    members_of = [m[(m < 0xD800) | (m >= 0xE000)] for m in members_of]
    texts = []
    for _ in range(300):
        chosen = [random_.choice(members_of) for _ in range(random_.randrange(1, 10))]
        texts.append("".join(chr(int(random_.choice(m))) for m in chosen))
    stages.assert_all_right(texts)


def test_closing_pairs_cut_safely(stages: Stages) -> None:
    alphabet = _representatives(stages.atoms)
    pairs = np.argwhere(stages.closes[:-1, :-1]).tolist()
    assert pairs, "nowhere may a text be cut"
    random_ = random.Random(2)
    for a, b in random_.sample(pairs, min(len(pairs), 250)):
        for _ in range(3):
            left = "".join(random_.choices(alphabet, k=random_.randrange(0, 5))) + alphabet[a]
            right = alphabet[b] + "".join(random_.choices(alphabet, k=random_.randrange(0, 5)))
            whole = stages.right(left + right)
            assert whole == stages.right(left) + stages.right(right), (left, right)


def test_lanes_agree_with_one_lane(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    alphabet = _representatives(stages.atoms)
    random_ = random.Random(3)
    for length in (1, 2, 159, 160, 161, 319, 320, 321, 2_000, 20_000):
        text = "".join(random_.choices(alphabet, k=length))
        right = stages.right(text)
        assert stages.in_lanes(text) == right
        assert stages.alone(text) == right
        for name, value in (("_MOST_LANES", 7), ("_LONGEST_LANE", 9), ("_STEPS", 4), ("_BLOCK", 64)):
            monkeypatch.setattr(lanes, name, value)
        assert stages.in_lanes(text) == right
        monkeypatch.undo()


def test_long_runs_among_short_ones(stages: Stages) -> None:
    random_ = random.Random(4)
    alphabet = _representatives(stages.atoms)
    parts = []
    for char in alphabet:
        parts += [char * random_.choice((4_095, 4_096, 4_097, 300)), "".join(random_.choices(alphabet, k=200))]
    stages.assert_right("".join(parts))


def test_added_tokens_end_a_text() -> None:
    """The end atom: what stands on either side is cut as a text of its own."""
    random_ = random.Random(5)
    for patterns in (patterns_of("deepseek-v3"), (r"\d",), (r"\d", "b+"), (r"a\s",), (r"\s+$", "[a-c]+")):
        stages = derived(*patterns)
        alphabet = ["a", "b", "1", " ", "\n", "'", "s", "!", "\u4e2d", "\U0001f600"]
        for length in (1, 2, 3, 5, 40, 700):
            for _ in range(12):
                texts = ["".join(random_.choices(alphabet, k=random_.randrange(0, length + 1))) for _ in range(4)]
                codes: list[NDArray[np.uint8]] = []
                right: list[int] = []
                at = 0
                end = np.full(random_.randrange(1, 4), stages.splitter.end, np.uint8)
                for text in texts:
                    codes += (stages.read(text), end)
                    pieces = stages.right(text)
                    right += (np.cumsum([0, *map(len, pieces)])[:-1] + at).tolist()
                    at += len(text) + len(end)
                atoms = np.concatenate(codes)
                for found in (stages.splitter.piece_starts(atoms), stages.splitter.run_alone(atoms)):
                    found = found & (atoms != stages.splitter.end)
                    assert np.flatnonzero(found).tolist() == right, (patterns, texts)


# --- patterns that nobody uses (yet) ------------------------------------------------------

BEYOND = (
    *("a|ab", "ab|a", "a|ab|abc", "(?:a|ab)(?:c|bcd)", "(?:a|b)+?c", "a+?b", "a*?b", "a??b", "a{2,3}", "a{2,3}?b"),
    *("a{2,}b?", "(?:ab){2,4}", "(?:ab|a){1,3}b", "a(?=b)", "a(?!b)", "a+(?!b)", "(?=a)[ab]+", "(?!b)[abc]", "a$"),
    *("a+$|b", r"\s+$", r"\n$|a", "b$|a", "(?:(?:a|b)c)+|d", "(a(b(c)?)?)+", "a(?:|b)c", "(?:b|)a"),
    *("[^a]", "[^a]+a", ".", ".+", "a.b", ".*?b", "[a-c&&[^b]]+", "[[ab]&&[bc]]|a", "[^a&&b]", "[a&&]b|a", r"\h+"),
    *(r"\W", "(?i:a)b", "(?i:ab)+c", "(?i:k)", r"\x61+", r"\u0062|c", r"\x{63}", "[]a]", "[^]a]", "[a-]b"),
    *("a{,b", "a{x", "}", "x{2", "]", "(?:a?)?b", "(?:a?b|c)?c", "a{1}b{2}", r"\S\s\S", r"\p{^L}+", r"\P{L}+a"),
    *(r"\p{Lu}\p{Ll}+", r"\H+a", "(?=ab)a|b", "(?!ab)[a-c]", "(?!a|b)[a-d]", "a(?=b*c)b?", "(?!(?!ab)a)[ab]"),
    *("a++a|b", "a++b", "ba*+a|c", "ba*+c", "a?+a", "a?+ab", "(?:ab|a)++b", "(?:a|ab)++c", "a{2,3}+b", "a{2}+|b"),
    *("(?>a+)a|b", "(?>a|ab)c|b", "(?>ab|a)b", "(?>a+?)b", "(?>a??)b", "(?>(?>a|ab)c|a)b", "(?>a(?=b)|ab)c"),
    *("(?:(?>a|ab)c?)+b", "(?>(?:a|b)+c|a)b?", "(?!(?>a|ab)c)[abc]", "(?>a++|ab)c|a"),
    *("(?<=a)b", "(?<!a)b", "(?<=b)b", "(?<=[ab])c+", "(?<!c)[abc]+?", r"(?<=\s)a|b(?<=b)", "(?<![^a])b"),
    *("^a", "^[ab]+|c", "\n^", "\n^a?", "a^", "(?:^a|b)+", r"\Aa|b", r"[ab]\z", r"a\Z|b", r"\Z\n"),
    *("a(?<=b)", r"(?!^)a", r"(?=\Z)[\n]|a", r"a(?=\z)", "(?<=a)b|(?<=b)c"),
    *(r"a\b|b", r"\b[ab]", r"a+\B", r"\Ba|b\b", r"\w+\b\s?", r"\d{1,3}(?=(?:\d{3})*\b)"),
    *(r"[[:alpha:]]+[[:^space:]-]", "[[:upper:][:digit:]]+|b", "[^[:punct:]a]+", "[[:word:]&&[^b]]+"),
    *("(?>(?<=a)b|bc?)c", "(?<=a)(?<!b)(?<![c])d", "(?=a)", "$", "", r"(?<=a)(?=b+c)|\b", "(?>(?=a)|(?!b))"),
    *("(?i:[ad])b+|c", "[^c](?i:d|[das]+)c"),
)  # fmt: skip


@pytest.mark.parametrize("pattern", BEYOND)
def test_patterns_beyond_the_field(pattern: str) -> None:
    stages = Stages(pattern)
    alphabet = "abcd\n A]-{x1\u00bd"
    random_ = random.Random(pattern)
    texts = [*alphabet, *map("".join, product("abc\n", repeat=3))]
    texts += ["".join(random_.choices(alphabet, k=random_.randrange(1, 12))) for _ in range(150)]
    texts += ["".join(random_.choices("abc \n", k=400)), "\u212a\u017f\u4e2dKkE\u0301é" * 3]
    stages.assert_all_right(texts)


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("behavior", ["Contiguous", "MergedWithPrevious", "MergedWithNext"])
@pytest.mark.parametrize("pattern", ["a", "ab?|c", "a+(?!b)", "(?<=a)b|c", "^[ab]", "(?>a|ab)c|b", GPT2_PATTERN])
def test_behaviors(pattern: str, behavior: str, invert: bool) -> None:
    stages = Stages(pattern, behavior=behavior, invert=invert)
    random_ = random.Random(pattern)
    texts = ["", *map("".join, product("abc\n", repeat=3))]
    texts += ["".join(random_.choices("abc \n1'", k=random_.randrange(4, 40))) for _ in range(50)]
    stages.assert_all_right(texts)


_ATOMS = (
    *("a", "b", "c", "[ab]", "[^a]", ".", r"\n", r"\s", "[b-d]", r"\d", "[a-c&&[^b]]", "(?i:a)", r"\w"),
    "[[:alpha:]]",
)
_QUANTIFIERS = (
    "",
    "",
    "",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{1,2}",
    "{0,2}?",
    "{2,}",
    "*+",
    "++",
    "?+",
    "{1,2}+",
)
_ASSERTIONS = (
    *("(?=a)", "(?!b)", r"(?!\s)", "$", r"(?=[bc])", r"(?![^a])", "(?=ab|c)", "(?!b+c)"),
    *("^", r"\A", r"\z", r"\Z", "(?<=a)", "(?<![ab])", r"(?<=\n)", r"\b", r"\B"),
)


def random_pattern(random_: random.Random, depth: int) -> str:
    branches = []
    for _ in range(random_.choice((1, 1, 2, 3))):
        parts = []
        for _ in range(random_.randrange(1, 4)):
            kind = random_.random()
            if depth and kind < 0.3:
                item = random_.choice(("(?:{})", "({})", "(?>{})")).format(random_pattern(random_, depth - 1))
                parts.append(item + random_.choice(_QUANTIFIERS))
            elif depth and kind < 0.35:
                parts.append(random_.choice(("(?={})", "(?!{})")).format(random_pattern(random_, depth - 1)))
            elif kind < 0.45:
                parts.append(random_.choice(_ASSERTIONS))
            else:
                parts.append(random_.choice(_ATOMS) + random_.choice(_QUANTIFIERS))
        branches.append("".join(parts))
    return "|".join(branches)


def fuzz(seed: int, wanted: int, depth: int) -> None:
    """Random patterns, one to three in a row, against the reference's ``Split``."""
    random_ = random.Random(seed)
    alphabet = "abcd \n1A"
    sources = (*_ATOMS, *(f"x{assertion}" for assertion in _ASSERTIONS))
    atoms = atoms_of(list(dict.fromkeys(s for p in sources for s in sets_of(parse(p)))))  # as fine as any needs
    tried = 0
    while tried < wanted:
        patterns = tuple(random_pattern(random_, depth) for _ in range(random_.choice((1, 1, 2, 3))))
        behavior = random_.choice(("Isolated", "Isolated", "Contiguous", "MergedWithPrevious", "MergedWithNext"))
        invert = random_.random() < 0.5
        try:
            stages = Stages(*patterns, atoms=atoms, behavior=behavior, invert=invert)
        except UnsupportedPatternError:
            continue  # it can match nothing, most often
        except Exception as problem:  # the binding raises a bare one
            assert "Oniguruma" in str(problem)
            continue
        tried += 1
        texts = ["".join(random_.choices(alphabet, k=random_.randrange(1, 14))) for _ in range(25)]
        texts.append("".join(random_.choices(alphabet, k=40)))
        for text in texts:
            try:
                right = stages.right(text)
            except BaseException as problem:  # the binding panics
                if "retry-limit" not in str(problem):
                    raise
                break  # the engine gives up on a pattern that takes exponential time
            assert stages.in_lanes(text) == right, (patterns, text)
            assert stages.alone(text) == right, (patterns, text)
            assert stages.by_ascii(text) == right, (patterns, text)
            codes = stages.read(text)
            closing = np.flatnonzero(stages.closes[codes[:-1], codes[1:]])
            for before in closing[:: max(1, len(closing) // 6)].tolist():
                left, rest = text[: before + 1], text[before + 1 :]
                assert stages.right(left) + stages.right(rest) == right, (patterns, left, rest)


def test_random_patterns() -> None:
    fuzz(seed=1, wanted=40, depth=2)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 120))
def test_random_patterns_campaign(seed: int) -> None:
    fuzz(seed, wanted=1_000, depth=1 + seed % 2)


@pytest.mark.campaign
def test_over_a_hundred_atoms() -> None:
    """Atoms and their twins before a cut of an earlier stage share a byte."""
    letters = [chr(0x4E00 + i) for i in range(120)]
    for a, b, c, d in (letters[:4],):
        stages = Stages(r"\d", "|".join([f"{a}{b}?", f"{c}{d}?", *letters]))
        for text in (f"{a}{b}1{c}{d}1", f"{a}{b}", f"1{a}{b}{a}1{b}1{d}{c}{d}1", "".join(letters) + "1"):
            stages.assert_right(text)
    with pytest.raises(UnsupportedPatternError, match="atoms"):
        Stages("|".join(chr(0x4E00 + i) for i in range(128)))


# --- the parser ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        (r"a\G", 1),
        (r"a\K", 1),
        (r"a\1", 1),
        (r"(a)\k<x>", 3),
        ("a(?<=bc)", 1),
        ("a(?<!b|)", 1),
        ("a(?<=^)", 1),
        ("a(?<n>b)", 1),
        ("(?x: a)", 0),
        ("(?m:a)", 0),
        ("a+++", 3),
        ("a++?", 3),
        ("a{2}?", 1),
        ("a{2,3}++", 7),
        ("a**", 2),
        ("a{2}{3}", 4),
        ("a{3,2}", 1),
        ("a{0}b", 1),
        ("ab{,3}", 2),
        ("*a", 0),
        ("a|+", 2),
        ("(?=a)*b", 5),
        ("(?<!a)+b", 6),
        ("$*a", 1),
        (r"\A?a", 2),
        ("a^+", 2),
        ("x[a", 1),
        ("[[:alphabet:]]", 1),
        ("[[:alpha]]", 1),
        (r"a\b?", 3),
        ("[z-a]", 1),
        (r"[a-\d]", 1),
        ("(ab", 0),
        ("ab)", 2),
        (r"\pL", 0),
        (r"\xff", 0),
        (r"\u12", 0),
        (r"\x{110000}", 0),
        (r"a\R", 1),
        (r"a\X", 1),
        ("(?i:(a))", 4),
        ("(?i:[a])", 4),
        ("(?i:[aA]b)", 4),
        ("(?i:[a-c])", 4),
        ("(?i:[^ab])", 4),
        ("(?i:[ab", 4),
        ("(?i:ss)", 5),
        ("(?i:st)", 5),
        ("(?i:\u00df)", 4),
        (r"(?i:\x73)", 4),
        ("(?i:s{1}t)", 5),
        ("a\\", 1),
        ("(?=a*b).+", 7),
        ("(?:(?=a*b)c?).*", 13),
        (r"x(?=(?:ab)+|c)\b.++", 16),
        (r"\b.*a", 2),
        (r"$.*\n", 1),
        (r"(?=\s).+b", 6),
        (r"(?:a|\Bc?)(?:b?.*a)", 10),
    ],
)
def test_refused_with_position(pattern: str, position: int) -> None:
    with pytest.raises(UnsupportedPatternError) as caught:
        parse(pattern)
    assert caught.value.position == position, str(caught.value)
    assert f"position {position} " in str(caught.value)


@pytest.mark.parametrize(
    "pattern", ["a*", "a?", "(?=a)b?", "a*|b", "(?:a|)", "a{0,3}", "a|", "b*?", r"\A\z|a", "^|a"]
)
def test_a_match_of_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPatternError, match="empty"):
        Stages(pattern)


@pytest.mark.parametrize(
    "pattern", ["(?:a*)*b", "(?:a|b?)+c", "(?:(?=a))*a", "(?:a?){2,}b", "(?:a?){2}b", "(?:(?=a)|b){1,2}c"]
)
def test_an_empty_repeat_is_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPatternError):
        Stages(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "a{1000}",
        "(?:a{30}){30}",
        "[" * 3_000 + "a" + "]" * 3_000,
        "(" * 100 + "a" + ")" * 100,
        "[ab]{12}a",
        "(" * 3_000 + "a" + ")" * 3_000,
    ],
)
def test_too_large_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedPatternError):
        Stages(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i:\x53)",
        r"(?i:\u0073t)",
        r"(?i:a\x{62})",
        "(?i:\u00e9)",
        "(?i:\u017f)",
        r"(?i:\.)",
        "(?i:'s)",
        "(?i:s)(?i:t)",
        "s(?i:s)",
        "(?i:s+t)",
        "(?i:s{1}t)",
        "(?i:s{2})",
        r"(?i:\p{Lu})",
        "x?(?i:[st]t|[sk9])",
        "(?i:s[st]++)",
        "'(?i:[sdmt]|ll|ve|re)",
    ],
)
def test_ignored_case(pattern: str) -> None:
    """Taken as the engine takes it, or refused."""
    try:
        stages = Stages(pattern)
    except UnsupportedPatternError:
        return
    for text in ("sS\u017f.'S", "ststT\ufb06", "abAB", "\u00e9\u00c9e", "x.'\u017f", "S" * 4, "'LL\u212akK9'S"):
        stages.assert_right(f"x{text}y")


# --- character sets ---------------------------------------------------------------------------


@cache
def sources_in_use() -> tuple[str, ...]:
    """The bracket expressions and escapes of all patterns, as written."""
    return tuple(dict.fromkeys(s for name in names_here() for p in patterns_of(name) for s in _sources(p)))


def _assert_members(source: str, codes: NDArray[np.int64]) -> None:
    (expression,) = sets_of(parse(source))
    codes = codes[(codes < 0xD800) | (codes >= 0xE000)]
    wrong = codes[members(expression)[codes] != _members_by_split(source, codes)]
    assert not len(wrong), f"{source}: {list(map(hex, wrong[:9].tolist()))}"


def test_sets_of_real_patterns_hold_what_the_engine_says() -> None:
    """Shown to the engine: the code points beside which the set begins or ends, and others."""
    assert len(sources_in_use()) > 10
    others = np.random.default_rng(7).integers(0, CODE_POINTS, 2_000)
    for source in sources_in_use():
        (expression,) = sets_of(parse(source))
        edges = np.flatnonzero(np.diff(members(expression)))
        _assert_members(source, np.unique(np.concatenate((edges, edges + 1, others, np.arange(0x3000)))))


@pytest.mark.parametrize(
    "source",
    [r"\w", r"\W", r"\p{Word}", r"[\w]", r"[^\w\s]", r"[\W]", r"[a[^\w]]", r"[\p{W_o rd}]", r"[^\P{^word}-]"],
)
def test_words_are_others_in_a_class(source: str) -> None:
    """Six characters of Latin-1, such as U+00BD, are words to the engine by themselves but not in brackets."""
    _assert_members(source, np.arange(0x400))


@pytest.mark.campaign
def test_sets_of_real_patterns_in_full() -> None:
    for source in sources_in_use():
        _assert_members(source, np.arange(CODE_POINTS))


def _sources(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        if pattern[at] == "[":
            depth, end = 0, at
            while True:
                if pattern[end] == "\\":
                    end += 1
                elif pattern[end] == "[":
                    depth += 1
                elif pattern[end] == "]":
                    depth -= 1
                end += 1
                if depth == 0:
                    break
        elif pattern[at] == "\\":
            end = pattern.index("}", at) + 1 if pattern[at + 1] in "pP" else at + 2
        else:
            at += 1
            continue
        yield pattern[at:end]
        at = end


def _members_by_split(source: str, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Another way to ask than the one that :func:`probe` takes: what ``Split`` removes."""
    judge = pre_tokenizers.Split(Regex(source), "removed")
    inside = np.ones(len(codes), np.bool_)
    for first in range(0, len(codes), 512):
        for _, (start, stop) in judge.pre_tokenize_str("".join(map(chr, codes[first : first + 512].tolist()))):
            inside[first + start : first + stop] = False
    return inside


def test_digits_are_rust_numbers() -> None:
    digits = pre_tokenizers.Digits(individual_digits=True)
    inside = probe(DIGITS)
    random_ = random.Random(6)
    sample = [int(c) for c in np.flatnonzero(inside)] + random_.sample(range(0xD800), 2_000)
    for code in sample:
        assert (len(digits.pre_tokenize_str(f"a{chr(code)}b")) == 3) == inside[code], hex(code)
    assert np.array_equal(members(Property(DIGITS)), inside)


@pytest.mark.parametrize(("source", "kept"), [(WHITE_SPACE, 2), (PUNCTUATION, 3)])
def test_sets_of_bert(source: str, kept: int) -> None:
    """White space between two letters is removed, punctuation is a piece."""
    inside, space = probe(source), members(Property(WHITE_SPACE))
    sample = [*np.flatnonzero(inside).tolist(), *random.Random(8).sample(range(0xD800), 1_500)]
    for code in sample:
        pieces = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(f"a{chr(code)}b")
        assert (len(pieces) == kept) == inside[code], hex(code)
        if source == WHITE_SPACE:
            assert (len(pre_tokenizers.WhitespaceSplit().pre_tokenize_str(f"a{chr(code)}b")) == 2) == space[code]
    assert np.array_equal(members(Property(source)), inside)


@settings(max_examples=30)
@given(st.lists(st.sampled_from(_ATOMS), min_size=1, max_size=6))
def test_atoms_are_the_coarsest_division(sources: list[str]) -> None:
    sets = list(dict.fromkeys(sets_of(parse("".join(sources)))))
    atoms = atoms_of(sets)
    columns = {tuple(column) for column in atoms.member.T.tolist()}
    assert len(columns) == atoms.count, "two atoms that no set tells apart"
    for number, expression in enumerate(sets):
        inside = members(expression)
        inside[0xD800:0xE000] = inside[0xE000]
        assert np.array_equal(atoms.member[number][atoms.of_code_point], inside)
