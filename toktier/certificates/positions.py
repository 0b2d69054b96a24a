"""All that can be the case at a position of a text, as a finite graph.

A stage of the pre-tokenizer is a walk from the left and an oracle from the right
(:mod:`~toktier.patterns.machine`).  The *state of a position* is what both know there, stage by stage: the
walk state that the text before it leads to, and the oracle state that the text after it leads to.  Reading one
character leads from the state of a position to that of the next one.  The states at the two ends of a text are
marked, and every text is exactly one path from a first to a last state, so questions about all texts are
questions about paths.

Stages follow each other: where one begins a piece, the later ones start afresh, and what they see before it
ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedPatternError
from ..patterns.bimachine import Machine
from ..records import replace

_MAX_STATES = 6000

_Tuple = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Positions:
    """The graph; only states that occur in some text are in it.

    ``first``, ``last``, ``begins``: bool, shape (states,): the position is the start or the end of a text; a
    piece begins at it.  Edges: from ``source`` to ``target`` by reading ``atom``, int64, sorted by source and
    atom; ``offsets``, of length states * atoms + 1, says where the edges of a source and an atom are.
    ``states``: the walk and oracle states that each stands for, as (walk states, oracle states).  ``agree``: bool,
    shape (states, states), False for two that cannot have one and the same text behind them (:func:`_agree`).
    """

    atoms: int
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    begins: NDArray[np.bool_]
    source: NDArray[np.int64]
    atom: NDArray[np.int64]
    target: NDArray[np.int64]
    offsets: NDArray[np.int64]
    states: tuple[tuple[_Tuple, _Tuple], ...]
    agree: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.first)


def positions(machines: Sequence[Machine], atoms: int) -> Positions:
    """Explore the stages side by side.

    Raises :class:`~toktier.errors.UnsupportedPatternError` where there are too many states.
    """
    count = len(machines)
    oracles = [machine.oracle.tolist() for machine in machines]
    walks = [machine.walk.tolist() for machine in machines]
    end = (0,) * count
    ahead = _oracle_edges(oracles, atoms)

    @cache  # most are asked about by several characters and from several states
    def step(walk: _Tuple, oracle: _Tuple) -> tuple[int, _Tuple]:
        """The first stage that begins a piece here (``count`` if none does), and the next walk states."""
        beginning, after = count, []
        for stage in range(count):
            state = walks[stage][0 if stage > beginning else walk[stage]][oracle[stage]]
            after.append(state)
            if beginning == count and state >= machines[stage].first:
                beginning = stage
        return beginning, tuple(after)

    states: list[tuple[_Tuple, _Tuple]] = [(end, oracle) for oracle in ahead]
    number = {state: i for i, state in enumerate(states)}
    begins: list[bool] = []
    edges: list[tuple[int, int, int]] = []
    for here, (walk, oracle) in enumerate(states):  # grows as it runs
        if oracle == end:
            begins.append(True)
            continue
        beginning, after = step(walk, oracle)
        begins.append(beginning < count)
        for atom, later, guessed in ahead[oracle]:
            if (0 if later == end else step(after, later)[0]) != guessed:
                continue
            state = (after, later)
            if state not in number:
                number[state] = len(states)
                states.append(state)
                if len(states) > _MAX_STATES:
                    raise UnsupportedPatternError(f"its positions have over {_MAX_STATES} states", 0)
            edges.append((here, atom, number[state]))
    return _trimmed(states, begins, edges, len(ahead), end, atoms)


def with_fewer_atoms(machines: Sequence[Machine], atoms: int) -> tuple[list[Machine], NDArray[np.intp]]:
    """The machines over atoms that some oracle tells apart, and which of these each atom is.

    The walks know of atoms only through the oracles.
    """
    columns = np.concatenate([machine.oracle[:, :atoms] for machine in machines])
    _, first, kind = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    return [replace(m, oracle=np.ascontiguousarray(m.oracle[:, [*first, atoms]])) for m in machines], kind


def is_idle(one: Machine, other: Machine, atoms: int) -> bool:
    """Whether a second stage begins no piece where the first does not, whatever the text, as far as can be told.

    ``ByteLevel`` brings a pattern along that often has nothing left to cut.
    """
    reduced, kind = with_fewer_atoms((one, other), atoms)
    try:
        graph = positions(reduced, int(kind.max()) + 1)
    except UnsupportedPatternError:
        return False
    walks, ahead = np.array([(walk[0], oracle[0]) for walk, oracle in graph.states]).T
    by_first = one.walk[walks, ahead] >= one.first
    return bool((by_first | graph.last == graph.begins).all())


def _oracle_edges(oracles: list[list[list[int]]], atoms: int) -> dict[_Tuple, list[tuple[int, _Tuple, int]]]:
    """How the oracles' states at a position may come about.

    For every tuple of states: (atom that follows, states after it, the first stage that begins a piece after
    it).  The last is a guess that the walk confirms or not.
    """
    count = len(oracles)
    end = (0,) * count
    found: dict[_Tuple, list[tuple[int, _Tuple, int]]] = {end: []}
    todo = [end]
    while todo:
        later = todo.pop()
        for beginning in (0,) if later == end else range(count + 1):
            for atom in range(atoms):
                now = tuple(
                    oracle[0 if stage > beginning else later[stage]][atom] for stage, oracle in enumerate(oracles)
                )
                if now not in found:
                    found[now] = []
                    todo.append(now)
                found[now].append((atom, later, beginning))
    return found


def _trimmed(
    states: list[tuple[_Tuple, _Tuple]],
    begins: list[bool],
    edges: list[tuple[int, int, int]],
    firsts: int,
    end: _Tuple,
    atoms: int,
) -> Positions:
    """Keep the states from which the end of a text can be reached."""
    table = np.array(edges, np.int64).reshape(-1, 3)
    source, atom, target = table.T
    last = np.array([oracle == end for _, oracle in states])
    alive = last.copy()
    while True:
        more = source[alive[target] & ~alive[source]]
        if not len(more):
            break
        alive[more] = True
    renumber = np.cumsum(alive) - 1
    kept = alive[source] & alive[target]
    order = np.lexsort((target[kept], atom[kept], source[kept]))
    source, atom, target = renumber[source[kept]][order], atom[kept][order], renumber[target[kept]][order]
    size = int(alive.sum())
    counts = np.bincount(source * atoms + atom, minlength=size * atoms)
    trimmed = tuple(state for state, kept in zip(states, alive.tolist(), strict=True) if kept)
    walks, ahead = np.array(trimmed, np.int32).transpose(1, 2, 0)
    onward = walks.copy()
    onward[:, source] = walks[:, target]
    return Positions(
        atoms,
        (np.arange(len(states)) < firsts)[alive],
        last[alive],
        np.array(begins)[alive],
        source,
        atom,
        target,
        np.concatenate(([0], np.cumsum(counts))),
        trimmed,
        _agree(ahead, onward),
    )


def _agree(ahead: NDArray[np.int32], onward: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which two states may have the same text behind them; (stages, states) each: oracle states, next walk states.

    What the first oracle knows is a matter of that text alone.  If the first walk goes on in the same way, too,
    so do the pieces of the first stage, and then what the second oracle knows is one and the same; and so on.
    """
    possible: NDArray[np.bool_] = ahead[0][:, None] == ahead[0]
    same = possible.copy()
    for stage in range(1, len(ahead)):
        same &= onward[stage - 1][:, None] == onward[stage - 1]
        possible &= ~same | (ahead[stage][:, None] == ahead[stage])
    return possible
