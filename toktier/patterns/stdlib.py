"""Writing a pattern for the standard library's ``re``, character sets spelled out.

``re`` is given nothing that depends on Unicode's classes: they come from the engine's sets.  Two alphabets are
used: the stand-in of a text (:mod:`~toktier.patterns.stand_in`), and the bytes that number the atoms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .atoms import Atoms
from .stand_in import STAND_IN
from .syntax import Alternation, Atomic, Concat, LookAhead, LookBehind, Node, One, Repeat, TextEnd


def compile_stand_in(node: Node, atoms: Atoms, has_gaps: bool) -> re.Pattern[str]:
    """The pattern for stand-ins of texts; its matches are the pieces."""
    ascii_atoms = atoms.of_code_point[:STAND_IN]

    def charset(inside: NDArray[np.bool_]) -> str:
        return _class(np.flatnonzero(np.concatenate((inside[ascii_atoms], inside))))

    return re.compile(_write(node, atoms, charset, has_gaps))


def compile_atoms(node: Node, atoms: Atoms, has_gaps: bool) -> re.Pattern[bytes]:
    """The pattern for texts given as one byte per character, the number of its atom."""
    source = _write(node, atoms, lambda inside: _class(np.flatnonzero(inside)), has_gaps)
    return re.compile(source.encode("ascii"))


def first_atoms(node: Node, atoms: Atoms) -> NDArray[np.int64] | None:
    """The atoms with which a match may begin, ascending; None if there may be one without a character."""
    first = _first(node, atoms)
    return None if first.may_be_empty else np.flatnonzero(first.begins)


def _write(node: Node, atoms: Atoms, charset: Callable[[NDArray[np.bool_]], str], has_gaps: bool) -> str:
    """``charset`` writes a set of atoms."""

    def write(node: Node) -> str:
        match node:
            case One(set):
                return charset(atoms.of(set))
            case Concat((Repeat(One(optional), 0, 1, False), Repeat(One(set), 1, _, False), *_) as items) if not (
                atoms.of(optional) & atoms.of(set)
            ).any():
                rest = write(Concat(items[1:]))  # X?Y+… is Y+…|XY+… where X and Y have nothing in common
                return f"{rest}|{charset(atoms.of(optional))}{rest}"
            case Concat(items):
                grouped = Alternation | Concat
                return "".join(
                    f"(?:{write(item)})" if isinstance(item, grouped) else write(item) for item in items
                )
            case Alternation(branches):
                # a group's first characters are looked at once
                return "|".join(f"(?:{write(b)})" if isinstance(b, Alternation) else write(b) for b in branches)
            case Repeat(Alternation() as item, 0, 1, False):
                # the same as (?:…)?, for which ``re`` keeps books; the group as above
                return f"(?:(?:{write(item)})|)"
            case Repeat(item, low, high, lazy):
                bounds = f"{{{low},{'' if high is None else high}}}"
                return f"(?:{write(item)}){bounds}{'?' if lazy else ''}"
            case Atomic(item):
                return f"(?>{write(item)})"
            case LookAhead(item, negated):
                return f"(?{'!' if negated else '='}{write(item)})"
            case LookBehind(set, negated):
                return f"(?<{'!' if negated else '='}{charset(atoms.of(set))})"
            case TextEnd():
                return "\\Z"

    pattern = write(node)
    if not has_gaps:
        return pattern
    # a maximal stretch of characters at which no match begins is a piece too
    head = _first(node, atoms)
    begins = head.begins | head.may_be_empty
    unsure = begins & ~head.sure
    gap = [] if begins.all() else [f"{charset(~begins)}+"]
    if unsure.any():
        gap.append(f"(?!{pattern}){charset(unsure)}")
    return f"{pattern}|(?:{'|'.join(gap)})+" if gap else pattern


@dataclass(frozen=True, slots=True)
class _First:
    """What a match may begin with.

    ``begins``: the atoms with which a match may begin.  ``sure``: those at which one always does, whatever comes
    before and behind.  ``may_be_empty``, ``is_free``: whether it may match without a character, and always can.
    """

    begins: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    may_be_empty: bool
    is_free: bool


def _first(node: Node, atoms: Atoms) -> _First:
    none = np.zeros(atoms.count, np.bool_)
    match node:
        case One(set):
            return _First(atoms.of(set), atoms.of(set), False, False)
        case Concat(items):
            found = _First(none, none, True, True)
            for item in reversed(items):
                head = _first(item, atoms)
                begins = head.begins | found.begins if head.may_be_empty else head.begins
                sure = head.sure if found.is_free else none
                sure = sure | found.sure if head.is_free else sure
                free = head.is_free and found.is_free
                found = _First(begins, sure, head.may_be_empty and found.may_be_empty, free)
            return found
        case Alternation(branches):
            heads = [_first(branch, atoms) for branch in branches]
            return _First(
                np.logical_or.reduce([head.begins for head in heads]),
                np.logical_or.reduce([head.sure for head in heads]),
                any(head.may_be_empty for head in heads),
                any(head.is_free for head in heads),
            )
        case Repeat(item, low, high, _):
            head = _first(item, atoms)
            sure = head.sure if low <= 1 and high != 0 else none
            return _First(head.begins, sure, low == 0 or head.may_be_empty, low == 0 or head.is_free)
        case Atomic(item):
            head = _first(item, atoms)
            return _First(head.begins, none, head.may_be_empty, False)
        case LookAhead() | LookBehind() | TextEnd():
            return _First(none, none, True, False)


def _class(codes: NDArray[np.int64]) -> str:
    """A bracket expression for sorted codes below 256; one that nothing matches if there are none."""
    if len(codes) == 0:
        return "(?!)"
    breaks = np.flatnonzero(np.diff(codes) != 1)
    lows, highs = codes[np.r_[0, breaks + 1]], codes[np.r_[breaks, len(codes) - 1]]
    return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in zip(lows, highs, strict=True)) + "]"
