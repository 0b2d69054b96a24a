"""Negative controls: statements that are almost right, and that the prover must refute.

A prover that never says no proves nothing.  Each control changes one thing in a family, its relation or its
machine, in the way in which such things go wrong: an off-by-one in the grouping of digits, another library's idea
of white space, a look-ahead that is bounded.  The same checks run as for the real thing, and the reference engine
is asked whether the text that they come up with is a counterexample indeed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec import FAMILIES, Family, Synchronizing
from spec.cl100k import After, Before, cl100k, kind
from toktier.normalization import inert_table
from toktier.patterns.machine import Machine
from toktier.pipeline import Normalizer, Pipeline, UnicodeForm
from toktier.records import replace

from . import bpe, guards
from .cuts import cuts_of, shows
from .engine import engine_of
from .families import Subject, prove_equivalence, subject_of
from .sampling import compare_with_engine
from .stages import Stages
from .tables import unproved

AnyFamily = Family[Any, Any]


class Refutation(NamedTuple):
    """What refutes a control.

    ``text``: the counterexample, or a witness with `` | `` between its parts; ``confirmed``: by the engine.
    """

    text: str
    confirmed: bool


@dataclass(frozen=True)
class Control:
    """``refute`` returns None if the prover lets it pass, which is a failure of the prover."""

    name: str
    changed: str
    refute: Callable[[], Refutation | None]


# --- families with a wrong rule, fold or class -----------------------------------------


def refute_family(family: AnyFamily) -> Refutation | None:
    """Is a family, whose patterns are right, cut by its rule as the engine cuts by its patterns?"""
    subject = subject_of(family)
    text = prove_equivalence(subject).counterexample
    if text is None:
        return None
    return Refutation(text, engine_of(family.patterns).starts([text]) != [subject.starts(text)])


def _without(family: AnyFamily, name: str) -> AnyFamily:
    """A rule never fires."""

    def rule(b: Any, c: str, a: Any) -> str | None:
        found = family.rule(b, c, a)
        return None if found == name else found

    return replace(family, rule=rule)


def _class(family: AnyFamily, **sets: str) -> AnyFamily:
    """Some classes are other sets."""
    assert sets.keys() <= {name for name, _ in family.classes}
    return replace(family, classes=tuple((name, sets.get(name, source)) for name, source in family.classes))


def _grouping_by(count: int) -> AnyFamily:
    """Numbers in groups of another size."""

    def before(b: Before, c: str) -> Before:
        now = cl100k.before(b, c)
        return now._replace(length=b.length % count + 1 if b.run == "number" else 1) if c == "number" else now

    def rule(b: Before, c: str, a: After) -> str | None:
        if c == "number":
            return "numbers" if b.run != "number" or b.length == count else None
        return cl100k.rule(b, c, a)

    return replace(cl100k, before=before, rule=rule)


def _bounded_look_ahead(reach: int) -> AnyFamily:
    """A line end is only seen from at most ``reach`` characters before it."""

    def after(c: str, a: tuple[After, int]) -> tuple[After, int]:
        now = cl100k.after(c, a[0])
        distance = 0 if c == "newline" else min(a[1] + 1, reach)
        return now._replace(newline=now.newline and distance < reach), distance

    base: AnyFamily = cl100k
    return replace(base, after=after, after_end=(After(), reach), rule=lambda b, c, a: cl100k.rule(b, c, a[0]))


def _gives_back_at_the_end(b: Before, c: str, a: After) -> str | None:
    """The last white character is left over even where the text ends."""
    if c in ("space", "white") and a.run == "end" and kind(b.run) == "white" and b.run != "newline":
        return "left over"
    return cl100k.rule(b, c, a)


def _no_lone_character(b: Before, c: str, a: After) -> str | None:
    """Letters take a character along only if it is white."""
    if kind(c) == "letter" and b.run == "other":
        return "letters"
    return cl100k.rule(b, c, a)


def _no_tail(b: Before, c: str) -> Before:
    """Line ends behind an other run are a white run like any other."""
    now = cl100k.before(b, c)
    return now._replace(run="newline") if now.run == "tail" else now


def _white_one_by_one(b: str, c: str, a: None) -> str | None:
    """Each white character is thrown away by itself."""
    return "white space" if c == "white" else FAMILIES["bert"].rule(b, c, a)


FAMILY_CONTROLS: Mapping[str, tuple[str, AnyFamily]] = {
    "pairs of digits": ("digits are grouped by two", _grouping_by(2)),
    "groups of four digits": ("digits are grouped by four", _grouping_by(4)),
    "one digit a piece": ("cl100k with the rule of qwen2", replace(cl100k, rule=FAMILIES["qwen2"].rule)),
    "decimal digits only": (r"numbers are \p{Nd}, not \p{N}", _class(cl100k, number=r"\p{Nd}")),
    "no line ends": (r"the rule of \s*[\r\n]+ is left out", _without(cl100k, "line ends")),
    "line feeds only": (r"a carriage return is any white space", _class(cl100k, newline=r"\n")),
    "no tail": ("an other run leaves the line ends behind it", replace(cl100k, before=_no_tail)),
    "bounded look-ahead": ("a line end is seen from four characters away", _bounded_look_ahead(4)),
    "contractions without (?i)": ("only small letters contract", _class(cl100k, stmd="[stmd]", rv="[rv]")),
    "ASCII contractions": ("the long s, U+017F, is no s", _class(cl100k, stmd="[STMDstmd]")),
    "white space of Python": (r"\s with U+001C to U+001F, as str.isspace", _class(cl100k, white=r"[\s\x1c-\x1f]")),
    "white space given back at the end": (
        r"\s+(?!\S) keeps one character from the end of the text",
        replace(cl100k, rule=_gives_back_at_the_end),
    ),
    "letters take nothing along": ("a lone other character is a piece", replace(cl100k, rule=_no_lone_character)),
    "contractions left out": ("the rule of (?i:'s|...) is left out", _without(FAMILIES["r50k"], "contraction")),
    "GPT-2 as cl100k": ("r50k's patterns with cl100k's rule", replace(cl100k, patterns=FAMILIES["r50k"].patterns)),
    "Qwen 3.5 as Qwen 3": (
        "marks are others, not letters",
        replace(FAMILIES["qwen2"], patterns=FAMILIES["qwen3_5"].patterns),
    ),
    "Tekken as o200k": ("with contractions", replace(FAMILIES["o200k"], patterns=FAMILIES["tekken"].patterns)),
    "stages swapped": (
        "DeepSeek's first two splitters come last",
        replace(FAMILIES["deepseek"], patterns=tuple(FAMILIES["deepseek"].patterns[i] for i in (2, 0, 1))),
    ),
    "each white character a piece": (
        "bert's white space is cut like its punctuation",
        replace(FAMILIES["bert"], rule=_white_one_by_one),
    ),
}


# --- one pair too many --------------------------------------------------------------


def refute_pair(family: AnyFamily, a: str, b: str, closes: bool) -> Refutation | None:
    """A family's table with one more row."""
    more = Synchronizing(a, b, closes, "one pair too many")
    subject = subject_of(replace(family, synchronizing=(*family.synchronizing, more)))
    cuts = cuts_of(subject.stages)
    for row, witness in unproved(subject, cuts):
        texts = [subject.stages.write(part) for part in (witness.x, witness.y, witness.other)]
        confirmed = row == more and shows(engine_of(family.patterns), subject.stages, witness)
        return Refutation(" | ".join(filter(None, texts)), confirmed)
    return None


PAIR_CONTROLS: Mapping[str, tuple[str, str, str, bool]] = {
    "digits restart": ("cl100k", "number", "number", False),
    "space before letters restarts": ("cl100k", "space", "letter", False),
    "white space before numbers closes": ("cl100k", "white", "number", True),
    "punctuation before letters restarts": ("cl100k", "other", "letter", False),
    "line ends restart": ("cl100k", "newline", "newline", False),
    "tab before letters closes": ("r50k", "white", "letter", True),
    "letters restart": ("deepseek", "letter", "ascii letter", False),
    "words restart": ("bert", "other", "other", False),
}


# --- wrong machines -------------------------------------------------------------------


def refute_machines(family: AnyFamily, change: Callable[[Machine], Machine]) -> Refutation | None:
    """Machines of which the last is changed: not equal to the spec, and not to the engine."""
    subject = subject_of(family)
    *others, last = subject.stages.machines
    wrong = Stages(subject.stages.atoms, (*others, change(last)))
    text = prove_equivalence(Subject(family, wrong, subject.classes)).counterexample
    if text is None:
        return None
    engine = engine_of(family.patterns)
    found = compare_with_engine(wrong, engine, characters=50_000).counterexample
    return Refutation(text, found is not None and engine.starts([text]) == [subject.starts(text)])


def _no_first(machine: Machine) -> Machine:
    """One more walk state counts as beginning a piece."""
    return replace(machine, first=machine.first - 1)


def _blind_oracle(machine: Machine) -> Machine:
    """The oracle takes whatever comes after a character for the end of the text."""
    return replace(machine, oracle=np.broadcast_to(machine.oracle[:1], machine.oracle.shape))


def _lost_step(machine: Machine) -> Machine:
    """Two states of the walk, entered from the start, are swapped."""
    walk = machine.walk.copy()
    used = np.flatnonzero(walk[0] != walk[0, 1])
    walk[0, [1, used[0]]] = walk[0, [used[0], 1]]
    return replace(machine, walk=walk)


MACHINE_CONTROLS: Mapping[str, tuple[str, str, Callable[[Machine], Machine]]] = {
    "one state too many begins": ("qwen2", "a state inside a piece counts as a beginning", _no_first),
    "blind oracle": ("cl100k", "no look-ahead", _blind_oracle),
    "swapped steps": ("r50k", "two of the walk's first steps are swapped", _lost_step),
}


# --- wrong statements about BPE --------------------------------------------------------


def refute_statement(statement: bpe.Statement) -> Refutation | None:
    """A statement that leaves out a condition, or half of it, tried on small vocabularies."""
    found = bpe.check(statement, 500).refuted
    if found is None:
        return None
    ranks, word = found
    return Refutation(word, bpe.by_engine(word, ranks) == bpe.bpe(word, ranks))


# --- guards that are not kept ------------------------------------------------------------


def refute_guard(
    name: str, believed: Callable[[Pipeline], Pipeline], inert: guards.Inert | None = None
) -> Refutation | None:
    """The certificate of one of :data:`guards.GUARDED`, derived for another tokenizer than it is."""
    found = guards.try_cuts(guards.GUARDED[name], believed, inert).refuted
    return None if found is None else Refutation(found, True)  # the engine alone was the judge


def refute_inert(inert: NDArray[np.bool_]) -> Refutation | None:
    """A table of characters that are inert under NFC."""
    found = guards.refuted_inert("NFC", inert)
    return None if found is None else Refutation(found, True)


def _without_flag(flag: str) -> Callable[[Pipeline], Pipeline]:
    def believed(pipeline: Pipeline) -> Pipeline:
        flags: dict[str, Any] = {flag: False}
        return replace(pipeline, added_tokens=tuple(replace(token, **flags) for token in pipeline.added_tokens))

    return believed


def _no_tokens(pipeline: Pipeline) -> Pipeline:
    return replace(pipeline, added_tokens=())


def _normalizer(pipeline: Pipeline, normalizer: Normalizer | None = None) -> Pipeline:
    return replace(pipeline, normalizer=normalizer)


def _as_nfd(pipeline: Pipeline) -> Pipeline:
    """A form that does not compose."""
    return replace(pipeline, normalizer=UnicodeForm("NFD"))


def _starters() -> NDArray[np.bool_]:
    """Characters of class 0 that NFC leaves alone, whether or not they are second in a composing pair."""
    characters = map(chr, range(0x110000))
    return np.array([unicodedata.combining(c) == 0 and unicodedata.is_normalized("NFC", c) for c in characters])


def _guard_controls() -> list[Control]:
    lies: list[tuple[str, str, str, Callable[[Pipeline], Pipeline]]] = [
        ("no added tokens", "added tokens", "they are not looked for", _no_tokens),
        ("no lstrip", "added, lstrip", "the flag is not seen", _without_flag("lstrip")),
        ("no rstrip", "added, rstrip", "the flag is not seen", _without_flag("rstrip")),
        ("no single_word", "added, single_word", "the flag is not seen", _without_flag("single_word")),
        ("tokens of raw text", "added, normalized", "all are in the text", _without_flag("normalized")),
        ("marks are left in order", "NFD", "characters are not normalized", _normalizer),
        ("capitals stay", "Lowercase", "characters are not normalized", _normalizer),
        ("white space stays", "Strip", "ends of texts are not stripped", _normalizer),
        ("what is replaced is cut", "Replace", "a match may be cut", _normalizer),
        ("no prefix", "Prepend", "there is none behind a token", _normalizer),
        ("BERT's text stays", "BertNormalizer", "it pads and drops nothing", _normalizer),
    ]
    return [
        *(
            Control(name, f"{guarded}: {changed}", partial(refute_guard, guarded, lie))
            for name, guarded, changed, lie in lies
        ),
        Control(
            "nothing composes",
            "NFC: an inert character stays what it is whatever is behind it",
            lambda: refute_guard("NFC", _as_nfd, {"NFD": inert_table("NFC")}),
        ),
        Control("starters are inert", "NFC: all that it leaves alone are", lambda: refute_inert(_starters())),
    ]


def controls() -> Sequence[Control]:
    """All of them."""
    families = [
        Control(name, changed, lambda family=family: refute_family(family))  # type: ignore[misc]
        for name, (changed, family) in FAMILY_CONTROLS.items()
    ]
    pairs = [
        Control(name, f"{family}: {a}|{b} {'closes' if closes else 'restarts'}", _pair(family, a, b, closes))
        for name, (family, a, b, closes) in PAIR_CONTROLS.items()
    ]
    machines = [
        Control(name, f"{family}: {changed}", _machines(family, change))
        for name, (family, changed, change) in MACHINE_CONTROLS.items()
    ]
    statements = [
        Control(statement.__name__, f"BPE: {statement.__doc__}", partial(refute_statement, statement))
        for statement in bpe.WRONG_STATEMENTS
    ]
    return [*families, *pairs, *machines, *statements, *_guard_controls()]


def _pair(family: str, a: str, b: str, closes: bool) -> Callable[[], Refutation | None]:
    return lambda: refute_pair(FAMILIES[family], a, b, closes)


def _machines(family: str, change: Callable[[Machine], Machine]) -> Callable[[], Refutation | None]:
    return lambda: refute_machines(FAMILIES[family], change)
