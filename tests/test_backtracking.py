"""Which patterns may take a backtracking matcher more than linear time, judged by one that counts its steps."""

from __future__ import annotations

import json
import random
from itertools import product

import pytest
import small
from test_patterns import random_pattern
from tokenizers import Regex, pre_tokenizers

from toktier.artifact import Artifact
from toktier.errors import ReferenceFailedError, UnsupportedPatternError
from toktier.patterns.atoms import Atoms, atoms_of
from toktier.patterns.backtracking import backtracks
from toktier.patterns.machine import Builder, _Node, derive
from toktier.patterns.syntax import Node, parse, sets_of
from toktier.tokenizer import Tokenizer

_MANY = 100_000
#: What the matcher below does not know.
_OTHERS = ("(?>", "(?=", "(?!", "++", "?+", "*+", r"\b", r"\B", "^", "$", r"\Z")
_COSTLY = (
    *("(?:a+|c)+b|.", "(?:a|a)+b|.", "a*a*b|.", "(?:a|aa){30}b", "(?:a|aa){30}", r"(?:\r\n|\n|\r)+x", ".*.*b"),
    *("(?:[a-z]+ ?)+x", "(?:b(?:b*c)?)+a?", "(?:a(?=a*b))+", r"(?:\w+\s*)+;|.", "(?!a*a*b)[ab]", "(?:a+b?a)+c"),
)
_CHEAP = (
    *("(?:a|aa)+", "(?:a|aa){5}b", "a+b", r"\s+$", r"(?:\r\n|\n|\r)+", "(?:[a-z]+ )+x", r"(?:\w+-)*\w+!|."),
    *(r"\s+[a-z]+\s+b", "(?:ab)+(?:ac)+d", "(?:(?!ab).)+", "(?>a+)b", '"(?:[^"a]|a.)*"', r"(?:\d{3})+(?!\d)"),
    "a{240}",
)


def _atoms(pattern: Node) -> Atoms:
    return atoms_of(list(sets_of(pattern)))


def _steps(nodes: list[_Node], start: int, codes: list[int], end: int) -> int:
    """Nodes that a backtracking matcher goes through for one match, ``_MANY`` if there are more."""
    todo, steps = [(start, 0)], 0
    while todo and steps < _MANY:
        number, at = todo.pop()
        node, steps = nodes[number], steps + 1
        if node.kind == "match":
            break
        if node.kind == "branch":
            todo += [(successor, at) for successor in reversed(node.next)]
            continue
        place = at - 1 if node.kind == "behind" else at
        if node.atoms >> (codes[place] if 0 <= place < len(codes) else end) & 1:
            todo.append((node.next[0], at + (node.kind == "one")))
    return steps


def _grows_too_fast(pattern: Node) -> bool:
    """Whether twice as many rounds of some short word take more than three times the steps."""
    atoms = _atoms(pattern)
    builder = Builder(atoms)
    start = builder.build(pattern, 0)

    def steps(text: str) -> int:
        codes = [int(atoms.of_code_point[ord(char)]) for char in text]
        return _steps(builder.nodes, start, codes, atoms.count)

    for word, end in product([*"ab1 ", "ab", "ba", "a b", "a1"], ["", "x", "b"]):
        few = steps((word * 40)[:40] + end)
        if few > 400 and (few == _MANY or steps((word * 80)[:80] + end) > 3 * few + 400):
            return True
    return False


@pytest.mark.parametrize("pattern", _COSTLY)
def test_patterns_that_may_backtrack_without_end(pattern: str) -> None:
    assert backtracks(parse(pattern))


@pytest.mark.parametrize("pattern", _CHEAP)
def test_patterns_that_only_look_like_those(pattern: str) -> None:
    assert not backtracks(parse(pattern))


def test_random_patterns_that_are_not_refused_take_linear_time() -> None:
    _try_random_patterns(seed=1, wanted=40)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2, 12))
def test_random_patterns_that_are_not_refused_take_linear_time_campaign(seed: int) -> None:
    _try_random_patterns(seed, wanted=400)


def _try_random_patterns(seed: int, wanted: int) -> None:
    random_ = random.Random(seed)
    refused = 0
    while wanted:
        source = random_pattern(random_, 2)
        if any(group in source for group in _OTHERS):
            continue
        try:
            node = parse(source)
            derive(node, _atoms(node))
        except UnsupportedPatternError:
            continue
        if backtracks(node):
            refused += 1
            continue
        wanted -= 1
        assert not _grows_too_fast(node), source
    assert refused


def test_such_a_pattern_is_left_to_the_reference_which_gives_up() -> None:
    pattern = "(?:a+|c)+b|."
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    byte_level = small.document()["pre_tokenizer"]
    document = small.document(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level]})
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    assert "linear time" in str(tok.explain())
    assert tok.encode("aacab") == small.build(document).encode("aacab").ids
    text = "a" * 40 + "x"
    with pytest.raises(BaseException, match="retry-limit"):
        pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)
    for call in (tok.encode, tok.count, tok.encode_with_offsets, tok.session):
        with pytest.raises(ReferenceFailedError, match="retry-limit"):
            call(text)
