"""The relations: every pair is decided rightly, and what is left out has a witness that the reference confirms."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from certified import Staged, piece_starts, staged
from conftest import tokenizers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from toktier.certificates.relation import Relation, derive_relation
from toktier.certificates.witness import Witness, WitnessSearch, representatives
from toktier.errors import UnsupportedPatternError
from toktier.patterns.atoms import Atoms
from toktier.patterns.machine import Machine
from toktier.patterns.stages import machines_of
from toktier.patterns.syntax import parse

Boundaries = Callable[[str], Sequence[int]]
Pair = tuple[int, int]


def pairs_of(atoms: int) -> list[Pair]:
    return [(a, b) for a in range(atoms) for b in range(atoms)]


def assert_decided(
    machines: Sequence[Machine], atoms: Atoms, boundaries: Boundaries, pairs: Sequence[Pair] | None = None
) -> tuple[Relation, WitnessSearch]:
    """Every pair is in a relation and has no witness, or is not and has one that the reference confirms."""
    relation = derive_relation(machines, atoms.count)
    search = WitnessSearch(machines, representatives(atoms.of_code_point, atoms.count))
    for a, b in pairs_of(atoms.count) if pairs is None else pairs:
        for holds, find in (
            (relation.restarts, search.against_restarts),
            (relation.closes, search.against_closes),
        ):
            found = find(a, b)
            assert (found is None) == holds[a, b], (a, b, found)
            if found is not None:
                assert atoms.of_code_point[[ord(found.x[-1]), ord(found.y[0])]].tolist() == [a, b]
                assert found.other is None or found.other[0] == found.y[0]
                assert found.confirmed(boundaries), found
    assert not (relation.closes & ~relation.restarts).any()
    return relation, search


def certified(name: str) -> Staged:
    found = staged(name)
    assert not isinstance(found, str), found
    return found


#: Atoms, pairs that restart, pairs that close.
COUNTS = {
    "gpt2": (14, 87, 75),
    "qwen3": (15, 91, 87),
    "gpt-oss": (27, 258, 253),
    "deepseek-v3": (14, 150, 146),
    "deepseek_llm": (14, 171, 156),
    "bert_uncased": (3, 8, 8),
}


@pytest.mark.parametrize("name", tokenizers("gpt2", "qwen3", "deepseek-v3", "deepseek_llm", "bert_uncased"))
def test_every_pair_is_decided(name: str) -> None:
    found = certified(name)
    relation, _ = assert_decided(found.machines, found.atoms, found.boundaries)
    assert (found.atoms.count, relation.restarts.sum(), relation.closes.sum()) == COUNTS[name]


def test_some_pairs_of_many_are_decided() -> None:
    found = certified("gpt-oss")
    pairs = random.Random(0).sample(pairs_of(found.atoms.count), 60)
    relation, _ = assert_decided(found.machines, found.atoms, found.boundaries, pairs)
    assert (found.atoms.count, relation.restarts.sum(), relation.closes.sum()) == COUNTS["gpt-oss"]


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
def test_every_pair_of_every_tokenizer_is_decided(name: str) -> None:
    found = staged(name)
    if isinstance(found, str):
        pytest.skip(f"refused: {found}")
    if found.plan.barriers:
        pytest.skip("barriers: pairs of characters that tokens contain")
    assert_decided(found.machines, found.atoms, found.boundaries)


def test_the_pairs_that_everybody_cuts_at() -> None:
    """Letter|space closes under every GPT pattern; tab|letter of GPT-2's restarts and does not close."""
    for name in ("gpt2", "qwen3"):
        found = certified(name)
        relation = derive_relation(found.machines, found.atoms.count)
        atom = found.atoms.of_code_point
        assert relation.closes[atom[ord("x")], atom[ord(" ")]]
        assert not relation.restarts[atom[ord("x")], atom[ord("y")]]
    found = certified("gpt2")
    relation = derive_relation(found.machines, found.atoms.count)
    pair = found.atoms.of_code_point[ord("\t")], found.atoms.of_code_point[ord("x")]
    assert relation.restarts[pair] and not relation.closes[pair]


# --- small stages, against all short texts ------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """Stages made of patterns, which isolate their matches, and the reference's for the same patterns."""

    atoms: Atoms
    machines: tuple[Machine, ...]
    boundaries: Boundaries


def made(patterns: Sequence[str]) -> Made:
    atoms, machines = machines_of(tuple(map(parse, patterns)))
    stages = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return Made(atoms, machines, piece_starts(pre_tokenizers.Sequence(stages)))


def least_violations(made: Made, length: int) -> tuple[dict[Pair, int], dict[Pair, int]]:
    """By the definitions, over all texts of up to ``length`` characters, one for each atom, as the reference cuts
    them: the least number of characters that show that a pair does not restart, and that it does not close."""
    characters = representatives(made.atoms.of_code_point, made.atoms.count)
    restarts: dict[Pair, int] = {}
    closes: dict[Pair, int] = {}
    inside: dict[tuple[str, int], dict[frozenset[int], int]] = {}  # x, atom behind: pieces inside x -> length of y
    starts = {"": frozenset[int]()}

    def note(found: dict[Pair, int], pair: Pair, size: int) -> None:
        found[pair] = min(size, found.get(pair, size))

    for size in range(1, length + 1):
        for atoms in itertools.product(range(made.atoms.count), repeat=size):
            text = "".join(characters[atom] for atom in atoms)
            starts[text] = here = frozenset(made.boundaries(text))
            for cut in range(1, size):
                pair = atoms[cut - 1], atoms[cut]
                if cut not in here:
                    note(restarts, pair, size)
                if {p - cut for p in here if p > cut} != starts[text[cut:]] - {0}:
                    note(restarts, pair, size)
                left = frozenset(p for p in here if p < cut)
                if left != starts[text[:cut]]:
                    note(closes, pair, size)
                known = inside.setdefault((text[:cut], pair[1]), {})
                for other, its_size in known.items():
                    if other != left:
                        note(restarts, pair, size + its_size)
                known.setdefault(left, size - cut)
    for pair, least in restarts.items():
        note(closes, pair, least)
    return restarts, closes


def assert_is_least(found: Witness | None, least: int | None, length: int) -> None:
    """No text of up to ``length`` characters shows more than the witness does, or the same with fewer."""
    size = None if found is None else len(found.x + found.y + (found.other or ""))
    if (size is not None and size <= length) or (least is not None and least <= length):
        assert size == least, found
    assert size is not None or least is None


def assert_as_defined(made: Made, length: int) -> None:
    _, search = assert_decided(made.machines, made.atoms, made.boundaries)
    restarts, closes = least_violations(made, length)
    for pair in pairs_of(made.atoms.count):
        assert_is_least(search.against_restarts(*pair), restarts.get(pair), length)
        assert_is_least(search.against_closes(*pair), closes.get(pair), length)


STAGES = [
    ["a+|b+"],
    [" ?a+"],
    [r"\s+(?!\S)|\s+|a"],
    ["a{1,2}b?"],
    ["a{1,3}"],
    ["ab|ba"],
    ["a+b|a"],
    ["(?:ab)+|b+a"],
    ["a(?=b)|b+"],
    ["a(?!b)|b+"],
    ["(?<=a)b+"],
    ["a+$|b"],
    ["^a|b+"],
    ["a++b|a|b"],
    [" ?a+", "b{1,2}"],
    ["b{1,2}", " ?a+| +"],
    ["ab", "b+a?"],
    ["a+(?!b)", "[ab]+b"],
    ["b", "a{2}", " a"],
    ["a", "b", "c"],
]


@pytest.mark.parametrize("patterns", STAGES, ids=" then ".join)
def test_small_stages(patterns: list[str]) -> None:
    found = made(patterns)
    assert_as_defined(found, {2: 10, 3: 7, 4: 6}[found.atoms.count])


_letters = st.sampled_from("abc")
_sets = st.one_of(_letters, st.sampled_from(["[ab]", "[^a]", "[^ab]", "[bc]"]))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["+", "?", "*", "{1,2}", "{2}", "+?", "??"])),
        st.builds("{}(?={})".format, inner, _sets),
        st.builds("{}(?!{})".format, inner, _sets),
        st.builds("(?<={}){}".format, _sets, inner),
        st.builds("(?<!{}){}".format, _sets, inner),
    )


_patterns = st.recursive(_sets, _larger, max_leaves=5)


def _made_or_not(patterns: Sequence[str]) -> Made | None:
    try:
        return made(patterns)
    except UnsupportedPatternError:
        return None


def assert_any_as_defined(patterns: Sequence[str]) -> None:
    found = _made_or_not(patterns)
    assume(found is not None)
    assert found is not None
    assert_as_defined(found, 5 if found.atoms.count > 2 else 7)


@given(st.lists(_patterns, min_size=1, max_size=3))
@settings(max_examples=12)
def test_any_small_stages(patterns: list[str]) -> None:
    assert_any_as_defined(patterns)


@pytest.mark.campaign
@given(st.lists(_patterns, min_size=1, max_size=3))
@settings(max_examples=400)
def test_very_many_small_stages(patterns: list[str]) -> None:
    assert_any_as_defined(patterns)


def test_without_stages_nothing_is_cut() -> None:
    relation = derive_relation((), 3)
    assert not relation.restarts.any() and not relation.closes.any()


def test_a_witness_can_fail() -> None:
    """Each kind is refuted by a tokenizer that behaves otherwise."""
    cut_everywhere: Boundaries = lambda text: range(len(text))  # noqa: E731
    for witness in (
        Witness("no boundary", "a", "b", None),
        Witness("right side", "a", "bc", None),
        Witness("left side", "ab", "c", "cd"),
        Witness("end of text", "ab", "c", None),
    ):
        assert not witness.confirmed(cut_everywhere)
        assert repr(witness.x + witness.y) in str(witness)


def test_representatives_are_readable() -> None:
    atom_of = np.zeros(0x110000, np.uint8)
    atom_of[ord("a") : ord("z") + 1] = 1
    atom_of[0x4E00:0x9FFF] = 2
    assert representatives(atom_of, 3) == ["!", "a", "\u4e00"]
    allowed = np.ones(0x110000, np.bool_)
    allowed[ord("!")] = False
    assert representatives(atom_of, 3, allowed) == ['"', "a", "\u4e00"]
