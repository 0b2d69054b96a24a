"""``Replace`` where the pattern is a set of characters, or runs of them: ``\\s+`` by a space, marks by nothing.

What is in the set is the engine's word (:mod:`~toktier.patterns.charsets`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .errors import UnsupportedPatternError
from .lazy import lazy
from .patterns.charsets import members
from .patterns.syntax import Node, One, Repeat, SetExpr, parse


class SetReplacement:
    """Replaces the matches of ``source`` by ``content``, which is one character or none.

    ``engine`` does the same, and does it where the pattern is no set.
    """

    def __init__(self, source: str, content: str, engine: Callable[[str], str]) -> None:
        self._source, self._content, self._engine = source, content, engine

    def __call__(self, segments: list[str]) -> list[str]:
        """Each segment normalized as a text of its own."""
        replace = self._engine if self._inside is None else self._replace
        return [replace(segment) for segment in segments]

    def _replace(self, text: str) -> str:
        assert self._inside is not None
        codec = "ascii" if text.isascii() and self._content.isascii() else "utf-32-le"
        width: type[np.unsignedinteger] = np.uint8 if codec == "ascii" else np.uint32
        codes = np.frombuffer(text.encode(codec), width)
        inside = self._inside.take(codes)
        if not inside.any():
            return text
        kept = ~inside
        if self._content:
            codes = np.where(inside, codes.dtype.type(ord(self._content)), codes)
            kept[:1] = True
            if self._in_runs:
                kept[1:] |= ~inside[:-1]
            else:
                kept[:] = True
        return codes[kept].tobytes().decode(codec)

    @lazy
    def _inside(self) -> NDArray[np.bool_] | None:
        """Which code points the set holds."""
        found = _set_of(self._pattern)
        return None if found is None else members(found)

    @property
    def _in_runs(self) -> bool:
        return isinstance(self._pattern, Repeat)

    @lazy
    def _pattern(self) -> Node | None:
        try:
            return parse(self._source)
        except UnsupportedPatternError:
            return None


def _set_of(pattern: Node | None) -> SetExpr | None:
    match pattern:
        case One(set) | Repeat(One(set), 1, None, False):
            return set
    return None
