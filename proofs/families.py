"""Run decomposition = regex machine: the proof for one family of the spec.

The atoms are those of the family's patterns, divided further by its classes, every set as the reference engine
has it; so each atom is of one class.  The machines are derived from the patterns; the folds and the rule are
taken from the spec as they stand.  :func:`proofs.readers.compare` then looks at everything that the two can
know side by side.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np

from spec import Family
from spec.family import fired
from toktier.patterns.charsets import members
from toktier.patterns.syntax import Node, parse

from .readers import FoldReader, MachineReader, compare
from .stages import Stages, parse_set, stages_of

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)


@dataclass(frozen=True)
class Subject(Generic[L, R]):
    """A family and its machines.  ``classes``: the name of the class of each atom."""

    family: Family[L, R]
    stages: Stages
    classes: tuple[str, ...]

    def starts(self, text: str) -> list[int]:
        """Where pieces begin according to the spec, with the engine's character sets."""
        rules = fired(self.family, [self.classes[atom] for atom in self.stages.read(text)])
        return [position for position, rule in enumerate(rules) if rule is not None]


def subject_of(family: Family[L, R]) -> Subject[L, R]:
    """Derive the machines of a family, over atoms that its classes divide, too."""
    stages, numbers = _refined(family.patterns, tuple(source for _, source in family.classes[:-1]))
    return Subject(family, stages, tuple(family.classes[number][0] for number in numbers))


def nodes_of(family: Family[L, R]) -> tuple[Node, ...]:
    """The parsed patterns of a family."""
    return tuple(parse(pattern) for pattern in family.patterns)


@lru_cache(maxsize=32)
def _refined(patterns: tuple[str, ...], classes: tuple[str, ...]) -> tuple[Stages, tuple[int, ...]]:
    """The stages, and for each atom the number of the first class that has it."""
    sets = [parse_set(source) for source in classes]
    stages = stages_of([parse(pattern) for pattern in patterns], sets)
    code_points = [int(stages.members(atom)[0]) for atom in range(stages.atoms.count)]
    first = np.full(stages.atoms.count, len(sets))
    for number, expression in reversed(list(enumerate(sets))):
        first[members(expression)[code_points]] = number
    return stages, tuple(first.tolist())


@dataclass(frozen=True)
class Equivalence:
    """``counterexample``: a shortest text that spec and machine cut differently, None if there is none.

    ``nodes``: how many combinations of states were looked at; ``idle``: rules that never fire.
    """

    counterexample: str | None
    nodes: int
    idle: frozenset[str]


def prove_equivalence(subject: Subject[L, R]) -> Equivalence:
    """Do the spec's rule and the machines mark the same characters in every text?"""
    family, classes = subject.family, subject.classes
    used: set[str] = set()

    def rule(left: L, atom: int, right: R) -> bool:
        name = family.rule(left, classes[atom], right)
        if name is not None:
            used.add(name)
        return name is not None

    spec: FoldReader[L, R] = FoldReader(
        family.before_start,
        lambda left, atom: family.before(left, classes[atom]),
        family.after_end,
        lambda atom, right: family.after(classes[atom], right),
        rule,
    )
    found = compare(MachineReader(subject.stages.machines), spec, subject.stages.atoms.count)
    text = None if found.text is None else subject.stages.write(found.text)
    return Equivalence(text, found.nodes, frozenset(family.rules) - used)
