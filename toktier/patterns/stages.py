"""The machines of stages in a row, over atoms that they share."""

from __future__ import annotations

from functools import lru_cache

from .atoms import Atoms, atoms_of
from .machine import Machine, derive
from .syntax import Node, sets_of


@lru_cache(maxsize=2)  # the engines and the certificate of one artifact mostly ask for the same
def machines_of(stages: tuple[Node, ...]) -> tuple[Atoms, tuple[Machine, ...]]:
    """Derive them.  Raises :class:`~toktier.errors.UnsupportedPatternError` as :func:`.machine.derive` does."""
    sets = dict.fromkeys(expression for stage in stages for expression in sets_of(stage))
    atoms = atoms_of(list(sets))
    return atoms, tuple(derive(stage, atoms) for stage in stages)
