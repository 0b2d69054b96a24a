"""What a certificate says, for people and programs: ``toktier certify``.

:func:`certify` puts together what :mod:`~toktier.certificates.derive` boils down to a table: the stages, the
atoms, the relation, and what the normalizer and the added tokens forbid on top.  :func:`certify_pair` is about two
characters: whether a text may be cut between them and, if not, a text that shows why, which the reference is asked
to confirm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

from ..backends.reference import engine_version
from ..errors import OptionError
from ..patterns.atoms import Atoms
from ..patterns.charsets import CODE_POINTS, SURROGATES
from ..patterns.machine import Machine
from ..patterns.stages import machines_of
from ..patterns.syntax import Node
from ..pipeline import (
    ByteLevel,
    Digits,
    Literal,
    Metaspace,
    Normalizer,
    NormalizerSequence,
    Other,
    Pattern,
    Pipeline,
    Prepend,
    PreTokenizer,
    PreTokenizerSequence,
    Regex,
    Replace,
    Split,
    UnicodeForm,
)
from ..plan import GPT2_PATTERN, CertificatePlan, certificate_plan
from ..records import replace
from .barriers import CODE_POINT_BITS, mergeable
from .certificate import ASK, CLOSES, RESTARTS
from .literals import Literals, inner_pairs, literals_of
from .normalizers import Seams, seams
from .witness import Witness, WitnessSearch, representatives

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer

_EXAMPLES = 12
#: What a row of the relation says of a pair.
_CLOSES, _RESTARTS, _NEITHER = "C", "R", "-"


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the pre-tokenizer.

    ``pattern``: its regular expression, None if it has none.  ``machines``: for each stage that it becomes, how
    many states its walk and its oracle have; empty if it cuts nothing, or if no certificate can tell.
    """

    description: str
    pattern: str | None
    machines: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """Characters that the stages do not tell apart: how many, and a few of them."""

    number: int
    size: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NormalizerGuard:
    """``steps``: what the normalizer does, in words.  ``prefix``: it puts something before every text.

    Beside a ``forbidden`` character no text is cut; ``examples`` of them.  ``replaced``: characters that become
    another one, and beside which a text may be cut.
    """

    steps: tuple[str, ...]
    prefix: bool
    forbidden: int
    examples: tuple[str, ...]
    replaced: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AddedTokenGuard:
    """``given`` added tokens are found in the text as it is, ``normalized`` ones in the normalized text.

    ``longest``: in characters.  ``single_word``, ``lstrip``, ``rstrip``: how many have the flag.
    ``looked_at``: pairs of characters that a given token contains; the text around such a place is looked at.
    ``never_cut``: those that a normalized one contains.
    """

    given: int
    normalized: int
    longest: int
    single_word: int
    lstrip: int
    rstrip: int
    looked_at: tuple[str, ...]
    never_cut: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All there is to know of an artifact's certificate.

    ``refusal``: why there is none, or None.  ``kind``: ``"stages"``, ``"barriers"`` or None.  ``restarts``,
    ``closes``: how many pairs of atoms are in the relations, of ``len(atoms) ** 2``.  ``relation``: a row for each
    atom before the cut, in it a letter for each atom behind it: ``C`` closes, ``R`` restarts only, ``-`` neither.
    ``states``: of a position (see :mod:`~toktier.certificates.positions`).

    For barriers there are no atoms.  ``tokens_join``: for each character, those that directly follow it within a
    token that merging may make, in normalized text; all other pairs close.
    """

    name: str
    fingerprint: str
    tokenizers_version: str
    refusal: str | None
    kind: str | None
    components: tuple[Component, ...]
    states: int
    atoms: tuple[Atom, ...]
    restarts: int
    closes: int
    relation: tuple[str, ...]
    tokens_join: Mapping[str, str]
    normalizer: NormalizerGuard | None
    added_tokens: AddedTokenGuard | None

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Shown:
    """A witness, and the reference's word on it.

    ``kind``: one of :class:`~toktier.certificates.witness.Witness`, or ``"token"``: ``x + y`` is a token.
    ``pieces``: texts, and the pieces (for a token: the tokens) that the reference makes of each.
    ``confirmed``: they are as the witness says.
    """

    kind: str
    x: str
    y: str
    other: str | None
    sentence: str
    pieces: tuple[tuple[str, tuple[str, ...]], ...]
    confirmed: bool


@dataclass(frozen=True, slots=True)
class PairReport:
    """Whether a text may be cut between ``before`` and ``behind``.

    ``atoms``: of the normalized characters, None for barriers and refusals.  ``restarts``, ``closes``: what is
    certified; ``unless``: what the text around the place must not be for that.  ``reasons``: why it is no more
    than that, apart from the ``witness`` of the relation.
    """

    before: str
    behind: str
    atoms: tuple[int, int] | None
    restarts: bool
    closes: bool
    unless: tuple[str, ...]
    reasons: tuple[str, ...]
    witness: Shown | None

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a certificate is derived from."""

    pipeline: Pipeline
    vocabulary: Mapping[str, int]
    plan: CertificatePlan
    seam: Seams
    literals: Literals


@lru_cache(maxsize=1)  # whoever asks about one pair asks about the next one
def _basis(tokenizer: Tokenizer) -> _Basis | None:
    """None where the artifact is refused."""
    if tokenizer._cuts.refusal is not None:
        return None
    found = tokenizer._compiled
    vocabulary = _vocabulary(tokenizer)
    plan = certificate_plan(found.pipeline, vocabulary)
    seam = seams(found.pipeline.normalizer, found.inert)
    assert not isinstance(plan, str) and not isinstance(seam, str), "a certificate has been derived from them"
    return _Basis(found.pipeline, vocabulary, plan, seam, literals_of(found.pipeline, found.inert))


@lru_cache(maxsize=1)  # a report needs it more than once, and to read it takes longer than all else
def _vocabulary(tokenizer: Tokenizer) -> Mapping[str, int]:
    vocabulary = tokenizer._artifact.document()["model"]["vocab"]
    if isinstance(vocabulary, list):  # Unigram
        return {token: id for id, (token, *_) in enumerate(vocabulary)}
    found: dict[str, int] = vocabulary
    return found


# --- the whole ----------------------------------------------------------------------------------


def certify(tokenizer: Tokenizer) -> Report:
    """Everything about the certificate of a tokenizer, or why it has none."""
    certificate, basis = tokenizer._compiled.certificate, _basis(tokenizer)
    report = Report(
        name=tokenizer.name,
        fingerprint=tokenizer.fingerprint,
        tokenizers_version=engine_version(),
        refusal=tokenizer._cuts.refusal,
        kind=None,
        components=_components(tokenizer._compiled.pipeline, _vocabulary(tokenizer)),
        states=0,
        atoms=(),
        restarts=0,
        closes=0,
        relation=(),
        tokens_join={},
        normalizer=None,
        added_tokens=None,
    )
    if basis is None:
        return report
    report = replace(
        report,
        kind="barriers" if basis.plan.barriers else "stages",
        normalizer=_normalizer_guard(basis, certificate.prefix),
        added_tokens=_added_token_guard(basis),
    )
    if basis.plan.barriers:
        return replace(report, tokens_join=_joined(certificate.adjacent))
    letters = np.where(certificate.closes, _CLOSES, np.where(certificate.restarts, _RESTARTS, _NEITHER))
    return replace(
        report,
        states=certificate.states,
        atoms=tuple(_atom(number, certificate.atom_of) for number in range(len(letters))),
        restarts=int(certificate.restarts.sum()),
        closes=int(certificate.closes.sum()),
        relation=tuple("".join(row) for row in letters.tolist()),
    )


def _atom(number: int, atom_of: NDArray[np.uint8]) -> Atom:
    inside = atom_of == number
    inside[SURROGATES] = False
    codes = np.flatnonzero(inside)
    return Atom(number, len(codes), _examples(codes))


def _examples(codes: NDArray[np.intp]) -> tuple[str, ...]:
    """Some of the characters: those that are easy to read first, then some from all over."""
    chars = [chr(code) for code in codes[: 40 * _EXAMPLES].tolist()]
    spread = codes[np.linspace(0, len(codes) - 1, 2 * _EXAMPLES).astype(np.int64)].tolist() if len(codes) else []
    easy = [char for char in chars if char.isascii() and char.isprintable() and char != " "]
    white = [char for char in chars if char in " \n\r\t"]
    near = [char for char in chars if char.isprintable() and not char.isascii()][: _EXAMPLES // 4]
    far = [chr(code) for code in spread if 0x80 <= code < 0x10000 and chr(code).isprintable()]
    # small letters say more than the sign that happens to be first
    easy.sort(key=lambda char: 0 if char.islower() else 1 if char.isalnum() else 2)
    chosen = dict.fromkeys([*easy[: _EXAMPLES // 2], *white, *near, *far[: _EXAMPLES // 2], *chars])
    return tuple(chosen)[:_EXAMPLES]


def _joined(adjacent: NDArray[np.uint64]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for pair in adjacent.tolist():
        before, behind = divmod(pair, 1 << CODE_POINT_BITS)
        found.setdefault(chr(before), []).append(chr(behind))
    return {before: "".join(behind) for before, behind in found.items()}


def _normalizer_guard(basis: _Basis, prefix: bool) -> NormalizerGuard:
    forbidden = ~basis.seam.allowed
    forbidden[SURROGATES] = False
    codes = np.flatnonzero(forbidden)
    changed = np.flatnonzero(basis.seam.allowed & (basis.seam.mapped != np.arange(CODE_POINTS)))
    return NormalizerGuard(
        tuple(_steps(basis.pipeline.normalizer)),
        prefix,
        len(codes),
        _examples(codes),
        tuple((chr(code), chr(int(basis.seam.mapped[code]))) for code in changed.tolist()),
    )


def _added_token_guard(basis: _Basis) -> AddedTokenGuard:
    given, normalized = basis.literals.given, basis.literals.normalized
    tokens = (*given, *normalized)
    return AddedTokenGuard(
        given=len(given),
        normalized=len(normalized),
        longest=max((len(token.content) for token in tokens), default=0),
        single_word=sum(token.single_word for token in tokens),
        lstrip=sum(token.lstrip for token in tokens),
        rstrip=sum(token.rstrip for token in tokens),
        looked_at=tuple(sorted(inner_pairs(given))),
        never_cut=tuple(sorted(inner_pairs(normalized))),
    )


# --- the pipeline in words ------------------------------------------------------------------------


def _components(pipeline: Pipeline, vocabulary: Mapping[str, int]) -> tuple[Component, ...]:
    found = []
    for part in _flat(pipeline.pre_tokenizer):
        description, pattern = _in_words(part)
        plan = certificate_plan(replace(pipeline, pre_tokenizer=part), vocabulary)
        machines = () if isinstance(plan, str) or not plan.stages else machines_of(plan.stages)[1]
        found.append(Component(description, pattern, tuple(map(_size, machines))))
    return tuple(found)


def _size(machine: Machine) -> tuple[int, int]:
    return len(machine.walk), len(machine.oracle)


def _flat(part: PreTokenizer | None) -> list[PreTokenizer]:
    if isinstance(part, PreTokenizerSequence):
        return [inner for stage in part.stages for inner in _flat(stage)]
    return [] if part is None else [part]


def _in_words(part: PreTokenizer) -> tuple[str, str | None]:
    """What a pre-tokenizer is, and its pattern."""
    match part:
        case Split(Literal(text), behavior, invert):
            return f"Split at {text!r}, {behavior}{', inverted' if invert else ''}", None
        case Split(Regex(source), behavior, invert):
            return f"Split, {behavior}{', inverted' if invert else ''}", source
        case ByteLevel(_, _, use_regex):
            return "ByteLevel", GPT2_PATTERN if use_regex else None
        case Metaspace(mark, scheme, split):
            return f"Metaspace {mark!r}, prepended: {scheme}{', split' if split else ''}", None
        case Digits(individual_digits):
            return f"Digits, {'one by one' if individual_digits else 'together'}", None
        case Other(type, source):
            options = {name: value for name, value in json.loads(source).items() if name != "type"}
            shown = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
            return f"{type}{': ' if shown else ''}{shown}", None
    raise AssertionError(part)


def _steps(normalizer: Normalizer | None) -> list[str]:
    match normalizer:
        case NormalizerSequence(steps):
            return [words for step in steps for words in _steps(step)]
        case UnicodeForm(form):
            return [form]
        case Prepend(text):
            return [f"Prepend {text!r}"]
        case Replace(pattern, content):
            return [f"Replace {_source(pattern)!r} by {content!r}"]
        case Other(type, _):
            return [type]
    return []


def _source(pattern: Pattern) -> str:
    match pattern:
        case Regex(source):
            return source
        case Literal(text):
            return text


# --- one pair -------------------------------------------------------------------------------------


def certify_pair(tokenizer: Tokenizer, before: str, behind: str) -> PairReport:
    """Whether a text may be cut between two characters, and if not, a text that shows why.

    Raises :class:`~toktier.errors.OptionError` for what is not one character.
    """
    for char in (before, behind):
        if len(char) != 1 or 0xD800 <= ord(char) < 0xE000:
            raise OptionError(f"a pair is two characters, but one of them is {char!r}")
    basis = _basis(tokenizer)
    if basis is None:
        refused = f"no pair of this tokenizer is: {tokenizer._cuts.refusal}"
        return PairReport(before, behind, None, False, False, (), (refused,), None)
    certificate = tokenizer._compiled.certificate
    entry = int(certificate.table[tuple(certificate.class_of[[ord(before), ord(behind)]])])
    reasons = _normalizer_reasons(basis, before, behind)
    mapped = "".join(chr(int(basis.seam.mapped[ord(char)])) for char in (before, behind))
    witness: Shown | None = None
    atoms: tuple[int, int] | None = None
    restarts, closes = bool(entry & int(RESTARTS)), bool(entry & int(CLOSES))
    if basis.plan.barriers:
        joined = ord(mapped[0]) << CODE_POINT_BITS | ord(mapped[1]) in certificate.adjacent
        restarts, closes = restarts and not joined, closes and not joined
        if joined and not reasons:
            witness = _token_witness(tokenizer, basis.vocabulary, mapped)
    else:
        one, other = (int(certificate.atom_of[ord(char)]) for char in mapped)
        atoms = one, other
        if not certificate.closes[one, other] and not reasons:
            witness = _stage_witness(
                tokenizer, basis, mapped, against_restarts=not certificate.restarts[one, other]
            )
    if not closes or not restarts:
        reasons += _token_reasons(basis.literals, before, behind, mapped)
    unless = _unless(basis.literals, before + behind, closes) if restarts and entry & int(ASK) else ()
    return PairReport(before, behind, atoms, restarts, closes, unless, reasons, witness)


def _normalizer_reasons(basis: _Basis, before: str, behind: str) -> tuple[str, ...]:
    return tuple(
        f"the normalizer ({', '.join(_steps(basis.pipeline.normalizer))}) may treat U+{ord(char):04X} together "
        "with what stands beside it"
        for char in dict.fromkeys((before, behind))
        if not basis.seam.allowed[ord(char)]
    )


def _token_reasons(literals: Literals, before: str, behind: str, mapped: str) -> tuple[str, ...]:
    """The rules of :mod:`~toktier.certificates.derive` about added tokens' flags, as far as they forbid."""
    edges = literals.edges()
    one, other = {before, mapped[0]}, {behind, mapped[1]}
    white = edges["white space"]
    found = []
    if one & edges["word last"] or other & edges["word first"]:
        found.append("an added token that must be a word of its own ends before the cut or begins behind it")
    if (one & edges["strip last"] and other & white) or (one & white and other & edges["strip first"]):
        found.append("an added token that takes the white space beside it along ends or begins here")
    if one & white and other & white:
        found.append("an added token may take along all of the white space here")
    elif other & white and edges["strip first"]:
        found.append("the white space behind the cut may belong to an added token")
    if mapped in inner_pairs(literals.normalized):
        found.append("an added token, looked for in the normalized text, contains both side by side")
    return tuple(found)


def _unless(literals: Literals, pair: str, closes: bool) -> tuple[str, ...]:
    across = [token.content for token in literals.given if pair in token.content]
    found = [f"the added token {content!r} lies across it" for content in across]
    if not closes:
        behind = [t.content for t in (*literals.given, *literals.normalized) if t.content[0] == pair[1]]
        found += [f"the added token {content!r} begins at it" for content in behind]
    return tuple(found)


def _stage_witness(tokenizer: Tokenizer, basis: _Basis, pair: str, *, against_restarts: bool) -> Shown:
    atoms, search = _search(basis.plan.stages)
    one, other = (int(atoms.of_code_point[ord(char)]) for char in pair)
    found = search.against_restarts(one, other) if against_restarts else search.against_closes(one, other)
    assert found is not None, "the pair is not in the relation"
    # characters of one atom are alike, so a witness may be written with others at the cut
    found = Witness(
        found.kind,
        found.x[:-1] + pair[0],
        pair[1] + found.y[1:],
        None if found.other is None else pair[1] + found.other[1:],
    )
    engine = tokenizer._reference.plain.pre_tokenizer
    if basis.plan.prefix:  # it is ByteLevel; what is on the right of a cut gets no space
        engine = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def spans(text: str) -> list[tuple[int, int]]:
        return [(start, stop) for _, (start, stop) in engine.pre_tokenize_str(text) if stop > start]

    texts = [found.x + found.y]
    if found.kind == "right side":
        texts.append(found.y)
    elif found.kind != "no boundary":
        texts.append(found.x + (found.other or ""))
    return Shown(
        found.kind,
        found.x,
        found.y,
        found.other,
        str(found),
        tuple((text, tuple(text[start:stop] for start, stop in spans(text))) for text in texts),
        found.confirmed(lambda text: [start for start, _ in spans(text)]),
    )


@lru_cache(maxsize=1)
def _search(stages: tuple[Node, ...]) -> tuple[Atoms, WitnessSearch]:
    atoms, machines = machines_of(stages)
    return atoms, WitnessSearch(machines, representatives(atoms.of_code_point, atoms.count))


def _token_witness(tokenizer: Tokenizer, vocabulary: Mapping[str, int], pair: str) -> Shown:
    """A shortest token with the pair inside, one that merging makes if there is one."""
    model = tokenizer._reference.plain.model
    holding: Sequence[str] = sorted((t for t in mergeable(vocabulary) if pair in t), key=lambda t: (len(t), t))
    made = [[part.value for part in model.tokenize(token)] for token in holding[:50]]
    chosen = next((i for i, parts in enumerate(made) if parts == [holding[i]]), 0)
    token, confirmed = holding[chosen], made[chosen] == [holding[chosen]]
    cut = token.index(pair) + 1
    return Shown(
        "token",
        token[:cut],
        token[cut:],
        None,
        f"the token {token!r} ({vocabulary[token]}) contains {pair[0]!r} directly followed by {pair[1]!r}",
        ((token, tuple(made[chosen])),),
        confirmed,
    )
