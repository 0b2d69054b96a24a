"""The spec's synchronizing pairs against the cuts that are proved."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spec import Synchronizing

from .cuts import Cuts, Witness
from .families import Subject

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)


def unproved(subject: Subject[L, R], cuts: Cuts) -> Iterator[tuple[Synchronizing, Witness]]:
    """Rows of the family's table that claim too much, each with a witness; none if the table is sound."""
    for row in subject.family.synchronizing:
        for a, b in _atoms(subject, row):
            if not cuts.restarts[a, b]:
                yield row, cuts.not_restarting[a, b]
            elif row.closes and not cuts.closes[a, b]:
                yield row, cuts.not_closing[a, b]


def left_out(subject: Subject[L, R], cuts: Cuts) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Pairs of classes that restart, and pairs that close, of which the table does not say so."""
    restarts, closes = cuts.restarts.copy(), cuts.closes.copy()
    for row in subject.family.synchronizing:
        for a, b in _atoms(subject, row):
            restarts[a, b] = False
            closes[a, b] &= not row.closes
    name = subject.classes

    def named(pairs: list[list[int]]) -> list[tuple[str, str]]:
        return sorted({(name[a], name[b]) for a, b in pairs})

    return named(_pairs(restarts)), named(_pairs(closes))


def _pairs(relation: NDArray[np.bool_]) -> list[list[int]]:
    found: list[list[int]] = np.argwhere(relation).tolist()
    return found


def _atoms(subject: Subject[L, R], row: Synchronizing) -> Iterator[tuple[int, int]]:
    firsts = [atom for atom, name in enumerate(subject.classes) if name == row.a]
    seconds = [atom for atom, name in enumerate(subject.classes) if name == row.b]
    if not firsts or not seconds:
        raise ValueError(f"{subject.family.name}: {row.a} or {row.b} is not one of its classes, or an empty one")
    return product(firsts, seconds)
