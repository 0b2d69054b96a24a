"""A pre-tokenizer as the prover sees it: machines over atoms, and the engine that they are to agree with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toktier.errors import UnsupportedPatternError
from toktier.patterns.atoms import Atoms, atoms_of
from toktier.patterns.charsets import SURROGATES
from toktier.patterns.machine import Machine, derive
from toktier.patterns.syntax import Node, One, Property, SetExpr, parse, sets_of

#: Separates texts that are shown to the engine in one call; it stands for itself in no text.
SEPARATOR = "\uf8ff"


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages of one pre-tokenizer: their machines, in order, over common atoms.  Compared by identity."""

    atoms: Atoms
    machines: tuple[Machine, ...]

    def read(self, text: str) -> list[int]:
        """The atoms of a text."""
        return [int(self.atoms.of_code_point[ord(char)]) for char in text]

    def write(self, atoms: Sequence[int]) -> str:
        """A text of these atoms, each shown by a character that is easy to read where there is one."""
        return "".join(self.examples[atom] for atom in atoms)

    @cached_property
    def examples(self) -> list[str]:
        """A character for each atom: a printable one of ASCII if possible, else the first that there is."""
        found: list[str] = []
        for atom in range(self.atoms.count):
            codes = self.members(atom)
            easy = codes[(codes > 0x20) & (codes < 0x7F)]
            # letters and digits look better from the middle of the alphabet than `A` does as a mark of the class
            found.append(chr(int(easy[-1] if len(easy) > 9 else (easy if len(easy) else codes)[0])))
        return found

    def members(self, atom: int) -> NDArray[np.int64]:
        """The code points of an atom, without surrogates and the separator."""
        inside = self.atoms.of_code_point == atom
        inside[SURROGATES] = inside[ord(SEPARATOR)] = False
        return np.flatnonzero(inside)


def stages_of(nodes: Sequence[Node], more_sets: Sequence[SetExpr] = ()) -> Stages:
    """Derive the machines of patterns; ``more_sets`` divide the atoms further."""
    sets = dict.fromkeys([expression for node in nodes for expression in sets_of(node)] + list(more_sets))
    atoms = atoms_of(list(sets))
    return Stages(atoms, tuple(derive(node, atoms) for node in nodes))


def parse_set(source: str) -> SetExpr:
    """A set of characters in the engine's syntax, such as ``\\p{L}`` or ``(?i:[st])``."""
    try:
        node = parse(source)
    except UnsupportedPatternError:
        return Property(source)  # the engine is asked what it holds
    if not isinstance(node, One):
        raise ValueError(f"{source!r} is not a set of single characters")
    return node.set


def piece_starts(machines: Sequence[Machine], atoms: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where pieces begin in many texts of one length, by definition: each text read right to left, then back.

    ``atoms`` has shape (texts, length), and so has the result.
    """
    texts, length = atoms.shape
    cut = np.zeros((texts, length + 1), np.bool_)  # where a stage so far begins a piece, or the text ends
    cut[:, length] = True
    for machine in machines:
        seen = np.zeros((texts, length + 1), np.intp)  # the oracle's states
        for i in reversed(range(length)):
            later = np.where(cut[:, i + 1], 0, seen[:, i + 1])
            seen[:, i] = machine.oracle[later, atoms[:, i]]
        walk = np.zeros(texts, np.intp)
        for i in range(length):
            walk = machine.walk[np.where(cut[:, i], 0, walk), seen[:, i]].astype(np.intp)
            cut[:, i] = walk >= machine.first
    return cut[:, :length]
