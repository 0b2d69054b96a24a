"""Everything derived from an artifact, once: tables, machines, patterns.

:func:`compiled` gives the same object for the same artifact whichever way it comes about: from the cache on
disk, from the bundle that ships with an embedded tokenizer, or derived from the ``tokenizer.json``.  All three
are keyed by the fingerprint and by the version of the installed reference, whose Unicode tables they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import cache
from .artifact import Artifact
from .backends.reference import engine_version
from .bpe import hashing, tables
from .bpe.barriers import Barriers, crossed_pairs
from .bpe.hashing import Displacement, KeyTable, PairTable
from .bpe.pieces import PieceTables, long_tokens
from .bpe.symbols import FirstSymbols, Neighbours
from .bpe.tables import Merges, TokenBytes
from .certificates.certificate import ARRAYS, Certificate
from .patterns import lanes, windows
from .patterns.bimachine import Machine
from .patterns.lanes import Splitter
from .patterns.windows import Windows
from .pipeline import Pipeline, parse

#: Raise it whenever the meaning of what is stored changes.
FORMAT = 21

_Header = dict[str, Any]
_Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Split:
    """How the engines cut a text into pieces.

    ``atom_of``: uint8 (0x110000,), the atom of each code point; ``splitter`` runs over atoms;
    ``patterns``: the stages for the standard library's ``re``, over stand-ins of the text
    (:mod:`toktier.patterns.stdlib`).
    """

    atom_of: NDArray[np.uint8]
    splitter: Splitter
    patterns: tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Engine:
    """What the ``python`` and ``numpy`` backends need."""

    split: Split
    pieces: PieceTables
    byte_level: bool


@dataclass(frozen=True, slots=True)
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
    header, arrays = found
    arrays |= _hash_tables(header, arrays)
    cache.store(key, header, arrays)
    return _assemble(artifact.fingerprint, header, arrays)


def shipped(fingerprint: str) -> tuple[_Header, _Arrays] | None:
    """What was derived for an embedded tokenizer under this version of the reference, if it ships."""
    resource = files("toktier.data").joinpath(f"{fingerprint[:12]}.bundle.xz")
    if not resource.is_file():
        return None
    bundle = cache.parse(resource.read_bytes())
    if bundle is None or bundle.header["version"] != [FORMAT, engine_version(), fingerprint]:
        return None
    return dict(bundle.header), dict(bundle.arrays)


# --- hash tables and assembly ---------------------------------------------------


def _hash_tables(header: _Header, arrays: _Arrays) -> _Arrays:
    """The parts of a bundle that are large and quick to rebuild, so that they need not ship."""
    if header["reason"] is not None:
        return {}
    tokens = _tokens(arrays)
    pairs = hashing.pair_table(arrays["left"], arrays["right"], len(tokens.present))
    whole = tables.piece_table(tokens, arrays["usable"])
    crossed: _Arrays = {}
    # with `ignore_merges` a part might be a token that merging does not make, and that only a whole piece becomes
    if header["byte_level"] and not (arrays["usable"] & ~arrays["made"]).any():
        crossed["crossed"] = crossed_pairs(tokens, arrays["left"], arrays["right"])
    header["tables"] = [
        pairs.id_bits,
        pairs.rank_bits,
        pairs.displacement.multiplier,
        whole.displacement.multiplier,
    ]
    return {
        "pairs": pairs.entries,
        "pairs seeds": pairs.displacement.seeds,
        "whole low": whole.low,
        "whole high": whole.high,
        "whole ids": whole.ids,
        "whole seeds": whole.displacement.seeds,
        **crossed,
    }


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
    atom_patterns = tuple(re.compile(stage["atoms"].encode("ascii")) for stage in header["stages"])
    stages = tuple(
        lanes.make_stage(
            Machine(arrays[f"oracle {i}"], arrays[f"walk {i}"], stage["first"], stage["has_gaps"]),
            atom_patterns[i],
            arrays[f"closes {i}"],
            _windows(i, arrays),
        )
        for i, stage in enumerate(header["stages"])
    )
    return Split(
        arrays["atom_of"],
        Splitter(stages, int(header["atoms"])),
        tuple(re.compile(stage["stand-in"]) for stage in header["stages"]),
    )


def _windows(stage: int, arrays: Mapping[str, NDArray[Any]]) -> Windows | None:
    names = [f"windows {stage} {name}" for name in windows.ARRAYS]
    return Windows(*(arrays[name] for name in names)) if names[0] in arrays else None


def _pieces(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], tokens: TokenBytes) -> PieceTables:
    id_bits, rank_bits, *multipliers = header["tables"]
    by_pair, by_key = (
        Displacement(arrays[f"{of} seeds"], len(arrays[entries]).bit_length() - 1, multiplier)
        for of, entries, multiplier in zip(("pairs", "whole"), ("pairs", "whole ids"), multipliers, strict=True)
    )
    pairs = PairTable(arrays["pairs"], by_pair, id_bits, rank_bits)
    whole = KeyTable(arrays["whole low"], arrays["whole high"], arrays["whole ids"], by_key)
    neighbours = None
    if header["byte_level"]:
        neighbours = Neighbours(arrays["certified row"], arrays["certified before"], arrays["certified after"])
    first = FirstSymbols(arrays["of_byte"], arrays["of_character"], neighbours)
    return PieceTables(
        Merges(arrays["left"], arrays["right"], arrays["result"], pairs),
        first,
        whole,
        long_tokens(tokens, arrays["usable"] & ~arrays["made"]),
        Barriers(first, arrays["crossed"]) if "crossed" in arrays else None,
    )
