"""Whether a backtracking engine may need more than linear time for one match of a pattern.

The machine never does.  The reference's engine backtracks, though, and gives up with an error after ten million
steps, on which texts only it can tell.  So a pattern with which that can happen on texts of ordinary length is
left to the reference.  The standard library's ``re``, which finds the pieces of short texts, would run on without
end.

A backtracking matcher takes the one path through the pattern that succeeds, and before it, at each branch, those
that fail.  A node of the pattern after which the match may simply end is on no path that fails.  Among the others,
three things make failing paths many:

* a loop that reads some text in two ways: ``(?:a|a)+b``, exponentially many;
* a loop, and one behind it, that read the same text, between them, too: ``a*a*b``, as many as the text is long,
  and so is each of them;
* branches that read the same text, often enough in a row: ``(?:a|aa){30}b``.

The first two are the criteria of A. Weber and H. Seidl, "On the degree of ambiguity of finite automata" (1991).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

import numpy as np

from .atoms import Atoms, atoms_of
from .machine import Builder
from .syntax import Node, sets_of

#: Failing paths of a pattern without loops that are too many.
_MANY = 256
_Key = TypeVar("_Key", bound=Hashable)
_Edges = Mapping[int, Mapping[int, int]]


class _Node(Protocol):
    """A node of :mod:`toktier.patterns.machine`."""

    @property
    def kind(self) -> str: ...
    @property
    def atoms(self) -> int: ...
    @property
    def next(self) -> tuple[int, ...]: ...
    @property
    def guides(self) -> tuple[int, ...]: ...


def backtracks(pattern: Node) -> bool:
    """Whether too many paths through ``pattern`` may fail.

    Raises :class:`~toktier.errors.UnsupportedPatternError` if it is too large for the machine, too.
    """
    sets = sets_of(pattern)
    one = Atoms(np.zeros(0, np.uint8), sets, np.ones((len(sets), 1), np.bool_))
    if not _is_costly(_nodes(pattern, one)):  # even if all sets were one and the same
        return False
    return _is_costly(_nodes(pattern, atoms_of(sets)))


def _nodes(pattern: Node, atoms: Atoms) -> Sequence[_Node]:
    builder = Builder(atoms)
    builder.build(pattern, 0)
    return builder.nodes


def _is_costly(nodes: Sequence[_Node]) -> bool:
    follow, may_fail = _edges(nodes)
    failing = {n: {m: ways for m, ways in follow[n].items() if m in may_fail} for n in may_fail}
    part_of, failing_part_of = _loops(follow), _loops(failing)

    def both(*some: int) -> int:
        """The atoms that all of these nodes accept."""
        atoms = nodes[some[0]].atoms
        for n in some[1:]:
            atoms &= nodes[n].atoms
        return atoms

    if any(_two_ways(loop, failing, both) for loop in set(failing_part_of.values())):
        return True
    for second in set(failing_part_of.values()):
        for first in set(part_of.values()):
            if first != second and _one_behind_another(first, second, follow, failing, both):
                return True
    return _branches(follow, may_fail, failing_part_of, nodes) > _MANY


def _edges(nodes: Sequence[_Node]) -> tuple[_Edges, set[int]]:
    """Which nodes read the character behind that of a node, in how many ways; and after which a match may fail."""

    @cache
    def behind(n: int) -> dict[int, int]:
        node = nodes[n]
        if node.kind == "one":
            return {n: 1}
        looks = node.guides if node.kind in ("ahead", "not ahead") else ()
        found: dict[int, int] = {}
        for successor in (*node.next, *looks):
            for m, ways in behind(successor).items():
                found[m] = min(found.get(m, 0) + ways, _MANY)
        return found

    @cache
    def can_end(n: int) -> bool:
        node = nodes[n]
        return node.kind == "match" or (node.kind in ("branch", "commit") and any(map(can_end, node.next)))

    readers = [n for n, node in enumerate(nodes) if node.kind == "one"]
    follow = {n: behind(nodes[n].next[0]) for n in readers}
    return follow, {n for n in readers if not can_end(nodes[n].next[0])}


def _loops(edges: _Edges) -> dict[int, frozenset[int]]:
    """The loop (strongly connected part) of each node that is in one."""
    forward = {n: _reached(edges[n], edges.__getitem__) for n in edges}
    return {n: frozenset(m for m in forward[n] if n in forward[m]) for n in edges if n in forward[n]}


def _reached(start: Iterable[_Key], step: Callable[[_Key], Iterable[_Key]]) -> set[_Key]:
    seen = set(start)
    todo = list(seen)
    while todo:
        new = set(step(todo.pop())) - seen
        seen |= new
        todo += new
    return seen


def _two_ways(loop: frozenset[int], edges: _Edges, both: Callable[..., int]) -> bool:
    """Whether two ways through the loop, from a node to the same one, read one text."""
    inside = {n: {m: ways for m, ways in edges[n].items() if m in loop} for n in loop}
    if any(ways > 1 for follow in inside.values() for ways in follow.values()):
        return True
    if all(len(follow) == 1 for follow in inside.values()):
        return False
    before: dict[int, list[int]] = {n: [m for m in loop if n in inside[m]] for n in loop}

    def pairs(follow: Mapping[int, Iterable[int]]) -> Callable[[tuple[int, int]], Iterable[tuple[int, int]]]:
        return lambda pair: ((a, b) for a in follow[pair[0]] for b in follow[pair[1]] if both(a, b))

    same = [(n, n) for n in loop]
    from_same = _reached(same, pairs(inside))
    to_same = _reached(same, pairs(before))
    return any(a != b for a, b in from_same & to_same)


def _one_behind_another(
    first: frozenset[int], second: frozenset[int], edges: _Edges, failing: _Edges, both: Callable[..., int]
) -> bool:
    """Whether a text is read by ``first`` in a round, by ``second`` in a round, and on the way between them."""

    def step(state: tuple[int, int, int]) -> Iterable[tuple[int, int, int]]:
        one, way, other = state
        for c in failing[other].keys() & second:
            for a in edges[one].keys() & first:
                if both(a, c):
                    yield from ((a, b, c) for b in edges[way] if both(a, b, c))

    return any((q, p, p) in _reached(step((q, q, p)), step) for q in first for p in second if q != p)


def _branches(
    edges: _Edges, may_fail: set[int], loop_of: Mapping[int, frozenset[int]], nodes: Sequence[_Node]
) -> int:
    """At most so many failing paths without a loop read one text, each loop being left at one place."""
    paths = dict.fromkeys(edges, 1)
    # what comes later reaches less
    for n in sorted(edges, key=lambda n: len({n} | _reached(edges[n], edges.__getitem__))):
        loop = loop_of.get(n, frozenset((n,)))
        leaving = [(m, ways) for m, ways in edges[n].items() if m in may_fail and m not in loop]
        bits = {1 << atom for m, _ in leaving for atom in range(nodes[m].atoms.bit_length())}
        together = (sum(ways * paths[m] for m, ways in leaving if nodes[m].atoms & bit) for bit in bits)
        most = min(max(together, default=1), _MANY + 1)
        for m in loop:
            paths[m] = max(paths[m], most)
    return max(paths.values(), default=1)
