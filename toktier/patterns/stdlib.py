"""Writing a pattern for the standard library's ``re``, character sets spelled out.

Two alphabets are used: the text itself, for ASCII texts, and the bytes that number its atoms, for all
others.  Either way ``re`` knows nothing of Unicode's classes; they come from the engine's sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .atoms import Atoms
from .syntax import Alternation, Chars, Concat, LineEnd, LookAhead, Node, One, Repeat, SetExpr

_LINE_FEED = Chars(((10, 10),))


def compile_ascii(node: Node, atoms: Atoms, has_gaps: bool) -> re.Pattern[str]:
    """The pattern for texts of ASCII characters; its matches are the pieces."""
    ascii_atoms = atoms.of_code_point[:128]
    return re.compile(_write(node, lambda s: _class(np.flatnonzero(atoms.of(s)[ascii_atoms])), has_gaps))


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
            case LookAhead(set, negated):
                return f"(?{'!' if negated else '='}{charset(set)})"
            case LineEnd():
                return f"(?={charset(_LINE_FEED)}|\\Z)"

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
