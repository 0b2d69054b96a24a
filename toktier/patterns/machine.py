"""A finite-state machine that cuts a text exactly as a pre-tokenizer stage does.

A stage is a leftmost-first pattern, applied again and again; the matches and
the gaps between them are the pieces.  Over atoms that is the work of two
deterministic automata (a bimachine, DESIGN section 4):

* **Oracle**, right to left.  ``R(i)`` is the set of pattern nodes from which some prefix of the text
  at ``i`` matches.  It is a function of the atom at ``i`` and of ``R(i + 1)``.
* **Walk**, left to right.  At each ordered branch take the first alternative that is in ``R(i)``: that is
  the one a backtracking matcher ends up with, since it is the first that can succeed.  Reaching the match
  node is a boundary, and the walk starts afresh.

A look-behind is a question about the atom before, so the walk carries what it may be asked, and ``R(i)`` is a set
for each answer.  An atomic group stands in the pattern twice: as a *guide* with nothing after it, whose nodes say
which branches the group takes, and with what follows, where only those branches count.

So there is no backtracking, and every question about the stage is a question about a finite graph.
:func:`derive` builds both automata from a pattern.  Where a text may be cut in two is such a question
(:mod:`toktier.certificates`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedPatternError
from .atoms import Atoms
from .bimachine import Machine as Machine
from .syntax import (
    Alternation,
    Atomic,
    Concat,
    LookAhead,
    LookBehind,
    Node,
    One,
    Repeat,
    SetExpr,
    TextEnd,
    can_be_empty,
)

_MATCH = 0
_MAX_NODES = 600
_MAX_ORACLE_STATES = 250


# --- the pattern as nodes with ordered branches --------------------------------


@dataclass(slots=True)
class _Node:
    """``kind`` is one of

    * match: the pattern has matched;
    * one: a character of ``atoms``, then ``next``;
    * look: the same, but the character is not consumed; ``behind``: it is the one before;
    * branch: the first of ``next`` that can succeed;
    * commit: that of ``next`` whose place has the first of ``guides`` that can succeed, and no other;
    * ahead, not ahead: the first of ``guides`` can succeed, or cannot, and ``next`` can.
    """

    kind: str
    atoms: int = 0  # a bit per atom that the node accepts; bit `end` for the end of the text on either side
    next: tuple[int, ...] = ()
    guides: tuple[int, ...] = ()
    level: int = 0  # how many guides the node is part of


class Builder:
    """Compile a pattern backwards: each node is built with its continuation."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.end = 1 << atoms.count
        self.nodes = [_Node("match")]
        self.level = 0

    def add(self, kind: str, atoms: int, *next: int, guide: int | None = None) -> int:
        self.nodes.append(_Node(kind, atoms, next, () if guide is None else (guide,), self.level))
        if len(self.nodes) > _MAX_NODES:
            raise UnsupportedPatternError(f"the pattern needs over {_MAX_NODES} nodes", 0)
        return len(self.nodes) - 1

    def bits(self, set: SetExpr, negated: bool = False) -> int:
        """The atoms in ``set``, or those not in it and the end."""
        inside = sum(1 << int(a) for a in np.flatnonzero(self.atoms.of(set)))
        return (self.end | (self.end - 1)) ^ inside if negated else inside

    def build(self, node: Node, after: int) -> int:
        match node:
            case One(set):
                return self.add("one", self.bits(set), after)
            case Concat(items):
                for item in reversed(items):
                    after = self.build(item, after)
                return after
            case Alternation(branches):
                return self.add("branch", 0, *(self.build(branch, after) for branch in branches))
            case LookAhead(One(set), negated):
                return self.add("look", self.bits(set, negated), after)
            case LookAhead(item, negated):
                return self.add("not ahead" if negated else "ahead", 0, after, guide=self.guide(item))
            case LookBehind(set, negated):
                return self.add("behind", self.bits(set, negated), after)
            case TextEnd():
                return self.add("look", self.end, after)
            case Atomic(item):
                return self.atomic(item, after)
            case Repeat(item, low, high, lazy):
                if high != 1 and can_be_empty(item):  # the engine has rules of its own for empty rounds
                    raise UnsupportedPatternError("a repeated part of the pattern can match nothing", 0)
                return self.repeat(item, low, high, lazy, after)

    def repeat(self, item: Node, low: int, high: int | None, lazy: bool, after: int) -> int:
        if high is None:
            loop = self.add("branch", 0)
            body = self.build(item, loop)
            self.nodes[loop].next = (after, body) if lazy else (body, after)
            entry = loop
        else:
            entry = after
            for _ in range(high - low):
                body = self.build(item, entry)
                entry = self.add("branch", 0, after, body) if lazy else self.add("branch", 0, body, after)
        for _ in range(low):
            entry = self.build(item, entry)
        return entry

    def guide(self, item: Node) -> int:
        """Nodes that the walk never enters, for whether ``item`` matches here, whatever follows."""
        self.level += 1
        entry = self.build(item, _MATCH)
        self.level -= 1
        return entry

    def atomic(self, item: Node, after: int) -> int:
        """``item`` twice, node by node alike: the second follows the branches that the first would take."""
        first = len(self.nodes)
        self.guide(item)
        second = len(self.nodes)
        entry = self.build(item, after)
        for node, guide in zip(self.nodes[second:], self.nodes[first:second], strict=True):
            if node.kind == "branch" and node.level == self.level:
                node.kind, node.guides = "commit", guide.next
        return entry


def _epsilon_order(nodes: list[_Node]) -> list[int]:
    """Nodes so that those reached without consuming come first; there is no loop of such steps."""
    order: list[int] = []
    seen = [False] * len(nodes)

    def visit(n: int) -> None:
        if not seen[n]:
            seen[n] = True
            if nodes[n].kind != "one":
                for successor in (*nodes[n].next, *nodes[n].guides):
                    visit(successor)
            order.append(n)

    for n in range(len(nodes)):
        visit(n)
    return order


def derive(pattern: Node, atoms: Atoms) -> Machine:
    """Build the machine of a stage that cuts at every match of ``pattern``.

    Raises :class:`~toktier.errors.UnsupportedPatternError` if the pattern can match the empty string or is
    too large.
    """
    builder = Builder(atoms)
    start = builder.build(pattern, _MATCH)
    nodes = builder.nodes
    _refuse_nullable(nodes, start)
    before = _classes_before(nodes, atoms.count)
    states, oracle = _oracle(nodes, before, atoms.count)
    return _walk(nodes, start, before, states, oracle)


def _refuse_nullable(nodes: list[_Node], start: int) -> None:
    reached, todo = {start}, [start]
    while todo:
        node = nodes[todo.pop()]
        if node.kind == "match":
            raise UnsupportedPatternError("the pattern can match the empty string", 0)
        if node.kind != "one":
            todo += [n for n in node.next if n not in reached]
            reached.update(node.next)


def _classes_before(nodes: list[_Node], end: int) -> list[int]:
    """What look-behinds can tell of the character before: a class for each atom and for the start of the text.

    Without look-behinds there is one class.
    """
    asked = dict.fromkeys(node.atoms for node in nodes if node.kind == "behind")
    seen = [tuple(atoms >> symbol & 1 for atoms in asked) for symbol in range(end + 1)]
    number = {answers: i for i, answers in enumerate(dict.fromkeys(seen))}
    return [number[answers] for answers in seen]


@dataclass(frozen=True, slots=True)
class _Alive:
    """An oracle state: for each class of the character before, the bit set of the nodes that can succeed.

    ``own``: the class of the character here, for look-behinds from the next position; that of the start of a
    text where the text ends.
    """

    sets: tuple[int, ...]
    own: int


def _oracle(nodes: list[_Node], before: list[int], end: int) -> tuple[list[_Alive], NDArray[np.uint8]]:
    """Subset construction, right to left."""
    order = [(n, nodes[n]) for n in _epsilon_order(nodes)]
    members = [
        sum(1 << symbol for symbol in range(end + 1) if before[symbol] == c) for c in range(max(before) + 1)
    ]

    def alive(symbol: int, later: int, behind: int) -> int:
        """``later``: the nodes that can succeed after ``symbol``; ``behind``: what may stand before it."""
        bit, now = 1 << symbol, 0
        for n, node in order:
            kind, next = node.kind, node.next
            if kind == "one":
                succeeds = node.atoms & bit and later >> next[0] & 1
            elif kind == "branch":
                succeeds = any(now >> successor & 1 for successor in next)
            elif kind == "look":
                succeeds = node.atoms & bit and now >> next[0] & 1
            elif kind == "behind":
                succeeds = node.atoms & behind and now >> next[0] & 1
            elif kind == "commit":
                succeeds = any(now >> guide & 1 for guide in node.guides) and now >> _chosen(node, now) & 1
            elif kind == "match":
                succeeds = True
            else:
                succeeds = (now >> node.guides[0] & 1) == (kind == "ahead") and now >> next[0] & 1
            if succeeds:
                now |= 1 << n
        return now

    def at(symbol: int, later: _Alive | None) -> _Alive:
        own = before[symbol]
        rest = 0 if later is None else later.sets[own]
        return _Alive(tuple(alive(symbol, rest, behind) for behind in members), own)

    states = [at(end, None)]
    # without state 0, so that it is met at ends of texts only: there the walk restarts
    number: dict[_Alive, int] = {}
    rows: list[list[int]] = []
    while len(rows) < len(states):
        row = []
        for symbol in range(end):
            now = at(symbol, states[len(rows)])
            if now not in number:
                number[now] = len(states)
                states.append(now)
                if len(states) > _MAX_ORACLE_STATES:
                    raise UnsupportedPatternError(
                        f"the pattern's oracle needs over {_MAX_ORACLE_STATES} states", 0
                    )
            row.append(number[now])
        rows.append([*row, 0])
    return states, np.array(rows, np.uint8)


def _chosen(node: _Node, alive: int) -> int:
    """Which of ``next`` the first alternative that can succeed is, of ``guides`` if there are any."""
    return next(n for n, guide in zip(node.next, node.guides or node.next, strict=True) if alive >> guide & 1)


def _walk(
    nodes: list[_Node], start: int, before: list[int], oracle_states: list[_Alive], oracle: NDArray[np.uint8]
) -> Machine:
    """The deterministic walk.

    A state is (node after the last character, its class, did that character begin a piece).
    """
    gap, begin = -1, -2

    def step(node: int, alive: int) -> tuple[int, bool]:
        begins = node == begin
        if node in (begin, gap):
            if not alive >> start & 1:
                return gap, begins
            node, begins = start, True
        while nodes[node].kind != "one":
            if nodes[node].kind == "match":
                if not alive >> start & 1:
                    return gap, True
                node, begins = start, True
            elif nodes[node].kind in ("branch", "commit"):
                node = _chosen(nodes[node], alive)
            else:
                (node,) = nodes[node].next
        return nodes[node].next[0], begins

    # Reachable (walk, oracle) pairs only: elsewhere the walk is not defined.
    later_states: list[set[int]] = [set() for _ in oracle_states]
    for later in range(len(oracle_states)):
        for symbol in range(oracle.shape[1] - 1):
            later_states[oracle[later, symbol]].add(later)
    fresh = (begin, before[-1], False)
    seen: dict[tuple[int, int, bool], set[int]] = {fresh: set(range(len(oracle_states)))}
    edges: dict[tuple[tuple[int, int, bool], int], tuple[int, int, bool]] = {}
    todo = [(fresh, now) for now in range(len(oracle_states))]
    while todo:
        state, now = todo.pop()
        if not later_states[now]:
            continue  # the end of the text
        node, begins = step(state[0], oracle_states[now].sets[state[1]])
        target = (node, oracle_states[now].own, begins)
        edges[state, now] = target
        known = seen.setdefault(target, set())
        new = later_states[now] - known
        known |= new
        todo += [(target, later) for later in new]

    inner = [s for s in seen if not s[2]]  # `fresh` is the first of them
    numbered = {s: i for i, s in enumerate(inner + [s for s in seen if s[2]])}
    walk = np.zeros((len(numbered), len(oracle_states)), np.uint16)
    for (state, now), target in edges.items():
        walk[numbered[state], now] = numbered[target]
    has_gaps = any(node == gap for node, _, _ in seen)
    return Machine(oracle, walk, len(inner), has_gaps, len(set(before)) > 1)
