"""Character by character: what the spec and the machines know, and what follows.

For one text of one family, everything that a proof is about is put side by side: the class and the two folds of
the spec, the two states of each machine, whether a piece begins, and whether the text may be cut.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from spec import FAMILIES, Family
from spec.family import states_after, states_before
from toktier.certificates.relation import Relation, derive_relation
from toktier.certificates.tracing import run_machines

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
    walks, oracles, begins = run_machines(stages.machines, atoms)
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
