"""Deriving everything from a ``tokenizer.json``: tables, machines, patterns, the certificate.

It is done once per artifact and version of the reference; :mod:`~toktier.compiled` keeps the result.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import hash_tables
from .added_tokens import as_loaded, is_ambiguous
from .artifact import Artifact
from .backends.reference import Reference, engine_version, refusal
from .bpe import tables
from .bpe.barriers import crossed_pairs
from .bpe.batch import merge_words, word_bounds
from .bpe.byte_stages import ByteStages
from .bpe.hashing import ABSENT, PairTable, pair_table, too_many
from .bpe.memo import ranges
from .bpe.symbols import FirstSymbols, certified_starts
from .bpe.tables import Merges, TokenBytes
from .certificates.barriers import why_no_barriers
from .certificates.certificate import ARRAYS
from .certificates.derive import derive_certificate, relation_of
from .certificates.positions import is_idle
from .certificates.relation import derive_relation
from .charsmap import inert_characters
from .compiled import byte_stages
from .decoding import is_byte_level
from .errors import ArtifactError, UnsupportedPatternError
from .normalization import CHARSMAPS, inert_table, unicode_forms
from .patterns import stdlib, windows
from .patterns.atoms import Atoms
from .patterns.bimachine import Machine
from .patterns.charsets import members
from .patterns.stages import machines_of
from .patterns.syntax import Node
from .pipeline import BPE, Pipeline, parse
from .plan import Plan, make_plan
from .records import fields, replace
from .unigram import UnigramEncoder, UnigramTables, neighbours
from .wordpiece import make_trie

_Header = dict[str, Any]
_Arrays = dict[str, NDArray[Any]]

#: A stage whose matches begin with so many atoms at most is passed over in texts that have none of them.
_FEW_ATOMS = 4
#: No word has more characters.
_ANY = 1 << 62
#: Sums of scores stay finite.
_LARGE = 1e100


@contextmanager
def _no_collections() -> Iterator[None]:
    """A vocabulary is a million objects that all stay: looking through them for garbage is a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_AMBIGUOUS = "an added token is listed twice, and versions of the reference differ on which flags count"


@contextmanager
def _naming(artifact: Artifact) -> Iterator[None]:
    """Errors about a part of a file tell which file."""
    try:
        yield
    except ArtifactError as problem:
        if artifact.name in str(problem):
            raise
        raise ArtifactError(f"{artifact.name}: {problem}") from problem


def derived(artifact: Artifact, format: int) -> tuple[_Header, _Arrays]:
    """Header and arrays of a bundle of a format.

    Raises :class:`~toktier.errors.ArtifactError` for a damaged artifact.
    """
    with _naming(artifact), _no_collections():
        return _derived(artifact, format)


def _derived(artifact: Artifact, format: int) -> tuple[_Header, _Arrays]:
    document = artifact.document()
    model = document["model"]
    vocabulary = model.get("vocab")
    pipeline = parse(document)
    listed: list[str] | None = None
    if isinstance(vocabulary, list):  # Unigram: a list of (token, score)
        listed = [token for token, *_ in vocabulary]
        vocabulary = {token: id for id, token in enumerate(listed)}
    if not isinstance(vocabulary, dict):
        raise ArtifactError(f"{artifact.name} has a model without a vocabulary")
    refused = refusal(document)
    if refused is not None:
        raise ArtifactError(f"{artifact.name} is refused by the installed tokenizers: {refused}")
    loaded = as_loaded(pipeline.added_tokens, vocabulary, len(vocabulary if listed is None else listed))
    small = {name: value for name, value in document.items() if name not in ("model", "added_tokens")}
    small["model"] = {name: value for name, value in model.items() if name not in ("vocab", "merges")}
    if isinstance(pipeline.model, BPE):
        small["model"]["type"] = "BPE"
    small["added_tokens"] = [{field: getattr(t, field) for field in fields(t)} for t in loaded]
    inert = {form: inert_table(form) for form in sorted(unicode_forms(pipeline.normalizer))}
    of_maps = inert_characters(pipeline.normalizer)
    if of_maps is not None:
        inert[CHARSMAPS] = of_maps
    header: _Header = {
        "version": [format, engine_version(), artifact.fingerprint],
        "document": small,
        "reason": None,
        "forms": [*inert],
    }
    arrays: _Arrays = {f"inert {form}": table for form, table in inert.items()}
    certificate = derive_certificate(replace(pipeline, added_tokens=loaded), vocabulary, inert)
    ambiguous = is_ambiguous(pipeline.added_tokens)
    if ambiguous:
        certificate = replace(certificate, refusal=_AMBIGUOUS)
    header |= {"refusal": certificate.refusal, "prefix": certificate.prefix, "states": certificate.states}
    arrays |= {f"certificate {name}": getattr(certificate, name) for name in ARRAYS}
    plan = _AMBIGUOUS if ambiguous else make_plan(pipeline, vocabulary)
    by_bytes = isinstance(plan, Plan) and plan.byte_level
    header["alphabet"] = by_bytes or is_byte_level(pipeline.decoder)
    if isinstance(plan, Plan) and header["alphabet"] and not by_bytes:
        plan = "the decoder takes the model's tokens for bytes, which they are not"
    tokens = tables.token_bytes(vocabulary if listed is None else listed, header["alphabet"])
    arrays |= {"blob": tokens.blob, "offsets": tokens.offsets, "present": tokens.present}
    arrays["in_alphabet"] = tokens.in_alphabet
    if isinstance(plan, str):
        header["reason"] = plan
        return header, arrays
    if np.count_nonzero(tokens.present) < len(vocabulary):
        header["reason"] = "two tokens of the model have the same id"
        return header, arrays
    engine: _Arrays = {}
    try:
        header["reason"] = _derive_stages(plan, header, engine)
        if header["reason"] is None and isinstance(pipeline.model, BPE):
            header["reason"] = _derive_model(plan, model, vocabulary, pipeline, tokens, header, engine)
        elif header["reason"] is None and model.get("type") == "Unigram":
            header["reason"] = _derive_unigram(
                Reference(artifact).unigram_scores(), model, vocabulary, tokens, header, engine
            )
        elif header["reason"] is None:
            header["reason"] = _derive_words(model, vocabulary, tokens, header, engine)
    except UnsupportedPatternError as problem:
        header["reason"] = str(problem)
    return header, arrays if header["reason"] else arrays | engine


def _derive_stages(plan: Plan, header: _Header, arrays: _Arrays) -> str | None:
    atoms, machines = machines_of(plan.stages)
    if any(c and m.has_gaps for c, m in zip(plan.covering, machines, strict=True)):
        return "what a Split removes is not a matter of single characters"
    stages = plan.stages
    if len(stages) == 2 and is_idle(machines[0], machines[1], atoms.count):
        stages = stages[:1]
    _store_stages(stages, machines, atoms, header, arrays)
    header["byte_level"] = plan.byte_level
    arrays["atom_of"] = atoms.of_code_point
    removed = np.zeros(atoms.count + 1, np.bool_)  # the last one is the end atom
    for set in plan.removed:
        removed[atoms.of_code_point[members(set)]] = True
    if removed.any():
        arrays["removed"] = removed
    if plan.byte_stages:
        atoms, machines = machines_of(plan.byte_stages)
        byte_of = tables.byte_alphabet()
        own: _Arrays = {"atom_of": atoms.of_code_point[[*map(ord, sorted(byte_of, key=byte_of.__getitem__))]]}
        header["byte stages"] = {}
        _store_stages(plan.byte_stages, machines, atoms, header["byte stages"], own, later=True)
        arrays |= {f"byte {name}": array for name, array in own.items()}
    return None


def _store_stages(
    stages: Sequence[Node],
    machines: Sequence[Machine],
    atoms: Atoms,
    header: _Header,
    arrays: _Arrays,
    *,
    later: bool = False,
) -> None:
    """``later``: other stages come before these."""
    header["stages"] = [_describe(s, m, atoms) for s, m in zip(stages, machines, strict=False)]
    header["atoms"] = atoms.count
    for number, machine in enumerate(machines[: len(stages)]):
        arrays[f"oracle {number}"] = machine.oracle
        arrays[f"walk {number}"] = machine.walk
        alone = relation_of(tuple(stages)) if len(machines) == 1 else derive_relation([machine], atoms.count)
        closing = windows.closing_symbols(alone.closes, later or number > 0)
        arrays[f"closes {number}"] = closing
        found = windows.make_windows(machine, later or number > 0, closing)
        if found is not None:
            arrays |= {f"windows {number} {name}": getattr(found, name) for name in windows.ARRAYS}


def _describe(stage: Node, machine: Machine, atoms: Atoms) -> _Header:
    needs = stdlib.first_atoms(stage, atoms)
    return {
        "first": machine.first,
        "has_gaps": machine.has_gaps,
        "stand-in": stdlib.compile_stand_in(stage, atoms, machine.has_gaps).pattern,
        "atoms": stdlib.compile_atoms(stage, atoms, machine.has_gaps).pattern.decode("ascii"),
        "needs": None if needs is None or len(needs) > _FEW_ATOMS else needs.tolist(),
    }


def _derive_model(
    plan: Plan,
    model: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    pipeline: Pipeline,
    tokens: TokenBytes,
    header: _Header,
    arrays: _Arrays,
) -> str | None:
    assert isinstance(pipeline.model, BPE)
    rules = model.get("merges")
    if isinstance(rules, list) and too_many(len(tokens.present), len(rules)):
        return f"{len(tokens.present)} ids and {len(rules)} merges are too many for a table of pairs"
    alphabet = tables.shown_bytes(bytes(range(256)))
    names = [*alphabet] if plan.byte_level else [f"<0x{byte:02X}>" for byte in range(256)]
    of_byte = np.array([vocabulary.get(name, ABSENT) for name in names], np.uint32)
    # bytes that can begin a character may be missing where the model passes over what it does not know
    passes_over = pipeline.model.unk_token is None and not pipeline.model.byte_fallback
    suffix = pipeline.model.end_of_word_suffix
    needed = [*range(0xC0), *(() if passes_over and not suffix else range(0xC2, 0xF5))]
    if plan.byte_level and (of_byte[needed] == ABSENT).any():
        return "the vocabulary lacks some bytes"
    of_last, unknown = None, ABSENT
    if not plan.byte_level and not pipeline.model.byte_fallback:
        of_byte[:], unknown = ABSENT, np.uint32(vocabulary[str(pipeline.model.unk_token)])
        header["fused"] = int(unknown) if pipeline.model.fuse_unk else None
    if suffix and not plan.byte_level:
        of_last = _of_character(vocabulary, suffix, unknown)
    elif suffix:
        of_last = np.array([vocabulary.get(name + suffix, ABSENT) for name in names], np.uint32)
        if (of_last[:0xC0] == ABSENT).any() or not {*suffix} <= {*names}:
            return "the vocabulary lacks some bytes that end a word"
    if of_last is not None:
        arrays["of_last"] = of_last
    merges = tables.merges(model)
    if not plan.byte_level and np.isin(of_byte, (merges.left, merges.right)).any():
        return "a rule merges the byte of a character, and may do so across any place where a text is cut"
    if plan.byte_level:
        of_character, neighbours = certified_starts(tokens, merges, of_byte)
        if plan.byte_stages:  # which may cut characters
            of_character = of_character[:0]
        arrays["certified row"] = neighbours.row
        arrays["certified before"], arrays["certified after"] = neighbours.before, neighbours.after
    else:
        neighbours = None
        of_character = _of_character(vocabulary, "", unknown)
    words = tables.word_ends(tokens, suffix)
    usable = words.in_alphabet if plan.byte_level else words.present
    further = byte_stages(header, arrays)
    if further is not None:
        usable = usable & ~_cut_further(words, further)
    first = FirstSymbols(of_byte, of_character, neighbours, of_last, header.get("fused"))
    made = _made_by_merging(words, usable, first, merges)
    # a whole piece may be looked up as a token that merging makes of it, or as any with `ignore_merges`
    if not pipeline.model.ignore_merges:
        usable = made
    arrays |= {"of_byte": of_byte, "of_character": of_character, "usable": usable, "made": made}
    arrays |= {"left": merges.left, "right": merges.right, "result": merges.result}
    header["tables"], found = hash_tables.stored(merges.table, tables.piece_table(words, usable))
    arrays |= found
    # with `ignore_merges` a part might be a token that merging does not make, and that only a whole piece becomes;
    # a suffix ends whole pieces alone, and further stages cut these
    for_pieces = bool(suffix or plan.byte_stages) or (usable & ~made).any()
    if not for_pieces and (plan.byte_level or why_no_barriers(pipeline.model, vocabulary) is None):
        arrays["crossed"] = crossed_pairs(tokens, merges.left, merges.right)
    return None


def _of_character(vocabulary: Mapping[str, int], suffix: str, unknown: np.uint32) -> NDArray[np.uint32]:
    """The tokens of single characters before a suffix; ``unknown`` for others, and once more for all beyond."""
    size = 1 + len(suffix)
    found = {ord(t[0]): id for t, id in vocabulary.items() if len(t) == size and t.endswith(suffix)}
    of_character = np.full(max([0x7F, *found]) + 2, unknown)
    of_character[[*found]] = [*found.values()]
    return of_character


def _cut_further(tokens: TokenBytes, stages: ByteStages) -> NDArray[np.bool_]:
    """The tokens that would be more than one part, if they were pieces."""
    filled = np.flatnonzero(np.diff(tokens.offsets))
    starts = stages.starts(tokens.blob, tokens.offsets[filled])
    parts = np.diff(np.searchsorted(starts, np.append(tokens.offsets[filled], len(tokens.blob))))
    found = np.zeros(len(tokens.present), np.bool_)
    found[filled] = parts > 1
    return found


def _edges(
    vocabulary: Mapping[str, int], prefix: str | None = None
) -> tuple[PairTable, NDArray[np.uint32], int] | str:
    """The edges of a vocabulary's trie as a table, what its nodes accept, and the node that a prefix leads to."""
    left, right, accepts, inside = make_trie(vocabulary, prefix)
    size = max(sys.maxunicode + 1, inside, len(accepts)) + 1
    if too_many(size, len(left)):
        return f"{len(vocabulary)} tokens are too many for a table of pairs"
    return pair_table(left, right, size), accepts, inside


def _derive_words(
    model: Mapping[str, Any], vocabulary: Mapping[str, int], tokens: TokenBytes, header: _Header, arrays: _Arrays
) -> str | None:
    """As :func:`_derive_model`, for WordPiece and WordLevel."""
    longest = min(model.get("max_input_chars_per_word", _ANY), _ANY)
    trie = _edges(vocabulary, model.get("continuing_subword_prefix"))
    if isinstance(trie, str):
        return trie
    edges, accepts, inside = trie
    usable = tokens.present.copy()
    usable[[id for token, id in vocabulary.items() if len(token) > longest]] = False
    header["tables"], found = hash_tables.stored(edges, tables.piece_table(tokens, usable))
    arrays |= found
    arrays["accepts"] = accepts
    header["words"] = [inside, vocabulary[model["unk_token"]], longest]
    return None


def _derive_unigram(
    scores: NDArray[np.float64],
    model: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    tokens: TokenBytes,
    header: _Header,
    arrays: _Arrays,
) -> str | None:
    """As :func:`_derive_model`, for Unigram; ``scores``: float64, by id."""
    if not (np.abs(scores) < _LARGE).all():
        return "sums of the model's scores may be infinite"
    trie = _edges(vocabulary)
    if isinstance(trie, str):
        return trie
    edges, accepts, _ = trie
    of_bytes = np.empty(0, np.uint32)
    if model.get("byte_fallback"):
        of_bytes = np.array([vocabulary.get(f"<0x{byte:02X}>", ABSENT) for byte in range(256)], np.uint32)
    of_node = scores.take(accepts, mode="clip")
    unknown, penalty = int(model["unk_id"]), float(scores.min()) - 10.0
    # an entry is one token as a piece, too, unless others that make it up count more
    none = tables.piece_table(tokens, np.zeros_like(tokens.present))
    entries = [*filter(None, vocabulary)]
    ids = np.fromiter(map(vocabulary.__getitem__, entries), np.uint32, len(entries))
    points = np.frombuffer("".join(entries).encode("utf-32-le", "surrogatepass"), np.uint32)
    sizes = np.fromiter(map(len, entries), np.int64, len(entries))
    pairs = neighbours(points, sizes)
    encoder = UnigramEncoder(UnigramTables(none, edges, accepts, of_node, of_bytes, pairs, unknown, penalty))
    found, counts = encoder.encode_points(points, sizes)
    alone = np.zeros_like(tokens.present)
    alone[ids[(counts == 1) & (found[np.cumsum(counts) - counts] == ids)]] = True
    header["tables"], stored = hash_tables.stored(edges, tables.piece_table(tokens, alone))
    arrays |= stored | {"accepts": accepts, "scores": of_node, "of_bytes": of_bytes, "neighbours": pairs}
    header["unigram"] = [unknown, penalty]
    return None


def _made_by_merging(
    tokens: TokenBytes,
    usable: NDArray[np.bool_],
    first_symbols: FirstSymbols,
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
        if first_symbols.neighbours is not None:  # a token may end inside a character: from bytes
            symbols = first_symbols.by_bytes(np.frombuffer(text, np.uint8), starts)
        else:
            symbols, starts = first_symbols.of(text, starts)
        merged, first = merge_words(symbols, starts, merges)
        bounds = word_bounds(first, starts)
        made[batch] = (np.diff(bounds) == 1) & (merged[bounds[:-1]] == batch)
    return made
