"""Everything derived from an artifact, once: tables, machines, patterns.

:func:`compiled` gives the same object for the same artifact whichever way it comes about: from the cache on
disk, from the bundle that ships with an embedded tokenizer, or derived from the ``tokenizer.json``.  All three
are keyed by the fingerprint and by the version of the installed reference, whose Unicode tables they hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import cache
from .added_tokens import as_loaded
from .artifact import Artifact
from .backends.reference import refusal
from .bpe import hashing, tables
from .bpe.barriers import Barriers, crossed_pairs
from .bpe.batch import merge_words, word_bounds
from .bpe.hashing import ABSENT, KeyTable, PairTable
from .bpe.memo import ranges
from .bpe.pieces import PieceTables, long_tokens
from .bpe.symbols import FirstSymbols, Neighbours, certified_starts
from .bpe.tables import Merges, TokenBytes
from .certificates.derive import Certificate, derive_certificate, relation_of
from .certificates.relation import derive_relation
from .decoding import is_byte_level
from .errors import ArtifactError, UnsupportedPatternError
from .normalization import inert_table, unicode_forms
from .patterns import lanes, stdlib, windows
from .patterns.atoms import Atoms
from .patterns.charsets import engine_version
from .patterns.lanes import Splitter
from .patterns.machine import Machine
from .patterns.stages import machines_of
from .patterns.syntax import Node
from .pipeline import BPE, Pipeline, parse
from .plan import Plan, make_plan

#: Raise it whenever the meaning of what is stored changes.
_FORMAT = 16

#: The arrays of a certificate.
_CERTIFICATE = ("atom_of", "restarts", "closes", "adjacent", "class_of", "table", "mapped")

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
    key = f"compiled {_FORMAT} tokenizers {engine_version()} {artifact.fingerprint}"
    bundle = cache.load(key)
    if bundle is not None:
        return _assemble(artifact.fingerprint, bundle.header, bundle.arrays)
    found = shipped(artifact.fingerprint)
    header, arrays = derived(artifact) if found is None else found
    arrays |= _hash_tables(header, arrays)
    cache.store(key, header, arrays)
    return _assemble(artifact.fingerprint, header, arrays)


def shipped(fingerprint: str) -> tuple[_Header, _Arrays] | None:
    """What :func:`derived` gave for an embedded tokenizer under this version of the reference, if it ships."""
    resource = files("toktier.data").joinpath(f"{fingerprint[:12]}.bundle.xz")
    if not resource.is_file():
        return None
    bundle = cache.parse(resource.read_bytes())
    if bundle is None or bundle.header["version"] != [_FORMAT, engine_version(), fingerprint]:
        return None
    return dict(bundle.header), dict(bundle.arrays)


# --- deriving -----------------------------------------------------------------


def derived(artifact: Artifact) -> tuple[_Header, _Arrays]:
    """Header and arrays of a bundle, without what :func:`_hash_tables` can rebuild quickly."""
    document = artifact.document()
    model = document["model"]
    vocabulary = model.get("vocab")
    pipeline = parse(document)
    if isinstance(vocabulary, list):  # Unigram: a list of (token, score)
        vocabulary = {token: id for id, (token, *_) in enumerate(vocabulary)}
    if not isinstance(vocabulary, dict):
        raise ArtifactError(f"{artifact.name} has a model without a vocabulary")
    refused = refusal(document)
    if refused is not None:
        raise ArtifactError(f"{artifact.name} is refused by the installed tokenizers: {refused}")
    loaded = as_loaded(pipeline.added_tokens, vocabulary)
    small = {name: value for name, value in document.items() if name not in ("model", "added_tokens")}
    small["model"] = {name: value for name, value in model.items() if name not in ("vocab", "merges")}
    if isinstance(pipeline.model, BPE):
        small["model"]["type"] = "BPE"
    small["added_tokens"] = [{field: getattr(t, field) for field in t.__slots__} for t in loaded]
    header: _Header = {
        "version": [_FORMAT, engine_version(), artifact.fingerprint],
        "document": small,
        "reason": None,
        "forms": sorted(unicode_forms(pipeline.normalizer)),
    }
    arrays: _Arrays = {f"inert {form}": inert_table(form) for form in header["forms"]}
    inert = {form: arrays[f"inert {form}"] for form in header["forms"]}
    certificate = derive_certificate(replace(pipeline, added_tokens=loaded), vocabulary, inert)
    header |= {"refusal": certificate.refusal, "prefix": certificate.prefix, "states": certificate.states}
    arrays |= {f"certificate {name}": getattr(certificate, name) for name in _CERTIFICATE}
    plan = make_plan(pipeline, vocabulary)
    header["alphabet"] = is_byte_level(pipeline.decoder) or (isinstance(plan, Plan) and plan.byte_level)
    tokens = tables.token_bytes(vocabulary, header["alphabet"])
    arrays |= {"blob": tokens.blob, "offsets": tokens.offsets, "present": tokens.present}
    arrays["in_alphabet"] = tokens.in_alphabet
    if isinstance(plan, str):
        header["reason"] = plan
        return header, arrays
    engine: _Arrays = {}
    try:
        header["reason"] = _derive_stages(plan, header, engine) or _derive_model(
            plan, model, vocabulary, pipeline, tokens, engine
        )
    except UnsupportedPatternError as problem:
        header["reason"] = str(problem)
    return header, arrays if header["reason"] else arrays | engine


def _derive_stages(plan: Plan, header: _Header, arrays: _Arrays) -> str | None:
    atoms, machines = machines_of(plan.stages)
    if any(c and m.has_gaps for c, m in zip(plan.covering, machines, strict=True)):
        return "a Split removes characters from the text"
    header["stages"] = [_describe(s, m, atoms) for s, m in zip(plan.stages, machines, strict=True)]
    header["byte_level"] = plan.byte_level
    header["atoms"] = atoms.count
    arrays["atom_of"] = atoms.of_code_point
    for number, machine in enumerate(machines):
        arrays[f"oracle {number}"] = machine.oracle
        arrays[f"walk {number}"] = machine.walk
        alone = relation_of(plan.stages) if len(machines) == 1 else derive_relation([machine], atoms.count)
        closes = windows.closing_symbols(alone.closes, number > 0)
        arrays[f"closes {number}"] = closes
        table = windows.window_table(machine, number > 0, closes)
        if table is not None:
            arrays[f"windows {number}"] = table
    return None


def _describe(stage: Node, machine: Machine, atoms: Atoms) -> _Header:
    return {
        "first": machine.first,
        "has_gaps": machine.has_gaps,
        "stand-in": stdlib.compile_stand_in(stage, atoms, machine.has_gaps).pattern,
        "atoms": stdlib.compile_atoms(stage, atoms, machine.has_gaps).pattern.decode("ascii"),
    }


def _derive_model(
    plan: Plan,
    model: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    pipeline: Pipeline,
    tokens: TokenBytes,
    arrays: _Arrays,
) -> str | None:
    assert isinstance(pipeline.model, BPE)
    shown = {byte: char for char, byte in tables.byte_alphabet().items()}
    names = [shown[byte] if plan.byte_level else f"<0x{byte:02X}>" for byte in range(256)]
    of_byte = np.array([vocabulary.get(name, ABSENT) for name in names], np.uint32)
    # bytes that can begin a character may be missing where the model passes over what it does not know
    passes_over = pipeline.model.unk_token is None and not pipeline.model.byte_fallback
    needed = [*range(0xC0), *(() if passes_over else range(0xC2, 0xF5))]
    if (of_byte[needed] == ABSENT).any():
        return "the vocabulary lacks some bytes"
    merges = tables.merges(model)
    if plan.byte_level:
        of_character, neighbours = certified_starts(tokens, merges, of_byte)
        arrays["certified row"] = neighbours.row
        arrays["certified before"], arrays["certified after"] = neighbours.before, neighbours.after
    else:
        of_character = np.full(0x110000, ABSENT, np.uint32)
        for token, id in vocabulary.items():
            if len(token) == 1:
                of_character[ord(token)] = id
    usable = tokens.in_alphabet if plan.byte_level else tokens.present
    made = _made_by_merging(tokens, usable, of_byte, of_character, plan.byte_level, merges)
    # a whole piece may be looked up as a token that merging makes of it, or as any with `ignore_merges`
    if not pipeline.model.ignore_merges:
        usable = made
    arrays |= {"of_byte": of_byte, "of_character": of_character, "usable": usable, "made": made}
    arrays |= {"left": merges.left, "right": merges.right, "result": merges.result}
    return None


def _made_by_merging(
    tokens: TokenBytes,
    usable: NDArray[np.bool_],
    of_byte: NDArray[np.uint32],
    of_character: NDArray[np.uint32],
    byte_level: bool,
    merges: Merges,
) -> NDArray[np.bool_]:
    """The tokens that BPE of their own text gives back, so that a whole piece may be looked up as one."""
    made = np.zeros(len(usable), np.bool_)
    lengths = np.diff(tokens.offsets)
    ids = np.flatnonzero(usable & (lengths > 0))
    ids = ids[np.argsort(lengths[ids], kind="stable")]
    for batch in np.array_split(ids, max(1, len(ids) // 8192)):
        text = tokens.blob[ranges(tokens.offsets[batch], lengths[batch])].tobytes()
        starts = np.cumsum(lengths[batch]) - lengths[batch]
        if byte_level:  # a token may end inside a character: from bytes
            symbols = of_byte.take(np.frombuffer(text, np.uint8))
        else:
            symbols, starts = FirstSymbols(of_byte, of_character, None).of(text, starts)
        merged, first = merge_words(symbols, starts, merges)
        bounds = word_bounds(first, starts)
        made[batch] = (np.diff(bounds) == 1) & (merged[bounds[:-1]] == batch)
    return made


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
    header["tables"] = [pairs.id_bits, pairs.rank_bits, pairs.probes, whole.probes]
    return {
        "pairs": pairs.entries,
        "pairs hint": pairs.hint,
        "whole low": whole.low,
        "whole high": whole.high,
        "whole ids": whole.ids,
        **crossed,
    }


def _tokens(arrays: Mapping[str, NDArray[Any]]) -> TokenBytes:
    return TokenBytes(arrays["blob"], arrays["offsets"], arrays["present"], arrays["in_alphabet"])


def _assemble(fingerprint: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Compiled:
    tokens = _tokens(arrays)
    stored = {name: arrays[f"certificate {name}"] for name in _CERTIFICATE}
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
            arrays.get(f"windows {i}"),
        )
        for i, stage in enumerate(header["stages"])
    )
    return Split(
        arrays["atom_of"],
        Splitter(stages, int(header["atoms"])),
        tuple(re.compile(stage["stand-in"]) for stage in header["stages"]),
    )


def _pieces(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], tokens: TokenBytes) -> PieceTables:
    id_bits, rank_bits, pair_probes, whole_probes = header["tables"]
    pairs = PairTable(arrays["pairs"], arrays["pairs hint"], id_bits, rank_bits, pair_probes)
    whole = KeyTable(arrays["whole low"], arrays["whole high"], arrays["whole ids"], whole_probes)
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
