"""Writing a pattern for the standard library's ``re``, character sets spelled out.

``re`` is given nothing that depends on Unicode's classes: they come from the engine's sets.  Two alphabets are
used: the stand-in of a text (:mod:`~toktier.patterns.stand_in`), and the bytes that number the atoms.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .atoms import Atoms
from .stand_in import STAND_IN
from .syntax import Alternation, Atomic, Concat, LookAhead, LookBehind, Node, One, Repeat, SetExpr, TextEnd


def compile_stand_in(node: Node, atoms: Atoms, has_gaps: bool) -> re.Pattern[str]:
    """The pattern for stand-ins of texts; its matches are the pieces."""
    ascii_atoms = atoms.of_code_point[:STAND_IN]

    def charset(expression: SetExpr) -> str:
        inside = atoms.of(expression)
        return _class(np.flatnonzero(np.concatenate((inside[ascii_atoms], inside))))

    return re.compile(_write(node, charset, has_gaps))


def compile_atoms(node: Node, atoms: Atoms, has_gaps: bool) -> re.Pattern[bytes]:
    """The pattern for texts given as one byte per character, the number of its atom."""
    source = _write(node, lambda s: _class(np.flatnonzero(atoms.of(s))), has_gaps)
    return re.compile(source.encode("ascii"))


def _write(node: Node, charset: Callable[[SetExpr], str], has_gaps: bool) -> str:
    def write(node: Node) -> str:
        match node:
            case One(set):
                return charset(set)
            case Concat(items):
                return "".join(f"(?:{write(i)})" if isinstance(i, Alternation) else write(i) for i in items)
            case Alternation(branches):
                return "|".join(write(branch) for branch in branches)
            case Repeat(item, low, high, lazy):
                bounds = f"{{{low},{'' if high is None else high}}}"
                return f"(?:{write(item)}){bounds}{'?' if lazy else ''}"
            case Atomic(item):
                return f"(?>{write(item)})"
            case LookAhead(item, negated):
                return f"(?{'!' if negated else '='}{write(item)})"
            case LookBehind(set, negated):
                return f"(?<{'!' if negated else '='}{charset(set)})"
            case TextEnd():
                return "\\Z"

    pattern = write(node)
    # a maximal stretch of characters at which no match begins is a piece too
    return f"{pattern}|(?:(?!{pattern})[\\x00-\\xff])+" if has_gaps else pattern


def _class(codes: NDArray[np.int64]) -> str:
    """A bracket expression for sorted codes below 256; one that nothing matches if there are none."""
    if len(codes) == 0:
        return "(?!)"
    breaks = np.flatnonzero(np.diff(codes) != 1)
    lows, highs = codes[np.r_[0, breaks + 1]], codes[np.r_[breaks, len(codes) - 1]]
    return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in zip(lows, highs, strict=True)) + "]"
