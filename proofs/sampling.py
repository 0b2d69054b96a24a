"""Machine = reference engine, on every short text and on many long ones.

What is proved about machines says something about the reference only if the machines do what it does.  That is
not proved (its regex engine is a program of others) but checked: on all strings of atoms up to a length, and on
long random ones, with members of each atom drawn afresh for every character.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .engine import PreTokenizerEngine
from .stages import SEPARATOR, Stages, piece_starts

#: Of the random texts: how many, and how long.
_RANDOM = (1500, 40)
#: Where there are few atoms, longer strings than this add nothing.
_LONGEST = 7


@dataclass(frozen=True)
class Sample:
    """``texts`` were compared, among them all strings of ``length`` atoms and fewer.

    ``counterexample``: a text that machine and engine cut differently, or None.  ``removed``: how many atoms the
    pre-tokenizer leaves out of the text; whether a piece begins at them is not the engine's to say.
    """

    texts: int
    length: int
    removed: int
    counterexample: str | None


def compare_with_engine(
    stages: Stages, engine: PreTokenizerEngine, seed: int = 0, characters: int = 400_000
) -> Sample:
    """Compare on about as many characters as given, and on the random texts."""
    random = np.random.default_rng(seed)
    members = [stages.members(atom) for atom in range(stages.atoms.count)]
    kept = np.array([starts != [] for starts in engine.starts([chr(int(codes[0])) for codes in members])])
    removed = int((~kept).sum())
    texts = length = 0
    for size, atoms in _texts(stages.atoms.count, characters, random):
        text = _difference(stages, engine, atoms, members, kept, random)
        texts += len(atoms)
        if text is not None:
            return Sample(texts, length, removed, text)
        length = max(length, size)
    return Sample(texts, length, removed, None)


def _texts(count: int, characters: int, random: np.random.Generator) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Strings of atoms, shape (texts, length), with the length up to which they are all there are."""
    length = 1
    while length == 1 or (length <= _LONGEST and count**length * (length + 1) <= characters):
        numbers = np.arange(count**length)
        yield length, np.stack([numbers // count**i % count for i in range(length)], axis=1).astype(np.uint8)
        length += 1
    texts, long = _RANDOM
    drawn = random.integers(0, count, (texts, long), np.uint8)
    again = random.random((texts, long)) < random.random((texts, 1)) * 0.8  # the same atom once more
    for i in range(1, long):
        drawn[:, i] = np.where(again[:, i], drawn[:, i - 1], drawn[:, i])
    yield 0, drawn


def _difference(
    stages: Stages,
    engine: PreTokenizerEngine,
    atoms: NDArray[np.uint8],
    members: list[NDArray[np.int64]],
    kept: NDArray[np.bool_],
    random: np.random.Generator,
) -> str | None:
    texts, length = atoms.shape
    codes = np.full((texts, length + 1), ord(SEPARATOR), np.uint32)
    begins = np.ones((texts, length + 1), np.bool_)
    begins[:, :length] = piece_starts(stages.machines, atoms) & kept[atoms]
    for atom, choices in enumerate(members):
        here = np.nonzero(atoms == atom)
        # every other time one of the first few members: ASCII has traps of its own
        few = np.where(random.random(len(here[0])) < 0.5, min(len(choices), 8), len(choices))
        codes[here] = choices[random.integers(0, few)]
    found = np.zeros(codes.size, np.bool_)
    found[engine.flat_starts(codes.tobytes().decode("utf-32-le"))] = True
    wrong = np.flatnonzero((found.reshape(begins.shape) != begins).any(axis=1))
    if len(wrong) == 0:
        return None
    return codes[wrong[0], :length].tobytes().decode("utf-32-le")
