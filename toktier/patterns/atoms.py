"""Atoms: the coarsest division of the code points that a pattern's sets allow.

Two code points of one atom are in the same sets, so no pattern built from
these sets can tell them apart, and a text may be read as a string over a
handful of atoms (15 for cl100k, 27 for o200k).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedPatternError
from .charsets import CODE_POINTS, SURROGATES, members
from .syntax import SetExpr

#: A symbol of the lanes is an atom or the end marker, in two variants, and must fit into a byte.
MAX_ATOMS = 127


@dataclass(frozen=True, slots=True)
class Atoms:
    """``of_code_point``: uint8 array of shape (0x110000,); ``member[s, a]``: set s holds atom a."""

    of_code_point: NDArray[np.uint8]
    sets: tuple[SetExpr, ...]
    member: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return int(self.member.shape[1])

    def of(self, expression: SetExpr) -> NDArray[np.bool_]:
        """The atoms of one of ``sets``, shape (count,)."""
        row: NDArray[np.bool_] = self.member[self.sets.index(expression)]
        return row


def atoms_of(sets: Sequence[SetExpr]) -> Atoms:
    """Divide the code points by membership in ``sets``."""
    inside = np.array([members(expression) for expression in sets]).reshape(len(sets), CODE_POINTS)
    inside[:, SURROGATES] = inside[:, SURROGATES.stop, None]  # they never occur and need no atom of their own
    # neighbours are mostly in the same sets, so stretches of them are looked at
    starts = np.append(0, np.flatnonzero((inside[:, 1:] != inside[:, :-1]).any(axis=0)) + 1)
    columns: list[tuple[bool, ...]] = list(map(tuple, inside[:, starts].T.tolist()))
    number = {column: atom for atom, column in enumerate(sorted({*columns}))}
    if len(number) > MAX_ATOMS:
        raise UnsupportedPatternError(f"the pattern's sets divide Unicode into over {MAX_ATOMS} atoms", 0)
    atoms = np.array([number[column] for column in columns], np.uint8)
    member = np.array([*number], np.bool_).reshape(len(number), len(sets)).T
    return Atoms(np.repeat(atoms, np.diff(starts, append=CODE_POINTS)), tuple(sets), member)
