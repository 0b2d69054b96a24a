"""Normalizing text exactly as the reference does, touching only what changes.

The Unicode forms come from the reference's own ``normalize_str``: its tables
are older than Python's, and ``unicodedata`` gives other strings.  But the
engine is slow, and nearly all characters of nearly all texts are *inert*: the
form leaves them alone and they do not interact with what stands before them.
Only the stretches around the others are sent to the engine.

Why that is exact.  Let ``n`` be a composing form (NFC, NFKC) and ``d`` its
decomposition (NFD, NFKD).  The engine decomposes, sorts each run of marks
(combining class above 0) by class, and composes a character with the last
starter (class 0) before it if the pair is in its table.  Call ``b`` a *barrier* if
the first character of ``d(b)`` is a starter and is never the second of a
composing pair.  At a barrier the sorting ends (marks do not pass a starter) and
composing starts afresh with that starter, whatever stood before, so for all
texts x and y::

    n(x + b + y) = n(x) + n(b + y)

An inert character is a barrier with ``n(b) = b``.  Between two neighbouring inert
characters b and c it follows that ``n(x + b + c + y) = n(x + b) + n(c + y)``, and a
maximal stretch of inert characters comes out as it went in, except that its last
one may compose with what follows.  So the text falls apart into (the last inert
character before +) each maximal run of other characters, and the rest, which stays.
A control character is a barrier that composes with nothing, which makes it a
separator with which many stretches go through the engine in one call.  For NFD and
NFKD the same holds without composing.

The second characters of composing pairs all occur behind the first place of the
decomposition of some character, so they are found by decomposing everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers

from .character_map import BY_CHARACTER, CharacterMap
from .errors import ArtifactError, UnsupportedPatternError
from .pipeline import Literal, Normalizer, NormalizerSequence, Other, Prepend, Regex, Replace, UnicodeForm

#: Stands among the Unicode forms for the characters that SentencePiece's maps leave alone.
CHARSMAPS = "charsmaps"

_FORMS: dict[str, Callable[[], normalizers.Normalizer]] = {
    "NFC": normalizers.NFC,
    "NFD": normalizers.NFD,
    "NFKC": normalizers.NFKC,
    "NFKD": normalizers.NFKD,
}
_DECOMPOSITION = {"NFC": "NFD", "NFD": "NFD", "NFKC": "NFKD", "NFKD": "NFKD"}

# Planes 0 to 3 hold every assigned character with a decomposition or a combining class;
# what lies above is not called inert, so it goes through the engine.
_PROBED = 0x40000

# Control characters, each a possible separator: the first that the text lacks is taken.
_SEPARATORS = "\x00\x01\x02\x03\x04\x05\x06\x07\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17"

# Stretches this close together are sent as one: a Python-level step costs as much as
# the engine spends on a few characters.
_MERGE_GAP = 3


#: The other types of normalizer that are one step; an engine that does not know a type goes by the fields.
_ONE_STEP = (*BY_CHARACTER, "ByteLevel", "Nmt", "Precompiled", "Strip")

# Between the probes stands a noncharacter: it is in no Unicode table, ever.
_BREAK = "\ufdd0"


@cache
def _probe(form: str) -> tuple[NDArray[np.bool_], dict[str, str]]:
    """What the engine knows under a decomposing form ("NFD" or "NFKD").

    Returns a table over all code points of those that are left alone and have combining
    class 0, and the decompositions of the others among the probed ones.
    """
    decompose = _FORMS[form]().normalize_str
    plain = np.zeros(0x110000, np.bool_)
    others: list[str] = []
    step = 1024  # long strings are slow in the engine, and so are many calls
    for first in range(0, _PROBED, step):
        if 0xD800 <= first < 0xE000:  # surrogates are no characters
            continue
        codes = np.arange(first, first + step, dtype=np.uint32)
        codes = codes[codes != ord(_BREAK)]
        text = codes.tobytes().decode("utf-32-le")
        # U+0334 has class 1 and U+0345 class 240, the least and the greatest.  Sorting would
        # mix those before a mark with those after it; class 0 keeps them apart.
        probe = "\u0345" + "\u0334\u0345".join(text) + "\u0334"
        if decompose(probe) == probe:
            plain[codes] = True
            continue
        # The same one by one: a mark moves before U+0345, or U+0334 before the mark.
        probe = "\u0345" + f"\u0334{_BREAK}\u0345".join(text) + "\u0334"
        after = decompose(probe).split(_BREAK)
        same = [a == b for a, b in zip(after, probe.split(_BREAK), strict=True)]
        plain[codes[same]] = True
        others += [character for character, kept in zip(text, same, strict=True) if not kept]
    return plain, dict(zip(others, decompose(_BREAK.join(others)).split(_BREAK), strict=True))


@cache
def inert_table(form: str) -> NDArray[np.bool_]:
    """Which code points are inert under ``form`` ("NFC", "NFD", "NFKC" or "NFKD").

    Shape (0x110000,), read-only; probed from the engine once per process.  The form leaves
    an inert character alone, and nothing that stands before it interacts with it.
    """
    plain, decompositions = _probe(_DECOMPOSITION[form])
    inert = plain.copy()
    if form in ("NFC", "NFKC"):
        composed = _FORMS[form]().normalize_str(_BREAK.join(decompositions)).split(_BREAK)
        for (character, parts), back in zip(decompositions.items(), composed, strict=True):
            inert[ord(character)] = back == character and plain[ord(parts[0])]
        seconds = {c for parts in _probe("NFD")[1].values() for c in parts[1:]}
        for character, parts in decompositions.items():
            if parts[0] in seconds:
                inert[ord(character)] = False
        inert[[ord(character) for character in seconds]] = False
    inert.setflags(write=False)
    return inert


def composing_groups(form: str) -> list[tuple[str, ...]]:
    """Characters that decompose into the same first one, that one included, as far as a form composes.

    Nothing before an inert character touches it, but under NFC and NFKC it may compose with the marks *behind* it.
    What it becomes is then a character of its group.
    """
    if form not in ("NFC", "NFKC"):
        return []
    found: dict[str, list[str]] = {}
    for character, parts in _probe("NFD")[1].items():
        if len(parts) > 1:
            found.setdefault(parts[0], [parts[0]]).append(character)
    return [tuple(characters) for characters in found.values()]


# --- steps -------------------------------------------------------------------------

# A step takes segments and gives them back normalized, each for itself; segments that
# it leaves alone are the same objects, and if it leaves all alone, so is the list.
_Step: TypeAlias = Callable[[list[str]], list[str]]


def _each(function: Callable[[str], str]) -> _Step:
    return lambda segments: [function(segment) for segment in segments]


def engine_normalizer(source: str) -> normalizers.Normalizer:
    """The reference's own normalizer from the JSON text of its part of a ``tokenizer.json``.

    Raises :class:`~toktier.errors.ArtifactError` where the reference refuses it.
    """
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": json.loads(source),
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {}, "unk_token": ""},
    }
    try:
        normalizer: normalizers.Normalizer = Tokenizer.from_str(json.dumps(document)).normalizer
    except Exception as problem:  # the reference raises bare Exception
        raise ArtifactError(f"the reference refuses this normalizer: {problem}") from problem
    return normalizer


_NOWHERE: NDArray[np.intp] = np.empty(0, np.intp)
#: In texts of fewer characters looking at all of them is faster than finding those beyond ASCII first.
_FEW = 1 << 13
#: So few active characters are found one by one.
_SINGLE = 64
_ZERO = re.compile(b"\0")


class _Form:
    """A Unicode form, run by the engine on the stretches that need it."""

    def __init__(self, form: str, inert: NDArray[np.bool_] | None) -> None:
        self._composing = form in ("NFC", "NFKC")
        self._normalize = _FORMS[form]().normalize_str
        self._form = form
        self._inert = inert

    def untouched(self, text: str) -> bool:
        """Whether every character of ``text`` is inert."""
        return text.isascii() or not len(self._active(text))

    def _active(self, text: str) -> NDArray[np.intp]:
        """Positions of the characters that are not inert."""
        inert = inert_table(self._form) if self._inert is None else self._inert
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        if len(points) < _FEW:
            flags = inert[points].tobytes()  # as bytes: see PythonBackend._stand_in
            count = flags.count(0)
            if count == 0:
                return _NOWHERE
            if count < _SINGLE:
                return np.array([match.start() for match in _ZERO.finditer(flags)], np.intp)
        beyond = points >= 0x80  # ASCII is inert under every form
        if np.count_nonzero(beyond) < len(points) // 8:
            positions = np.flatnonzero(beyond)
            return positions[~inert.take(points[positions])]
        quiet = inert.take(points)
        return _NOWHERE if quiet.all() else np.flatnonzero(~quiet)

    def __call__(self, segments: list[str]) -> list[str]:
        text = segments[0] if len(segments) == 1 else "".join(segments)
        if text.isascii():
            return segments
        active = self._active(text)
        if not len(active):
            return segments

        # Runs of active characters, cut where a segment begins, each with the inert character before it, with
        # which it may compose.
        ends = [*accumulate(map(len, segments))]
        begins = [0, *ends]
        owner = np.searchsorted(ends, active, side="right")
        apart = active[1:] - active[:-1] > 1 + self._composing + _MERGE_GAP
        apart |= owner[1:] != owner[:-1]
        last = np.append(np.flatnonzero(apart), len(active) - 1)
        first = np.append(0, last[:-1] + 1)
        spans = zip(owner[first].tolist(), active[first].tolist(), active[last].tolist(), strict=True)
        bounds = [(own, max(start - self._composing, begins[own]), stop + 1) for own, start, stop in spans]
        fresh = self._run([text[start:stop] for _, start, stop in bounds])

        # Put the stretches back, segment by segment.
        result = list(segments)
        pieces: list[str] = []
        position, current = 0, -1
        for (segment, start, stop), new in zip(bounds, fresh, strict=True):
            if segment != current:
                if current >= 0:
                    pieces.append(text[position : ends[current]])
                    result[current] = "".join(pieces)
                pieces, position, current = [], begins[segment], segment
            pieces += (text[position:start], new)
            position = stop
        pieces.append(text[position : ends[current]])
        result[current] = "".join(pieces)
        return result

    def _run(self, stretches: list[str]) -> list[str]:
        joined = "".join(stretches)
        for separator in _SEPARATORS:
            if separator not in joined:
                return self._normalize(separator.join(stretches)).split(separator)
        return [self._normalize(stretch) for stretch in stretches]


def unicode_forms(normalizer: Normalizer | None) -> frozenset[str]:
    """The Unicode forms whose :func:`inert_table` a :class:`TextNormalizer` will look at."""
    match normalizer:
        case UnicodeForm(form):
            return frozenset((form,))
        case NormalizerSequence(steps):
            return frozenset().union(*map(unicode_forms, steps))
    return frozenset()


def _steps(normalizer: Normalizer | None, inert: Mapping[str, NDArray[np.bool_]]) -> list[_Step]:
    match normalizer:
        case None:
            return []
        case NormalizerSequence(steps):
            return [step for inner in steps for step in _steps(inner, inert)]
        case UnicodeForm(form):
            return [_Form(form, inert.get(form))]
        case Prepend(prefix):
            return [_each(lambda segment: prefix + segment if segment else segment)]
        case Replace(Literal(old), new) if old:
            return [_each(lambda segment: segment.replace(old, new))]
        case Replace(Literal(old), new):
            pattern = {"String": old}
        case Replace(Regex(source), new):
            pattern = {"Regex": source}
        case Other(type, source) if type in BY_CHARACTER:
            return [CharacterMap(engine_normalizer(source))]
        case Other("Precompiled", source) if CHARSMAPS in inert:
            from .cluster_map import ClusterMap  # which only SentencePiece's maps need

            return [ClusterMap(engine_normalizer(source), inert[CHARSMAPS])]
        case Other(_, source):
            return [_each(engine_normalizer(source).normalize_str)]
    replace = engine_normalizer(json.dumps({"type": "Replace", "pattern": pattern, "content": new})).normalize_str
    if "Regex" in pattern and len(new) < 2:
        from .set_replacement import SetReplacement  # with the parser of patterns, which few tokenizers need

        return [SetReplacement(pattern["Regex"], new, replace)]
    return [_each(replace)]


def left_to_reference(normalizer: Normalizer | None) -> str | None:
    """Why the reference alone can run a normalizer, or None.

    Where something is inserted at an empty match, what the reference's ``encode`` sees is not what its
    ``normalize_str`` gives (it repeats what stands at the start, and for some texts it fails).
    """
    match normalizer:
        case NormalizerSequence(steps):
            return next(filter(None, map(left_to_reference, steps)), None)
        case Prepend("") | Replace(Literal(""), _):
            return "the normalizer replaces the empty string"
        case Other(type, _) if type not in _ONE_STEP:
            return f"the type of the normalizer is {type}, and its fields alone say what it is"
        case Replace(Regex(source), _):
            from .patterns.syntax import can_be_empty  # large, and hardly ever needed
            from .patterns.syntax import parse as parse_pattern

            try:
                if not can_be_empty(parse_pattern(source)):
                    return None
            except UnsupportedPatternError:
                pass
            return f"the normalizer replaces matches of {source!r}, which may be empty"
    return None


def has_prefix(normalizer: Normalizer | None) -> bool:
    """Whether texts are given a prefix, so that what follows an added token is no continuation."""
    match normalizer:
        case NormalizerSequence(steps):
            return any(map(has_prefix, steps))
        case Prepend():
            return True
    return False


def without_prefix(normalizer: Normalizer | None) -> Normalizer | None:
    """A normalizer without its ``Prepend`` steps; None if nothing is left."""
    match normalizer:
        case NormalizerSequence(steps):
            kept = (without_prefix(step) for step in steps)
            return NormalizerSequence(tuple(step for step in kept if step is not None))
        case Prepend():
            return None
    return normalizer


def _is_substitution(normalizer: Normalizer | None) -> bool:
    match normalizer:
        case None:
            return True
        case NormalizerSequence(steps):
            return all(map(_is_substitution, steps))
        case Replace(Literal(old), new):
            return len(old) == len(new) == 1
    return False


class TextNormalizer:
    """Runs the normalizer of an artifact.  Immutable, safe to share between threads.

    ``inert``: results of :func:`inert_table` for this very engine, by form.  One that is
    not given is probed when a text first needs it.  An entry for :data:`CHARSMAPS` is what
    :func:`~toktier.charsmap.inert_characters` found; without, their normalizers get whole texts.
    """

    def __init__(
        self, normalizer: Normalizer | None, *, inert: Mapping[str, NDArray[np.bool_]] | None = None
    ) -> None:
        self._steps = _steps(normalizer, inert or {})
        self.is_identity = not self._steps
        """Whether no text is ever changed."""
        self.is_substitution = _is_substitution(normalizer)
        """Whether each character is replaced by one character, whatever is around it."""

    def normalize(self, text: str) -> str:
        """``text`` after normalizing, equal to the reference's ``normalize_str``."""
        return self.normalize_segments([text])[0]

    def normalize_segments(self, segments: list[str]) -> list[str]:
        """Each segment normalized as a text of its own.

        Returns the very list that came in if no segment changes by a step known to be
        inert on it, so ``is`` is a cheap test for "nothing happened".
        """
        for step in self._steps:
            segments = step(segments)
        return segments

    def leaves_alone(self, text: str) -> bool:
        """Whether ``text`` certainly comes out as it is, as far as can be told cheaply."""
        return all(isinstance(step, _Form) and step.untouched(text) for step in self._steps)
