"""The splice certificate: when tokenizations of overlapping windows may be joined (the paper's appendix A).

A text is tokenized in two steps (definition A.2).  The *front end* G turns it into units, the pieces of plain
text and the added literals; the *model* E turns each unit into token ids, by its kind and payload alone.  So
``F = E* . G``, where ``E*`` concatenates (lemma A.3: ``E*(U + V) = E*(U) + E*(V)``), and where two texts agree
in their units they agree in their ids.  All that can go wrong at a cut is that the front end sees other units.

A certificate (definition A.4) says that it does not: windows that cover the text and overlap, a junction inside
each overlap, and the conditions C1 and C2.  Then the tokens of each window between its two junctions, found by
counting tokens and never by looking at spans, are together the tokens of the text (theorem A.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from .family import Family, L, R, classify, fired


class Token(NamedTuple):
    """A token record (definition A.1): its id, and the span of the text that its unit comes from."""

    id: int
    start: int
    end: int


class Unit(NamedTuple):
    """What the model sees at once (definition A.2): "piece" or "literal", its text, and where that is from."""

    kind: str
    payload: str
    start: int
    end: int


FrontEnd: TypeAlias = Callable[[str], list[Unit]]
#: From a unit's kind and payload to its ids: nothing else may matter (assumption 2).
Model: TypeAlias = Callable[[str, str], list[int]]


def front_end(family: Family[L, R], literals: Sequence[str] = ()) -> FrontEnd:
    """G: the leftmost and there longest literals are cut out, and the family cuts what is between them."""

    def units(text: str) -> list[Unit]:
        found: list[Unit] = []
        plain = position = 0
        while position < len(text):
            here = max((word for word in literals if text.startswith(word, position)), key=len, default="")
            if here:
                found += cut(text, plain, position)
                found.append(Unit("literal", here, position, position + len(here)))
                plain = position = position + len(here)
            else:
                position += 1
        return found + cut(text, plain, len(text))

    def cut(text: str, start: int, end: int) -> list[Unit]:
        rules = fired(family, classify(family, text[start:end]))
        starts = [start + i for i, name in enumerate(rules) if name is not None]
        spans = pairwise([*starts, end])
        return [Unit("piece", text[a:b], a, b) for a, b in spans if rules[a - start] not in family.removed]

    return units


def tokenize(text: str, front: FrontEnd, model: Model) -> list[Token]:
    """F = E* . G: the tokens of the whole text."""
    return [Token(id, unit.start, unit.end) for unit in front(text) for id in model(unit.kind, unit.payload)]


class Window(NamedTuple):
    """The characters from ``start`` to before ``end``, tokenized by themselves."""

    start: int
    end: int


def seen_in(window: Window, text: str, front: FrontEnd) -> list[Unit]:
    """The units of a window's own text, at their places in the whole text."""
    x = window.start
    return [Unit(kind, payload, x + a, x + b) for kind, payload, a, b in front(text[x : window.end])]


def straddles(unit: Unit, junction: int) -> bool:
    """Whether the unit lies on both sides of the junction."""
    return unit.start < junction < unit.end


def block(units: Sequence[Unit], start: int, end: int) -> list[Unit]:
    """The units inside ``[start, end)``."""
    return [unit for unit in units if start <= unit.start and unit.end <= end]


def is_cover(text: str, windows: Sequence[Window], junctions: Sequence[int]) -> bool:
    """The geometry of definition A.4: overlapping windows over all of the text, a junction in each overlap."""
    starts, ends = [w.start for w in windows], [w.end for w in windows]
    return (
        len(windows) > 0
        and starts[0] == 0
        and ends[-1] == len(text)
        and len(junctions) == len(windows) + 1
        and junctions[0] == 0
        and junctions[-1] == len(text)
        and all(low < high for low, high in pairwise(junctions))
        and all(starts[i] <= junctions[i] < ends[i - 1] for i in range(1, len(windows)))
    )


def c1(text: str, junctions: Sequence[int], front: FrontEnd) -> bool:
    """C1: no unit of the text straddles a junction."""
    return not any(straddles(unit, b) for unit in front(text) for b in junctions)


def c2(text: str, windows: Sequence[Window], junctions: Sequence[int], front: FrontEnd) -> bool:
    """C2: between its junctions each window sees the units of the text, and none that straddles them."""
    whole = front(text)
    for window, (low, high) in zip(windows, pairwise(junctions), strict=True):
        units = seen_in(window, text, front)
        if any(straddles(unit, low) or straddles(unit, high) for unit in units):
            return False
        if block(units, low, high) != block(whole, low, high):
            return False
    return True


def is_certificate(text: str, windows: Sequence[Window], junctions: Sequence[int], front: FrontEnd) -> bool:
    """Definition A.4 in full."""
    return (
        is_cover(text, windows, junctions) and c1(text, junctions, front) and c2(text, windows, junctions, front)
    )


def merge(
    text: str, windows: Sequence[Window], junctions: Sequence[int], front: FrontEnd, model: Model
) -> list[Token]:
    """Theorem A.5: under a certificate, ``tokenize(text, front, model)``, and every window is tokenized apart.

    A window's units are ``left + middle + right``, the middle between its junctions.  Its tokens from index
    ``len(E*(left))`` on, ``len(E*(middle))`` of them, are taken.
    """
    merged: list[Token] = []
    for window, (low, high) in zip(windows, pairwise(junctions), strict=True):
        x = window.start
        tokens = tokenize(text[x : window.end], front, model)
        counts = [(unit, len(model(unit.kind, unit.payload))) for unit in seen_in(window, text, front)]
        left = sum(count for unit, count in counts if unit.end <= low)
        middle = sum(count for unit, count in counts if low <= unit.start and unit.end <= high)
        merged += [Token(id, x + start, x + end) for id, start, end in tokens[left : left + middle]]
    return merged


def synchronizing_positions(family: Family[L, R], text: str, closing: bool = False) -> list[int]:
    """The positions between the two classes of a synchronizing pair (of one that closes, if ``closing``).

    In a text without literals, junctions there satisfy C1 and C2 whatever the windows: what a window sees right of
    a junction does not depend on where the window begins, and what it sees left of one depends on the rest of the
    text only through the character after the junction, which is in the window too.
    """
    known = {(pair.a, pair.b) for pair in family.synchronizing if pair.closes or not closing}
    return [i for i, pair in enumerate(pairwise(classify(family, text)), start=1) if pair in known]
