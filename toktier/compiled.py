"""Everything derived from an artifact, once: tables, machines, patterns.

:func:`compiled` gives the same object for the same artifact whichever way it comes about: from the cache on
disk, from the bundle that ships with an embedded tokenizer, or derived from the ``tokenizer.json``.  All three
are keyed by the fingerprint and by the version of the installed reference, whose Unicode tables they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import cache, hash_tables, packing
from .artifact import Artifact
from .backends.reference import engine_version
from .bpe.barriers import Barriers
from .bpe.byte_stages import ByteStages
from .bpe.pieces import PieceTables, long_tokens
from .bpe.symbols import FirstSymbols, Neighbours
from .bpe.tables import Merges, TokenBytes, word_ends
from .certificates.certificate import ARRAYS, Certificate
from .patterns import lanes, windows
from .patterns.bimachine import Machine
from .patterns.lanes import Splitter
from .patterns.windows import Windows
from .pipeline import Pipeline, parse
from .records import record

if TYPE_CHECKING:
    from .unigram import UnigramTables
    from .wordpiece import WordTables

#: Raise it whenever the meaning of what is stored changes.
FORMAT = 29

_Header = dict[str, Any]
_Arrays = dict[str, NDArray[Any]]


@record
class Split:
    """How the engines cut a text into pieces.

    ``atom_of``: uint8 (0x110000,), the atom of each code point; ``splitter`` runs over atoms;
    ``patterns``: the stages for the standard library's ``re``, over stand-ins of the text
    (:mod:`toktier.patterns.stdlib`).  ``removed``: bool (atoms + 1,), those of characters that the pre-tokenizer
    leaves out of the text, which are in pieces of their own; None if it leaves out none.
    """

    atom_of: NDArray[np.uint8]
    splitter: Splitter
    patterns: tuple[re.Pattern[str], ...]
    removed: NDArray[np.bool_] | None = None


@record
class Engine:
    """What the ``python`` and ``numpy`` backends need."""

    split: Split
    pieces: PieceTables | WordTables | UnigramTables
    byte_level: bool


@record
class Compiled:
    """An artifact, ready to use.

    ``engine`` is None where only the reference can run the model or the pre-tokenizer, and ``reason`` says why.
    ``tokens`` has the bytes of the model's vocabulary (not the added tokens'); ``alphabet``: its strings are
    written in GPT-2's byte alphabet.  ``inert`` holds the tables of
    inert characters of the normalizer's Unicode forms.  ``certificate`` says where texts may be cut.
    """

    fingerprint: str
    pipeline: Pipeline
    tokens: TokenBytes
    alphabet: bool
    inert: Mapping[str, NDArray[np.bool_]]
    certificate: Certificate
    engine: Engine | None
    reason: str | None


def compiled(artifact: Artifact) -> Compiled:
    """Load or derive.  Raises :class:`~toktier.errors.ArtifactError` for a damaged artifact."""
    key = f"compiled {FORMAT} tokenizers {engine_version()} {artifact.fingerprint}"
    bundle = cache.load(key)
    if bundle is not None:
        return _assemble(artifact.fingerprint, bundle.header, bundle.arrays)
    found = shipped(artifact.fingerprint)
    if found is None:
        from .derivation import derived  # a good part of the package, and needed once per artifact

        found = derived(artifact, FORMAT)
    cache.store(key, *found)
    return _assemble(artifact.fingerprint, *found)


def shipped(fingerprint: str) -> tuple[_Header, _Arrays] | None:
    """What was derived for an embedded tokenizer under this version of the reference, if it ships."""
    bundle = packing.load(f"{fingerprint[:12]}.bundle")
    if bundle is None or bundle.header["version"] != [FORMAT, engine_version(), fingerprint]:
        return None
    header, arrays = dict(bundle.header), dict(bundle.arrays)
    suffix = header["document"]["model"].get("end_of_word_suffix") or ""
    hash_tables.fill(header["tables"], arrays, word_ends(_tokens(arrays), suffix))
    return header, arrays


def _tokens(arrays: Mapping[str, NDArray[Any]]) -> TokenBytes:
    return TokenBytes(arrays["blob"], arrays["offsets"], arrays["present"], arrays["in_alphabet"])


def _assemble(fingerprint: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Compiled:
    tokens = _tokens(arrays)
    stored = {name: arrays[f"certificate {name}"] for name in ARRAYS}
    certificate = Certificate(header["refusal"], header["prefix"], header["states"], **stored)
    engine = None
    if header["reason"] is None:
        engine = Engine(_split(header, arrays), _pieces(header, arrays, tokens), bool(header["byte_level"]))
    return Compiled(
        fingerprint,
        parse(header["document"]),
        tokens,
        bool(header["alphabet"]),
        {form: arrays[f"inert {form}"] for form in header["forms"]},
        certificate,
        engine,
        header["reason"],
    )


def _split(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Split:
    return Split(
        arrays["atom_of"],
        _splitter(header, arrays),
        tuple(re.compile(stage["stand-in"]) for stage in header["stages"]),
        arrays.get("removed"),
    )


def _splitter(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Splitter:
    atom_patterns = tuple(re.compile(stage["atoms"].encode("ascii")) for stage in header["stages"])
    stages = tuple(
        lanes.make_stage(
            Machine(arrays[f"oracle {i}"], arrays[f"walk {i}"], stage["first"], stage["has_gaps"]),
            atom_patterns[i],
            arrays[f"closes {i}"],
            _windows(i, arrays),
            stage["needs"],
        )
        for i, stage in enumerate(header["stages"])
    )
    return Splitter(stages, int(header["atoms"]))


def byte_stages(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> ByteStages | None:
    """The stages behind ``ByteLevel``, if there are any."""
    if "byte stages" not in header:
        return None
    own = {name[len("byte ") :]: array for name, array in arrays.items() if name.startswith("byte ")}
    return ByteStages(own["atom_of"], _splitter(header["byte stages"], own))


def _windows(stage: int, arrays: Mapping[str, NDArray[Any]]) -> Windows | None:
    names = [f"windows {stage} {name}" for name in windows.ARRAYS]
    return Windows(*(arrays[name] for name in names)) if names[0] in arrays else None


def _pieces(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], tokens: TokenBytes
) -> PieceTables | WordTables | UnigramTables:
    pairs, whole = hash_tables.read(header["tables"], arrays)
    if "words" in header:
        from .wordpiece import WordTables  # late, like the next: embedded tokenizers do without

        return WordTables(whole, pairs, arrays["accepts"], *header["words"])
    if "unigram" in header:
        from .unigram import UnigramTables

        of_nodes = arrays["accepts"], arrays["scores"]
        more = arrays["of_bytes"], arrays["neighbours"]
        return UnigramTables(whole, pairs, *of_nodes, *more, *header["unigram"])
    neighbours = None
    if header["byte_level"]:
        neighbours = Neighbours(arrays["certified row"], arrays["certified before"], arrays["certified after"])
    of_last, fused = arrays.get("of_last"), header.get("fused")
    first = FirstSymbols(arrays["of_byte"], arrays["of_character"], neighbours, of_last, fused)
    return PieceTables(
        Merges(arrays["left"], arrays["right"], arrays["result"], pairs),
        first,
        whole,
        long_tokens(tokens, arrays["usable"] & ~arrays["made"]),
        Barriers(first, arrays["crossed"]) if "crossed" in arrays else None,
        byte_stages(header, arrays),
    )
