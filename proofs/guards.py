"""The guards of ``proofs/README.md``, section 6: added tokens and normalizers, tried where exhaustion is possible.

Two things are tried, and the reference engine is the judge of both.  *Cuts of small tokenizers*: each has a
normalizer or added tokens that a guard is about, and a few characters that meet them; its certificate is derived
as that of any tokenizer, and every certified cut of every short text must keep its promise.  *Inert characters*:
every code point that is called inert stands behind and before what could touch it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers

from toktier.added_tokens import as_loaded
from toktier.certificates.cuts import Cuts
from toktier.certificates.derive import derive_certificate
from toktier.certificates.literals import literals_of
from toktier.normalization import composing_groups, inert_table, unicode_forms
from toktier.pipeline import Pipeline, parse
from toktier.records import replace

Inert: TypeAlias = Mapping[str, NDArray[np.bool_]]

# --- cuts of small tokenizers -----------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """A tokenizer with something to guard against.

    ``characters``: of the texts that are tried, all of up to ``longest`` characters.  ``tokens``: the added
    tokens, each with its flags.  ``pattern``: pieces are its matches and the gaps between them.
    """

    name: str
    characters: str
    normalizer: Mapping[str, Any] | None = None
    tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pattern: str = r"\p{L}+|\s+(?!\S)|."
    longest: int = 5

    def texts(self) -> list[str]:
        """Every text that is tried; with a text all of its parts."""
        lengths = range(1, self.longest + 1)
        return ["".join(text) for length in lengths for text in product(self.characters, repeat=length)]

    def document(self) -> dict[str, Any]:
        """As a ``tokenizer.json``; the model joins any two characters, which shows where pieces begin."""
        normalize = Tokenizer.from_str(json.dumps(_document(self.normalizer, {}, [], ""))).normalizer
        texts = self.texts()
        seen = [*texts, *(normalize.normalize_str(text) for text in texts if normalize is not None)]
        characters = sorted({*"".join(seen)})
        pairs = list(product(characters, repeat=2))
        vocabulary = {token: id for id, token in enumerate([*characters, *map("".join, pairs)])}
        document = _document(self.normalizer, vocabulary, pairs, self.pattern)
        names = ("single_word", "lstrip", "rstrip", "normalized", "special")
        document["added_tokens"] = [
            {"id": len(vocabulary) + number, "content": content} | {name: name in flags for name in names}
            for number, (content, flags) in enumerate(self.tokens.items())
        ]
        return document


def _document(normalizer: Any, vocabulary: Any, merges: Any, pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": split if pattern else None,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(pair) for pair in merges]},
    }


@dataclass(frozen=True)
class Tried:
    """How many certified cuts of texts were tried, and the first that broke its promise: ``left|right``."""

    cuts: int
    refuted: str | None


def try_cuts(
    guarded: Guarded,
    believed: Callable[[Pipeline], Pipeline] = lambda pipeline: pipeline,
    inert: Inert | None = None,
) -> Tried:
    """Try every certified cut of every text.

    ``believed`` and ``inert`` tell the derivation something else than what is the case.
    """
    document = guarded.document()
    vocabulary = document["model"]["vocab"]
    pipeline = parse(document)
    pipeline = believed(replace(pipeline, added_tokens=as_loaded(pipeline.added_tokens, vocabulary)))
    tables = inert or {form: inert_table(form) for form in unicode_forms(pipeline.normalizer)}
    certificate = derive_certificate(pipeline, vocabulary, tables)
    cuts = Cuts(certificate, literals_of(pipeline, tables)).with_token_ends()

    texts = guarded.texts()
    whole = _ids(document, texts)
    bare = _without_prefix(guarded.normalizer)
    rest = _ids(document | {"normalizer": bare}, texts)
    # without its prefix the engine adds none after added tokens either
    unjudged = guarded.tokens if bare != guarded.normalizer else ()
    restarting: dict[str, set[int]] = {}
    tried = 0
    for text in texts:
        closing = set(cuts.all(text, True).tolist())
        # a cut stays one whatever is appended
        restarting[text] = {*cuts.all(text).tolist(), *restarting.get(text[:-1], ())}
        for cut in restarting[text]:
            if any(content in text[cut:] for content in unjudged):
                continue
            tried += 1
            left = whole[text[: cut + 1]]
            left = left[: len(left) - len(rest[text[cut]])]
            right = rest[text[cut:]]
            if left + right != whole[text] or (cut in closing and whole[text[:cut]] + right != whole[text]):
                return Tried(tried, f"{text[:cut]}|{text[cut:]}")
    return Tried(tried, None)


def _ids(document: Mapping[str, Any], texts: Sequence[str]) -> dict[str, list[int]]:
    engine = Tokenizer.from_str(json.dumps(document))
    found = engine.encode_batch_fast(list(texts), add_special_tokens=False)
    return {text: encoding.ids for text, encoding in zip(texts, found, strict=True)}


def _without_prefix(normalizer: Any) -> Any:
    """What goes on from a cut gets no prefix."""
    match normalizer:
        case {"type": "Prepend"}:
            return None
        case {"type": "Sequence", "normalizers": steps}:
            return {"type": "Sequence", "normalizers": [s for s in map(_without_prefix, steps) if s is not None]}
    return normalizer


def _row(*steps: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": [*steps]}


def _replaced(kind: str, old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


_NFC, _LOWER = {"type": "NFC"}, {"type": "Lowercase"}
_BERT = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}

GUARDED: Mapping[str, Guarded] = {
    guarded.name: guarded
    for guarded in (
        Guarded("added tokens", "ab<> ", tokens={"<a>": (), "a<": (), "<a>b": (), " b": ("special",)}),
        Guarded("added, lstrip", "ab< ", tokens={"<a": ("lstrip",), "b<": ()}, pattern=r"\p{L}+|."),
        Guarded("added, rstrip", "ab< ", tokens={"<a": ("rstrip",), "b<": ()}, pattern=r"\p{L}+|."),
        Guarded("added, single_word", "ab< ", tokens={"ab": ("single_word",), "<": ()}),
        Guarded("added, normalized", "aAbB ", _LOWER, {"ab": ("normalized",), "A ": ()}),
        # an é in a row is a piece of its own
        Guarded("NFC", "ae\u0301\u0327 ", _NFC, pattern=r"aé|\p{L}\p{M}?|\s+(?!\S)|."),
        Guarded("NFC, Hangul", "\u1100\u1161\u11a8각a", _NFC, pattern=r"[가-힣]+|."),
        Guarded("NFC, added", "e\u0301 a", _NFC, {"é ": ("normalized",), "a": ()}),
        Guarded("NFD", "eéȩ\u0327 ", {"type": "NFD"}, pattern="."),
        Guarded("NFKC", "ﬁi\u0301f ", {"type": "NFKC"}, pattern=r"fi|\p{L}+|."),
        Guarded("NFC, Lowercase", "AE\u0301k\u212a", _row(_NFC, _LOWER), pattern=r"aé|\p{L}\p{M}?|."),
        Guarded("Lowercase", "aAİI ", _LOWER, pattern=r"[a-z]+|i\u0307|."),
        Guarded("Strip", "ab_ ", {"type": "Strip", "strip_left": True, "strip_right": True}),
        Guarded("Replace", "ab_ ", _replaced("String", "ab", "_"), pattern="."),
        Guarded("Replace, pattern", "ab \n", _replaced("Regex", " +", " "), pattern="."),
        Guarded(
            "Prepend", "ab_ ", _row({"type": "Prepend", "prepend": "_"}, _replaced("String", " ", "_")), {"b": ()}
        ),
        Guarded("BertNormalizer", "aÀ中\u0301 ", _BERT),
    )
}


# --- inert characters -------------------------------------------------------------------

#: The Unicode forms.
FORMS = {"NFC": normalizers.NFC, "NFD": normalizers.NFD, "NFKC": normalizers.NFKC, "NFKD": normalizers.NFKD}
Normalize: TypeAlias = Callable[[str], str]
#: No character; it parts what is tried from what is tried next.
_BREAK = "\ufdd0"
_SOME_BEHIND = ("\u0334", "\u0301", "\u1161", "\u11a8")


def refuted_inert(form: str, inert: NDArray[np.bool_]) -> str | None:
    """A text in which an inert code point changes, or is touched by what stands before it; None if there is none.

    Every inert code point is tried behind marks of the least and of the greatest class, and behind characters
    that, taken together, compose with all that compose with anything; and before some of what it may compose with
    itself, by which it must become a character of its group.  What begins a composing pair is tried before all of
    that.
    """
    normalize: Normalize = FORMS[form]().normalize_str
    pairs = _composing_pairs()
    composes = form in ("NFC", "NFKC")
    befores = ["a\u0334", "a\u0345"] + (_cover(pairs) if composes else [])
    behinds = _SOME_BEHIND if composes else _SOME_BEHIND[:1]
    groups = {character: frozenset(group) for group in composing_groups(form) for character in group}
    inside = np.flatnonzero(inert)
    for codes in np.array_split(inside, max(1, len(inside) // 1024)):
        characters = [*map(chr, codes.tolist())]
        for before in befores:
            kept = normalize(before)
            after = normalize(_BREAK.join([before + character for character in characters]))
            if after != _BREAK.join([kept + character for character in characters]):
                return before + next(c for c in characters if normalize(before + c) != kept + c)
        found = _touched(normalize, groups, [*product(characters, behinds)])
        if found is not None:
            return found
    firsts = [first for first in pairs if inert[ord(first)]]
    return _touched(normalize, groups, [*product(firsts, frozenset[str]().union(*pairs.values()))])


def _each(normalize: Normalize, texts: Sequence[str]) -> list[str]:
    return normalize(_BREAK.join(texts)).split(_BREAK)


def _touched(
    normalize: Normalize, groups: Mapping[str, frozenset[str]], pairs: Sequence[tuple[str, str]]
) -> str | None:
    """The first pair whose first character what stands before it touches, or that leaves the character's group."""
    before = "a\u0345"
    alone = _each(normalize, [first + second for first, second in pairs])
    behind = _each(normalize, [before + first + second for first, second in pairs])
    for (first, second), one, two in zip(pairs, alone, behind, strict=True):
        if two != before + one or (one[0] != first and one[0] not in groups.get(first, ())):
            return before + first + second
    return None


def _composing_pairs() -> dict[str, frozenset[str]]:
    """For each character that some decomposition begins with, what follows in these."""
    characters = [chr(code) for code in range(0x40000) if not 0xD800 <= code < 0xE000 and code != ord(_BREAK)]
    found: dict[str, set[str]] = {}
    for some in range(0, len(characters), 1024):
        for parts in _each(FORMS["NFD"]().normalize_str, characters[some : some + 1024]):
            if len(parts) > 1:
                found.setdefault(parts[0], set()).update(parts[1:])
    return {first: frozenset(seconds) for first, seconds in found.items()}


def _cover(pairs: Mapping[str, frozenset[str]]) -> list[str]:
    """First characters of composing pairs, as few as greed finds, with which all seconds compose that any does."""
    compose = FORMS["NFC"]().normalize_str
    left = {
        first: {second for second in seconds if len(compose(first + second)) == 1}
        for first, seconds in pairs.items()
    }
    chosen: list[str] = []
    while True:
        best = max(left, key=lambda first: len(left[first]))
        if not left[best]:
            return chosen
        chosen.append(best)
        covered = set(left[best])
        for seconds in left.values():
            seconds -= covered
