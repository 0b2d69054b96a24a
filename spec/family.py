"""A pre-tokenizer as a run decomposition: classes, two folds, one local rule.

The reference applies its regexes from left to right: each match begins where
the last one ended, so nothing can be said of the middle of a text before its
beginning is done.  The paper (section 4.1) observes that the patterns in use
need no such chain.  Sort the characters into a few *classes*; call a longest
stretch of one kind a *run*; then whether a character begins a piece depends on

* what stands before it, as far as a *left fold* of finite state remembers it
  (which run, how far into it, a contraction just spelled out),
* its own class,
* what stands after it, as far as a *right fold* of finite state remembers it
  (does a line end follow in this run of white space, does the text end, ...).

A :class:`Family` is these three, with a name for each regex alternative by
which a piece can begin.  Finite state is what makes the definition provable: two
automata beside the two of the regex, and all reachable combinations can be
looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Generic, TypeAlias, TypeVar

import regex

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)

#: ``members(expression, character)``: is the character in the set that the expression stands for?
Members: TypeAlias = Callable[[str, str], bool]


@dataclass(frozen=True)
class Synchronizing:
    """A pair of classes between which a text may be cut (the paper's synchronizing boundary).

    Let ``x`` be any text that ends in class ``a``, and ``y`` any text that begins with class ``b``.  The
    pair *restarts*: a piece of ``xy`` begins with ``y``; the pieces of ``y`` in ``xy`` are those of ``y``
    alone; and those of ``x`` in ``xy`` depend on ``y`` through ``b`` only.  If the pair *closes*, they are
    those of ``x`` alone.
    """

    a: str
    b: str
    closes: bool
    because: str


@dataclass(frozen=True)
class Family(Generic[L, R]):
    """One kind of pre-tokenizer.

    Attributes:
        name: what it is called here.
        patterns: the regexes that it stands for, one per stage, as ``tokenizer.json`` has them.
        classes: (class, set expression in the engine's regex syntax).  The first set that a character is
            in gives its class; the last entry is ``("other", "")``, everything else.  No two characters of
            a class can be told apart by the boundaries that the patterns make.
        before: the left fold: ``before(state, class of the next character)``.
        before_start: its state at the start of a text.
        after: the right fold: ``after(class of the previous character, state)``.
        after_end: its state at the end of a text.
        rule: the local rule.  From the state before a character, its class and the state after it, the name
            of the regex alternative by which a piece begins with this character, or None.
        rules: for each name, the alternative, a line feed, and a sentence about it (in one line).
        synchronizing: pairs of classes that restart or close.  Sound; not meant to be complete.
        removed: the rules whose pieces the pre-tokenizer throws away.
    """

    name: str
    patterns: tuple[str, ...]
    classes: tuple[tuple[str, str], ...]
    before: Callable[[L, str], L]
    before_start: L
    after: Callable[[str, R], R]
    after_end: R
    rule: Callable[[L, str, R], str | None]
    rules: Mapping[str, str]
    synchronizing: tuple[Synchronizing, ...]
    removed: frozenset[str] = frozenset()


def pairs(a: Iterable[str], b: Iterable[str], closes: bool, because: str) -> tuple[Synchronizing, ...]:
    """One row of a table of synchronizing pairs: each class of ``a`` before each class of ``b``."""
    return tuple(Synchronizing(one, other, closes, because) for one, other in product(a, b))


def stands_for(alternative: str, sentence: str) -> str:
    """An entry of ``Family.rules``: the regex alternative, and what it comes to."""
    return f"{alternative}\n{sentence}"


def pattern_of(rules: Mapping[str, str]) -> str:
    """The pattern whose alternatives these rules stand for, in order."""
    return "|".join(entry.rpartition("\n")[0] for entry in rules.values())


@cache
def _compiled(expression: str) -> regex.Pattern[str]:
    return regex.compile(expression, regex.VERSION1)  # version 1 knows the set operator &&


@lru_cache(maxsize=1 << 16)
def in_set(expression: str, character: str) -> bool:
    """Membership by the ``regex`` library, whose Unicode tables are not quite the reference engine's."""
    return _compiled(expression).fullmatch(character) is not None


def class_of(family: Family[L, R], character: str, members: Members = in_set) -> str:
    """The class of one character."""
    *sets, (rest, _) = family.classes
    return next((name for name, expression in sets if members(expression, character)), rest)


def classify(family: Family[L, R], text: str, members: Members = in_set) -> list[str]:
    """The class of each character.  Pass ``members`` to use the sets of another engine."""
    known = {character: class_of(family, character, members) for character in set(text)}
    return [known[character] for character in text]


def states_before(family: Family[L, R], classes: Iterable[str]) -> list[L]:
    """The left fold at each position: the state *before* each character, and that after the last one."""
    states = [family.before_start]
    for name in classes:
        states.append(family.before(states[-1], name))
    return states


def states_after(family: Family[L, R], classes: list[str]) -> list[R]:
    """The right fold at each position: the state *after* each character, preceded by that before the first."""
    states = [family.after_end]
    for name in reversed(classes):
        states.append(family.after(name, states[-1]))
    return states[::-1]


def fired(family: Family[L, R], classes: list[str]) -> list[str | None]:
    """For each character, given by its class, the rule by which it begins a piece, or None."""
    left, right = states_before(family, classes), states_after(family, classes)
    return [family.rule(left[i], name, right[i + 1]) for i, name in enumerate(classes)]


def piece_starts(family: Family[L, R], text: str, members: Members = in_set) -> list[int]:
    """The positions at which a piece begins, those of removed pieces included, in order."""
    rules = fired(family, classify(family, text, members))
    return [position for position, name in enumerate(rules) if name is not None]


def pieces(family: Family[L, R], text: str, members: Members = in_set) -> list[str]:
    """The pieces of a text, without those that the pre-tokenizer removes."""
    rules = fired(family, classify(family, text, members))
    starts = [position for position, name in enumerate(rules) if name is not None]
    ends = [*starts[1:], len(text)]
    return [text[a:b] for a, b in zip(starts, ends, strict=True) if rules[a] not in family.removed]
