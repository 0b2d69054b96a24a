"""Where a normalizer works on both sides of a place apart.

For every normalizer that is understood, two tables over code points say enough.  Let a and b be neighbours in a
raw text that are both *allowed*, and n the normalizer.  Then for every x that ends in a and every y that begins
with b::

    n(x y) = n(x) n'(y)

where n' is n without its ``Prepend`` steps (a text gets its prefix once, at its start), and the normalized
characters at the seam are ``mapped[a]`` and ``mapped[b]``, or any in the group of b instead of the latter.  Step
by step:

* A Unicode form: its inert characters (:mod:`~toktier.normalization` has the proof).  What stands before an inert
  character does not touch it, but a mark behind it may: ``e`` becomes ``é``, which a pattern may tell from it.
* ``Replace`` of a literal: a match that lay across the seam would hold a or b, so the characters of a longer
  literal are not allowed.  One character that becomes one character is mapped.
* ``Replace`` of a pattern: a match consumes, and its assertions look at, members of the pattern's sets only; these
  are not allowed, and a pattern with negated sets leaves little.
* ``Lowercase``, ``StripAccents``: the engine works character by character; those that become one character are
  allowed.
* ``Strip`` takes white space from the ends of a text: white space is not allowed, so what it takes lies on one
  side.
* ``BertNormalizer`` cleans, pads Chinese characters, decomposes (NFD), drops marks and lower-cases.  All but NFD
  work character by character, and NFD never moves a mark past a starter.  ASCII characters are starters; those
  that become one character are allowed.
* ``Precompiled`` looks at grapheme clusters.  ASCII characters that become one character are allowed, but for
  those that end lines; a cluster that one begins may become something else (:mod:`~toktier.charsmap` has the
  proof).

A step sees what the step before it made, hence the tables are composed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..added_tokens import white_space
from ..charsmap import ascii_becomes
from ..errors import UnsupportedPatternError
from ..normalization import composing_groups, engine_normalizer, left_to_reference
from ..patterns.charsets import CODE_POINTS, SURROGATES, members
from ..patterns.syntax import parse, sets_of
from ..pipeline import Literal, Normalizer, NormalizerSequence, Other, Prepend, Regex, Replace, UnicodeForm

_SEPARATOR = "\x00"
_NOTHING: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Seams:
    """``allowed``: bool (0x110000,); ``mapped``: int64 (0x110000,), meaningful where allowed.

    ``group``: int64 (0x110000,), the number in ``groups`` of the code points that each may become; the first of
    these is empty: the character stays what it is mapped to.
    """

    allowed: NDArray[np.bool_]
    mapped: NDArray[np.int64]
    group: NDArray[np.int64]
    groups: tuple[NDArray[np.int64], ...]


def seams(normalizer: Normalizer | None, inert: Mapping[str, NDArray[np.bool_]]) -> Seams | str:
    """The two tables, or why there are none.  ``inert``: the tables of the Unicode forms that are used."""
    reason = left_to_reference(normalizer)
    if reason is not None:
        return reason
    match normalizer:
        case None | Prepend():
            return _identity(np.ones(CODE_POINTS, np.bool_))
        case UnicodeForm(form):
            return _form(form, inert[form])
        case NormalizerSequence(steps):
            total = _identity(np.ones(CODE_POINTS, np.bool_))
            for step in steps:
                found = seams(step, inert)
                if isinstance(found, str):
                    return found
                total = _then(total, found)
            return total
        case Replace(Literal(old), new):
            return _replace(old, new)
        case Replace(Regex(source), _):
            try:
                sets = sets_of(parse(source))
            except UnsupportedPatternError as problem:
                return f"the normalizer's {problem}"
            return _identity(~np.logical_or.reduce([members(expression) for expression in sets]))
        case Other("Lowercase" | "StripAccents", source):
            return _probed(_changed_alone(source), others=True)
        case Other("Strip", _):
            allowed = np.ones(CODE_POINTS, np.bool_)
            allowed[[ord(char) for char in white_space()]] = False
            allowed[[code for code in range(0x3001) if chr(code).isspace()]] = False
            return _identity(allowed)
        case Other("BertNormalizer", source):
            normalize = engine_normalizer(source).normalize_str
            return _probed(((code, normalize(chr(code))) for code in range(0x80)), others=False)
        case Other("Precompiled", source):
            return _clusters(ascii_becomes(source))
        case Other(type, _):
            return f"what the normalizer {type} does around a place is not known here"
    raise AssertionError(normalizer)


def _form(form: str, inert: NDArray[np.bool_]) -> Seams:
    groups = [np.array([ord(char) for char in characters]) for characters in composing_groups(form)]
    group = np.zeros(CODE_POINTS, np.int64)
    for number, codes in enumerate(groups, 1):
        group[codes] = number
    return Seams(inert, np.arange(CODE_POINTS), group, (_NOTHING, *groups))


def _then(one: Seams, other: Seams) -> Seams:
    """One step after another."""
    allowed = one.allowed & other.allowed[one.mapped]
    groups = [_NOTHING]
    for codes in one.groups[1:]:
        after = [other.groups[number] for number in np.unique(other.group[codes]).tolist()]
        groups.append(np.unique(np.concatenate((other.mapped[codes], *after))))
    sure = np.array([bool(other.allowed[codes].all()) for codes in one.groups])
    allowed &= sure[one.group]
    group = np.where(one.group > 0, one.group, other.group[one.mapped] + len(groups) - 1)
    group[(one.group == 0) & (other.group[one.mapped] == 0)] = 0
    return Seams(allowed, other.mapped[one.mapped], group, (*groups, *other.groups[1:]))


def _identity(allowed: NDArray[np.bool_]) -> Seams:
    return Seams(allowed, np.arange(CODE_POINTS), np.zeros(CODE_POINTS, np.int64), (_NOTHING,))


def _replace(old: str, new: str) -> Seams:
    found = _identity(np.ones(CODE_POINTS, np.bool_))
    if len(old) == 1 and len(new) == 1:
        found.mapped[ord(old)] = ord(new)
    else:
        found.allowed[[ord(char) for char in old]] = False
    return found


def _clusters(results: Mapping[str, tuple[str, frozenset[str]]] | None) -> Seams | str:
    """From what clusters that begin with an ASCII character become."""
    if results is None:
        return "the normalizer Precompiled is damaged, or changes ASCII characters by what stands before them"
    found, groups = _identity(np.zeros(CODE_POINTS, np.bool_)), [_NOTHING]
    for char, (alone, others) in results.items():
        if char in "\r\n" or len(alone) != 1 or not all(others):
            continue
        found.allowed[ord(char)] = True
        found.mapped[ord(char)] = ord(alone)
        if others:
            found.group[ord(char)] = len(groups)
            groups.append(np.array(sorted({ord(alone), *(ord(other[0]) for other in others)})))
    return Seams(found.allowed, found.mapped, found.group, tuple(groups))


def _probed(results: Iterable[tuple[int, str]], *, others: bool) -> Seams:
    """From what the engine makes of single characters; ``others`` are left alone, and allowed or not."""
    found = _identity(np.full(CODE_POINTS, others))
    found.allowed[SURROGATES] = False
    for code, after in results:
        found.allowed[code] = len(after) == 1
        if len(after) == 1:
            found.mapped[code] = ord(after)
    return found


def _changed_alone(source: str) -> Iterator[tuple[int, str]]:
    """What a normalizer that works character by character makes of those that it changes, in groups."""
    normalize = engine_normalizer(source).normalize_str
    every = np.delete(np.arange(CODE_POINTS, dtype="<u4"), SURROGATES).tobytes().decode("utf-32-le")
    for start in range(0, len(every), 1024):
        group = every[start : start + 1024]
        joined = _SEPARATOR.join(group)
        together = normalize(joined)
        if together == joined:
            continue
        results = together.split(_SEPARATOR)
        if len(results) == len(group):  # the first group holds the separator, and is asked about one by one
            yield from zip(map(ord, group), results, strict=True)
        else:
            yield from ((ord(char), normalize(char)) for char in group)
