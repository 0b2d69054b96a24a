"""The hand-written families, judged by the reference's own pre-tokenizers."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise, product
from typing import Any

import pytest
import regex
from conftest import ROOT, parsed, tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from spec import FAMILIES, Family, classify, piece_starts, pieces
from spec.__main__ import table
from spec.family import class_of, fired, in_set
from spec.splice import (
    Token,
    Unit,
    Window,
    c1,
    c2,
    front_end,
    is_certificate,
    is_cover,
    merge,
    synchronizing_positions,
    tokenize,
)
from toktier.plan import GPT2_PATTERN

AnyFamily = Family[Any, Any]
SPEC = ROOT / "spec"

# Characters to draw from, some of them on the edges of the sets: the long s, capital sharp s, dotless and dotted
# i, title case, modifiers, ideographs, kana and what is not assigned among them, marks, numbers of three kinds,
# white space of many, format characters, a private one, a noncharacter, and emoji.
CHARACTERS = (
    "\r\n \t\v\f\x1c\x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff"
    "019²½ⅫↃ٣๕'’`!\"#.,;:?()[]{}<>=+-*/\\_^~|@$%&«»…。、・゛゠€§©"
    "aefijkxzAEFIJKXZstmdrvlSTMDRVLſẞßıİǅǆʰªºéÉяЯωΩאبक漢字一龥龦豈㐀𠀀あアーゝヿ한ᄀ"
    "\u0301\u0308\u05b0\u064b\u093e\u0e31\u3099\u20dd\ufe0f\u3040\u3097\u0378\x00\x01\x7f\xad\u200d\ue000\uffff\U0001f600\U0001f3fd"
)


@cache
def in_engine_set(expression: str, character: str) -> bool:
    """Whether the reference's engine finds the character in the set."""
    return normalizers.Replace(Regex(expression), "").normalize_str(character) == ""


@cache
def in_bert_set(expression: str, character: str) -> bool:
    """Whether BertPreTokenizer takes the character for white space or for punctuation."""
    found = len(pre_tokenizers.BertPreTokenizer().pre_tokenize_str("a" + character + "a"))
    return found == (2 if expression == dict(FAMILIES["bert"].classes)["white"] else 3)


@cache
def stages(name: str) -> Any:
    """The reference's pre-tokenizer with the family's patterns."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in FAMILIES[name].patterns])


def starts_by_reference(name: str, text: str) -> list[int]:
    return [start for _, (start, _) in stages(name).pre_tokenize_str(text)]


@cache
def by_class(name: str) -> dict[str, list[str]]:
    """The characters of each class, by the engine's sets."""
    family = FAMILIES[name]
    result: dict[str, list[str]] = {known: [] for known, _ in family.classes}
    for character in CHARACTERS:
        result[class_of(family, character, in_engine_set)].append(character)
    return result


@cache
def one_of_each(name: str) -> dict[str, str]:
    """One character of each class; those on which the two engines agree first."""
    family = FAMILIES[name]
    return {
        known: next(c for c in found if class_of(family, c) == known) for known, found in by_class(name).items()
    }


def starts_of(family: AnyFamily, classes: list[str]) -> list[int]:
    return [i for i, name in enumerate(fired(family, classes)) if name is not None]


def drawn(name: str, count: int, seed: str) -> Iterator[list[str]]:
    """Random class sequences of 1 to 16, with runs; each class likelier behind itself."""
    rng = random.Random(f"{name} {seed}")
    classes = list(by_class(name))
    for _ in range(count):
        sequence: list[str] = []
        few = rng.sample(classes, rng.randint(1, len(classes)))
        for _ in range(rng.randint(1, 16)):
            sequence.append(sequence[-1] if sequence and rng.random() < 0.3 else rng.choice(few))
        yield sequence


every_family = pytest.mark.parametrize("name", FAMILIES)


@every_family
def test_every_class_has_characters(name: str) -> None:
    assert all(by_class(name).values())
    assert [known for known, _ in FAMILIES[name].classes][-1] == "other"


@every_family
def test_piece_starts_of_all_short_texts(name: str) -> None:
    """One character per class, all texts of up to 3 or 4 characters or more, the shortest first."""
    family, one = FAMILIES[name], one_of_each(name)
    texts = (list(word) for length in range(1, 12) for word in product(one, repeat=length))
    for classes in islice(texts, 12_000):
        text = "".join(one[c] for c in classes)
        assert starts_of(family, classes) == starts_by_reference(name, text), text


def check_random_texts(name: str, count: int, seed: str) -> None:
    """Any character of each class: no boundary tells the characters of one class apart."""
    family, members, rng = FAMILIES[name], by_class(name), random.Random(f"{name} {seed}")
    for classes in drawn(name, count, seed):
        text = "".join(rng.choice(members[c]) for c in classes)
        assert starts_of(family, classes) == starts_by_reference(name, text), text


@every_family
def test_piece_starts_of_random_texts(name: str) -> None:
    check_random_texts(name, 9_000, "random")


@pytest.mark.campaign
@every_family
def test_piece_starts_of_many_random_texts(name: str) -> None:
    check_random_texts(name, 200_000, "campaign")


@every_family
def test_piece_starts_of_characters_from_all_of_unicode(name: str) -> None:
    rng = random.Random(name)
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for _ in range(120):
        alphabet = rng.sample(CHARACTERS, 6) + [chr(c) for c in rng.sample(code_points[:0x3000], 6)]
        alphabet += [chr(c) for c in rng.sample(code_points, 2)]
        text = "".join(rng.choices(alphabet, k=24))
        assert piece_starts(FAMILIES[name], text, in_engine_set) == starts_by_reference(name, text), text


def test_bert_is_the_bert_pre_tokenizer() -> None:
    """With the sets of its own functions, and the white space removed."""
    rng = random.Random(0)
    for _ in range(5_000):
        text = "".join(rng.choices(CHARACTERS, k=rng.randint(1, 16)))
        expected = [piece for piece, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)]
        assert pieces(FAMILIES["bert"], text, in_bert_set) == expected


@every_family
def test_the_regex_module_agrees_on_ascii(name: str) -> None:
    for _, expression in FAMILIES[name].classes[:-1]:
        for character in map(chr, range(128)):
            assert in_set(expression, character) == in_engine_set(expression, character), (expression, character)


@pytest.mark.parametrize(
    ("name", "tokenizer"),
    [
        pytest.param(name, *parameter.values, marks=parameter.marks)
        for name, tokenizer in [
            ("cl100k", "cl100k"),
            ("cl100k", "llama3_1"),
            ("qwen2", "qwen3"),
            ("qwen3_5", "qwen3_5"),
            ("o200k", "gpt-oss"),
            ("tekken", "mistral_tekken_240911"),
            ("deepseek", "deepseek-v3"),
        ]
        for parameter in tokenizers(tokenizer)
    ],
)
def test_patterns_are_the_tokenizers(name: str, tokenizer: str) -> None:
    stages = parsed(tokenizer)["pre_tokenizer"]["pretokenizers"]
    splits = [stage for stage in stages if stage["type"] == "Split"]
    assert tuple(split["pattern"]["Regex"] for split in splits) == FAMILIES[name].patterns


def test_r50k_is_the_pattern_of_byte_level() -> None:
    assert FAMILIES["r50k"].patterns == (GPT2_PATTERN,)


@every_family
def test_rules_name_the_alternative_that_matches(name: str) -> None:
    """Where a rule fires, its alternative is the first of its stage that matches there."""
    family, one = FAMILIES[name], one_of_each(name)
    alternative = {rule: text.rpartition("\n")[0] for rule, text in family.rules.items()}
    stages = [[a for a in alternative.values() if a and a in pattern] for pattern in family.patterns]
    compiled = {a: regex.compile(a, regex.VERSION1) for a in alternative.values()}
    seen = set()
    for classes in drawn(name, 3_000, "rules"):
        text, edges = "".join(one[c] for c in classes), block_edges(name, classes)
        for position, rule in enumerate(fired(family, classes)):
            if rule is None:
                continue
            seen.add(rule)
            end = next(edge for edge in edges if edge > position)
            # what no alternative matches, a gap, is the last stage's
            stage = next((stage for stage in stages if alternative[rule] in stage), stages[-1])
            matching = [a for a in stage if compiled[a].match(text, position, end)]
            assert (matching or [""])[0] == alternative[rule], (text, position, rule)
    assert seen == set(family.rules)


def block_edges(name: str, classes: list[str]) -> list[int]:
    """Where the text of the last stage ends: at the end, and for deepseek where the block changes."""
    ends = [len(classes)]
    if name == "deepseek":
        blocks = ["number" if c == "number" else c.startswith("cjk") for c in classes]
        ends = [i for i, (a, b) in enumerate(pairwise(blocks), start=1) if a != b] + ends
    return ends


@every_family
def test_synchronizing_pairs(name: str) -> None:
    """The definition of restarting and closing, on the reference."""
    family, members = FAMILIES[name], by_class(name)
    rng = random.Random(name)
    texts = ["".join(rng.choice(members[c]) for c in classes) for classes in drawn(name, 400, "pairs")]
    table = {(pair.a, pair.b): pair for pair in family.synchronizing}
    assert len(table) == len(family.synchronizing)
    for pair in family.synchronizing:
        for _ in range(12):
            x = rng.choice(["", *texts]) + rng.choice(members[pair.a])
            first = rng.choice(members[pair.b])
            y = first + rng.choice(["", *texts])
            p, found = len(x), starts_by_reference(name, x + y)
            assert [s for s in found if s >= p] == [p + s for s in starts_by_reference(name, y)], (pair, x, y)
            left = [s for s in found if s < p]
            assert left == [s for s in starts_by_reference(name, x + first) if s < p], (pair, x, y)
            if pair.closes:
                assert left == starts_by_reference(name, x), (pair, x, y)
        if not pair.closes:  # not for nothing: there is a text that the end would change
            candidates = [t + c + c for t in ["", *texts] for c in members[pair.a]]
            after = members[pair.b][0]
            assert any(
                [s for s in starts_by_reference(name, x + after) if s < len(x)] != starts_by_reference(name, x)
                for x in candidates
            ), pair


@every_family
def test_folds_have_few_states(name: str) -> None:
    family = FAMILIES[name]
    classes = [known for known, _ in family.classes]
    for start, step in (
        (family.before_start, family.before),
        (family.after_end, lambda state, c: family.after(c, state)),
    ):
        states, new = set(), {start}
        while new and len(states) < 100:
            states |= new
            new = {step(state, c) for state in new for c in classes} - states
        assert len(states) <= 18


def test_readme_walks_through_what_is_computed() -> None:
    readme = (SPEC / "README.md").read_text(encoding="utf-8")
    example = "it's 12345  ok\n\n"
    assert repr(example)[1:-1] in readme
    assert table(FAMILIES["cl100k"], example) in readme
    found = pieces(FAMILIES["cl100k"], example)
    assert " ".join(f"`{piece!r}`" for piece in found) in readme
    assert pieces(FAMILIES["cl100k"], "it'sx") == ["it", "'s", "x"]
    # one item of prose per character or group of characters, in order
    walked = re.findall(r"^\* ((?:`'[^`]*'`|`\"'\"`)(?: (?:`'[^`]*'`|`\"'\"`))*)", readme, re.MULTILINE)
    characters = [ast.literal_eval(quoted) for item in walked for quoted in re.findall(r"`([^`]*)`", item)]
    assert "".join(characters) == example


def test_readme_names_every_family() -> None:
    readme = (SPEC / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in readme for name in FAMILIES)


def test_spec_imports_nothing_from_the_package() -> None:
    allowed = {*sys.stdlib_module_names, "regex"}
    for file in SPEC.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed, file
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module and node.module.split(".")[0] in allowed, file


# --- the splice certificate ----------------------------------------------------


def model(kind: str, payload: str) -> list[int]:
    """A token per character, which depends on the length of the piece; one for a literal."""
    return [1_000_000] if kind == "literal" else [ord(c) * 31 + len(payload) for c in payload]


def test_front_end_and_tokens() -> None:
    front = front_end(FAMILIES["cl100k"], ["<s>", "<s><s>"])
    assert front("a b<s><s>12<s>") == [
        Unit("piece", "a", 0, 1),
        Unit("piece", " b", 1, 3),
        Unit("literal", "<s><s>", 3, 9),
        Unit("piece", "12", 9, 11),
        Unit("literal", "<s>", 11, 14),
    ]
    assert tokenize("a<s>", front, model) == [Token(97 * 31 + 1, 0, 1), Token(1_000_000, 1, 4)]
    assert front_end(FAMILIES["bert"])("a  b!") == [
        Unit("piece", "a", 0, 1),
        Unit("piece", "b", 3, 4),
        Unit("piece", "!", 4, 5),
    ]


def test_c1_refuses_a_junction_inside_a_piece() -> None:
    """The paper's figure 4: " pipe" + "line" is " pipeline"."""
    front, text = front_end(FAMILIES["cl100k"]), "a pipeline ok"
    windows, junctions = [Window(0, 8), Window(6, 13)], [0, 6, 13]
    assert is_cover(text, windows, junctions)
    assert not c1(text, junctions, front)
    assert not is_certificate(text, windows, junctions, front)
    assert merge(text, windows, junctions, front, model) != tokenize(text, front, model)


def test_c2_refuses_a_window_that_groups_digits_otherwise() -> None:
    """No unit straddles the junction, 123|456|7, but the second window groups from its own start, 345|67."""
    front, text = front_end(FAMILIES["cl100k"]), "1234567"
    windows, junctions = [Window(0, 6), Window(2, 7)], [0, 3, 7]
    assert is_cover(text, windows, junctions)
    assert c1(text, junctions, front)
    assert not c2(text, windows, junctions, front)
    assert merge(text, windows, junctions, front, model) != tokenize(text, front, model)
    # from a multiple of three on it may
    assert is_certificate(text, [Window(0, 6), Window(3, 7)], junctions, front)


def test_half_a_literal_in_a_window() -> None:
    """Outside its junctions it does no harm; but a piece that runs from inside into it is C2's to refuse."""
    front, text = front_end(FAMILIES["cl100k"], ["<|end|>"]), "a  <|end|> b"
    whole = tokenize(text, front, model)
    windows, junctions = [Window(0, 11), Window(5, 12)], [0, 10, 12]
    assert is_certificate(text, windows, junctions, front)
    assert merge(text, windows, junctions, front, model) == whole
    # "a", "  ", the literal; but the first window ends inside the literal and sees "a", " ", " <|"
    windows, junctions = [Window(0, 5), Window(1, 12)], [0, 3, 12]
    assert is_cover(text, windows, junctions)
    assert c1(text, junctions, front)
    assert not c2(text, windows, junctions, front)
    assert merge(text, windows, junctions, front, model) != whole


@pytest.mark.parametrize(
    ("windows", "junctions"),
    [
        ([], [0]),
        ([Window(0, 3), Window(2, 6)], [0, 2, 6, 6]),
        ([Window(1, 4), Window(2, 6)], [0, 3, 6]),
        ([Window(0, 4), Window(2, 5)], [0, 3, 5]),
        ([Window(0, 3), Window(3, 6)], [0, 3, 6]),
        ([Window(0, 4), Window(3, 6)], [0, 2, 6]),
        ([Window(0, 4), Window(2, 6)], [0, 4, 6]),
        ([Window(0, 4), Window(2, 6)], [1, 3, 6]),
        ([Window(0, 6), Window(0, 6), Window(0, 6)], [0, 3, 3, 6]),
    ],
)
def test_geometry(windows: list[Window], junctions: list[int]) -> None:
    assert not is_cover("ab cd ", windows, junctions)
    assert is_cover("ab cd ", [Window(0, 4), Window(2, 6)], [0, 2, 6])


@every_family
def test_junctions_at_synchronizing_pairs_make_a_certificate(name: str) -> None:
    """Whatever the windows; and then theorem A.5 holds."""
    family = FAMILIES[name]
    front, one, rng = front_end(family), one_of_each(name), random.Random(name)
    made = 0
    for classes in drawn(name, 200, "splice"):
        text = "".join(one[c] for c in classes)
        whole = tokenize(text, front, model)
        inside = synchronizing_positions(family, text)
        for count in (1, 2, 3):
            if count > len(inside):
                break
            junctions = [0, *sorted(rng.sample(inside, count)), len(text)]
            starts = [0, *(rng.randint(0, b) for b in junctions[1:-1])]
            ends = [*(rng.randint(b + 1, len(text)) for b in junctions[1:-1]), len(text)]
            windows = [Window(a, b) for a, b in zip(starts, ends, strict=True)]
            made += 1
            assert is_certificate(text, windows, junctions, front), (text, windows, junctions)
            assert merge(text, windows, junctions, front, model) == whole
    assert made > 150


def test_closing_positions_are_synchronizing_ones() -> None:
    text = "ab 12\t3"
    assert classify(FAMILIES["cl100k"], text) == [
        "letter",
        "letter",
        "space",
        "number",
        "number",
        "white",
        "number",
    ]
    assert synchronizing_positions(FAMILIES["cl100k"], text) == [2, 3, 5, 6]
    assert synchronizing_positions(FAMILIES["cl100k"], text, closing=True) == [2, 5]


def test_classes_may_be_those_of_another_engine() -> None:
    def none(expression: str, character: str) -> bool:
        return False

    assert classify(FAMILIES["cl100k"], "a 1", none) == ["other"] * 3
    assert pieces(FAMILIES["cl100k"], "a 1", none) == ["a 1"]


def test_table_from_the_command_line() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "spec", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)

    assert "| '!' | punctuation | other | None | punctuation |\n" in run("bert", "a!").stdout
    assert "choose from 'r50k', 'cl100k'" in run("no such family", "a!").stderr
    help = run("--help")
    assert help.returncode == 0
    assert re.findall(r"^  (\w+) +[A-Z].*$", help.stdout, re.MULTILINE) == list(FAMILIES)
