"""Character by character: what the spec and the machines know, and what follows.

For one text of one family, everything that a proof is about is put side by side: the class and the two folds of
the spec, the two states of each machine, whether a piece begins, and whether the text may be cut.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from spec import FAMILIES, Family
from spec.family import states_after, states_before
from toktier.certificates.relation import Relation, derive_relation
from toktier.patterns.machine import Machine

from .families import subject_of
from .stages import Stages

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Row:
    """One character.

    ``position``: in characters; ``name``: its class in the spec; ``run``: the run that it is in, as the left fold
    calls it; ``before``, ``after``: the two folds' states on either side; ``rule``: by which it begins a piece, or
    None.  ``atom``, ``walk``, ``oracle``: the machines' view, stage by stage: the walk's state before the
    character (0: a text begins there) and the oracle's at it.  ``begins``: it begins a piece; ``cut``: what is
    certified of a cut directly before it, None where nothing is.
    """

    position: int
    char: str
    name: str
    run: str
    before: Hashable
    after: Hashable
    rule: str | None
    atom: int
    walk: tuple[int, ...]
    oracle: tuple[int, ...]
    begins: bool
    cut: Literal["restarts", "closes"] | None


def explain(family: str | Family[L, R], text: str) -> list[Row]:
    """Explain where the pieces of a text begin.

    ``family``: one of the spec's, or its name.  Raises KeyError for another name.
    """
    if isinstance(family, str):
        return explain(FAMILIES[family], text)
    subject = subject_of(family)
    stages = subject.stages
    atoms = stages.read(text)
    classes = [subject.classes[atom] for atom in atoms]
    befores, afters = states_before(family, classes), states_after(family, classes)
    walks, oracles, begins = _run(stages.machines, atoms)
    relation = _relation(stages)
    rows: list[Row] = []
    for i, atom in enumerate(atoms):
        cut: Literal["restarts", "closes"] | None = None
        if i and relation.restarts[atoms[i - 1], atom]:
            cut = "closes" if relation.closes[atoms[i - 1], atom] else "restarts"
        rows.append(
            Row(
                i,
                text[i],
                classes[i],
                str(getattr(befores[i + 1], "run", befores[i + 1])),
                befores[i],
                afters[i + 1],
                family.rule(befores[i], classes[i], afters[i + 1]),
                atom,
                tuple(walk[i] for walk in walks),
                tuple(oracle[i] for oracle in oracles),
                begins[i],
                cut,
            )
        )
    return rows


@lru_cache(maxsize=16)
def _relation(stages: Stages) -> Relation:
    return derive_relation(stages.machines, stages.atoms.count)


def _run(machines: Sequence[Machine], atoms: Sequence[int]) -> tuple[list[list[int]], list[list[int]], list[bool]]:
    """Each stage's walk states before the characters, its oracle's at them, and where pieces begin."""
    count = len(atoms)
    walks: list[list[int]] = []
    oracles: list[list[int]] = []
    cut = [False] * count + [True]  # where a stage so far begins a piece, or the text ends
    for machine in machines:
        oracle, walk = [0] * (count + 1), [0] * (count + 1)
        for i in reversed(range(count)):
            oracle[i] = int(machine.oracle[0 if cut[i + 1] else oracle[i + 1], atoms[i]])
        earlier = cut.copy()
        for i in range(count):
            walk[i] = 0 if earlier[i] else walk[i]
            walk[i + 1] = int(machine.walk[walk[i], oracle[i]])
            cut[i] = walk[i + 1] >= machine.first
        walks.append(walk[:count])
        oracles.append(oracle[:count])
    return walks, oracles, cut[:count]
