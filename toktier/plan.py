"""Which stages an artifact's text goes through: to run it, and to know where it may be cut.

A *stage* is a pattern that cuts at every match and keeps gaps as pieces.  Pre-tokenizers are put into this one
form, so that everything after it (machines, ``re`` patterns, certificates) has a single case.

:func:`make_plan` is for the engines, which must know every piece and every id.  :func:`certificate_plan` is
for certificates, which only ask where pieces end, whichever engine encodes them, so it covers more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .certificates.barriers import lacks_bytes, why_no_barriers
from .charsmap import is_damaged
from .errors import UnsupportedPatternError
from .patterns.backtracking import backtracks
from .patterns.behaviors import BEHAVIORS, pieces_of
from .patterns.charsets import DIGITS, PUNCTUATION, WHITE_SPACE, WORDS, members
from .patterns.syntax import (
    Alternation,
    Chars,
    Concat,
    Node,
    Not,
    One,
    Property,
    Repeat,
    SetExpr,
    Union,
    parse,
    sets_of,
)
from .pipeline import (
    BPE,
    ByteLevel,
    Digits,
    Metaspace,
    Model,
    Normalizer,
    NormalizerSequence,
    Other,
    Pipeline,
    Prepend,
    PreTokenizer,
    PreTokenizerSequence,
    Regex,
    Replace,
    Split,
    UnicodeForm,
)
from .pipeline import Literal as Text
from .word_marks import word_mark

#: The pattern that the ``ByteLevel`` pre-tokenizer brings along (GPT-2's).
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

#: What ``Whitespace`` keeps: ``\w+|[^\w\s]+``, but another engine than that of ``Split`` runs it, and the two do
#: not agree on what a word is.
_WORDS = Alternation(
    (
        Repeat(One(Property(WORDS)), 1, None, False),
        Repeat(One(Not(Union((Property(WORDS), Property(WHITE_SPACE))))), 1, None, False),
    )
)

_GIVES_UP = "the vocabulary lacks the unknown token, and the reference gives up on what it does not know"
_NO_SET = "what a Split removes is not a matter of single characters"

_WORD_MARK = "\u2581"  # the sign that SentencePiece-style vocabularies write for a space


@dataclass(frozen=True, slots=True)
class Plan:
    """``stages`` in order; ``covering[i]`` says that stage i is only right if no character is in a gap.

    ``removed``: the characters that the stages leave out of the text; each is in pieces of such ones alone.
    ``byte_level``: the model sees bytes (through GPT-2's alphabet), not characters; and so do ``byte_stages``.
    """

    stages: tuple[Node, ...]
    covering: tuple[bool, ...]
    removed: tuple[SetExpr, ...]
    byte_level: bool
    byte_stages: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """Stages whose pieces the model encodes one by one, in any engine.

    ``stages`` and ``covering`` as in :class:`Plan`.  A stage may also cut pieces that the pre-tokenizer leaves
    out of the text; whether it does so is a matter of the piece's characters alone.

    ``barriers``: there are no stages, and the text may be cut between characters that no token of the vocabulary
    contains next to each other (:mod:`~toktier.certificates.barriers`).

    ``token_ends``: it may be cut at the end of an added token as well.  Not if the first piece of a text is
    treated in a way of its own.

    ``prefix``: a space is put before each text that has none, so the right side of a cut is to be encoded without.
    """

    stages: tuple[Node, ...]
    covering: tuple[bool, ...]
    barriers: bool = False
    token_ends: bool = True
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class _Stage:
    """The pattern of the pieces, and which of them are left out of the text, or what characters are."""

    pieces: Node
    removes: Literal["matches", "gaps"] | SetExpr | None = None


def make_plan(pipeline: Pipeline, vocabulary: Mapping[str, int]) -> Plan | str:
    """The plan of an artifact, or the reason why it runs on the reference."""
    model = pipeline.model
    reason = _not_by_pieces(model)
    if reason is None:
        reason = _why_no_bpe(model) if isinstance(model, BPE) else _why_no_words(model, vocabulary)
    if reason is not None:
        return reason
    if is_damaged(pipeline.normalizer):
        return "the map of the normalizer Precompiled is damaged"
    stages: list[Node] = []
    covering: list[bool] = []
    removed: list[SetExpr] = []
    byte_stages: list[Node] = []
    byte_level = False
    by_parts = isinstance(model, BPE) and not (model.ignore_merges or model.end_of_word_suffix)
    mark = word_mark(pipeline.pre_tokenizer)
    for part in _flat(pipeline.pre_tokenizer):
        if isinstance(part, ByteLevel) and not isinstance(model, BPE):
            return f"ByteLevel stands before a model of characters ({model.type})"
        if byte_level and (isinstance(part, ByteLevel) or not by_parts):
            return "a pre-tokenizer follows ByteLevel"
        if mark is None and isinstance(part, ByteLevel) and part.add_prefix_space:
            return "ByteLevel adds a space before each piece of another pre-tokenizer (add_prefix_space)"
        if mark is not None and isinstance(part, Metaspace):
            if mark.before == "text" and not _shows_beginning(pipeline):
                return "Metaspace marks what begins where the text does, and the normalizer may move that"
            if part.split:
                stages.append(pieces_of(_literal(mark.mark), "MergedWithNext", False))
                covering.append(False)
            continue
        if mark is not None and mark.before == "word":
            continue  # no white space is left
        found = _stages(part, pipeline.normalizer)
        if isinstance(found, str):
            return found
        for stage in found:
            if byte_level:
                if stage.removes is not None:
                    return "a pre-tokenizer that follows ByteLevel removes bytes from the text"
                byte_stages.append(stage.pieces)
                continue
            characters = _removed(stage)
            if characters is None and stage.removes == "matches":
                return _NO_SET
            stages.append(stage.pieces)
            covering.append(characters is None)
            removed += characters or ()
        byte_level = byte_level or isinstance(part, ByteLevel)
    if not isinstance(model, BPE):
        if model.type == "Unigram" and not stages:
            return "Unigram sees the whole text as one piece"
        return Plan(tuple(stages), tuple(covering), tuple(removed), False)
    if byte_level:
        return Plan(tuple(stages), tuple(covering), tuple(removed), True, tuple(byte_stages))
    if stages and not model.byte_fallback and model.unk_token is not None and model.unk_token in vocabulary:
        if model.fuse_unk and len(model.unk_token.removesuffix(model.end_of_word_suffix)) < 2:
            return "the unknown token, which may stand for several characters (fuse_unk), is that of a character"
        return Plan(tuple(stages), tuple(covering), tuple(removed), False)
    if not model.byte_fallback or lacks_bytes(vocabulary):
        return "the model has no token for some bytes"
    if model.end_of_word_suffix:
        return "the model marks the end of words (end_of_word_suffix), and writes characters as bytes"
    if model.ignore_merges:
        return "the model looks up whole texts before it merges (ignore_merges), so none may be cut"
    sign = mark.mark if mark is not None and mark.for_spaces else _WORD_MARK
    barrier = _word_barrier(vocabulary, sign, sign)
    if isinstance(barrier, str):
        return barrier
    return Plan((*stages, barrier), (*covering, False), tuple(removed), False)


def _why_no_bpe(model: BPE) -> str | None:
    if model.continuing_subword_prefix:
        return "the model marks what continues a word by a prefix (continuing_subword_prefix)"
    if model.end_of_word_suffix and model.ignore_merges:
        return "the model looks up whole pieces without their suffix (ignore_merges, end_of_word_suffix)"
    return None


def _why_no_words(model: Other, vocabulary: Mapping[str, int]) -> str | None:
    options = json.loads(model.json)
    if model.type == "Unigram":
        has_unknown = options.get("unk_id") is not None
    else:
        has_unknown = options["unk_token"] in vocabulary
    return None if has_unknown else _GIVES_UP


def certificate_plan(pipeline: Pipeline, vocabulary: Mapping[str, int]) -> CertificatePlan | str:
    """The stages that decide where a text may be cut, or the reason why nobody can tell.

    Added tokens and the normalizer are another matter: this is about a text that has gone through both.
    """
    reason = _not_by_pieces(pipeline.model)
    if reason is not None:
        return reason
    stages: list[Node] = []
    covering: list[bool] = []
    last: str | None = None
    token_ends, prefix = True, False
    for part in _flat(pipeline.pre_tokenizer):
        if last == "ByteLevel" and stages and not isinstance(part, ByteLevel | Metaspace):
            # it sees what ByteLevel makes of each piece, as the model does, and cuts it further
            found = _stages(part, None)
            if isinstance(found, str):
                return found
            continue
        if last is not None:
            return f"a pre-tokenizer follows {last}, which rewrites the text"
        match part:
            case ByteLevel(add_prefix_space, _, use_regex):
                if add_prefix_space and (stages if use_regex else not stages):
                    return "ByteLevel adds a space before each piece that it cuts (add_prefix_space)"
                prefix = add_prefix_space and not stages
                last = "ByteLevel"
            case Metaspace():
                token_ends = part.prepend_scheme != "first"
                if stages and not token_ends:
                    return "Metaspace puts a word mark before the first piece alone (prepend_scheme: first)"
                cuts = _metaspace(part, pipeline.model, vocabulary)
                if isinstance(cuts, str):
                    return cuts
                stages += cuts
                covering += [False] * len(cuts)
                last = "Metaspace"
                continue
        found = _stages(part, pipeline.normalizer)
        if isinstance(found, str):
            return found
        for stage in found:
            characters = _removed(stage)
            if characters is None and stage.removes == "matches":
                return _NO_SET
            stages.append(stage.pieces)
            covering.append(characters is None)
    if stages:
        return CertificatePlan(tuple(stages), tuple(covering), token_ends=token_ends, prefix=prefix)
    if not isinstance(pipeline.model, BPE):
        return f"{pipeline.model.type} sees the whole text as one piece"
    return why_no_barriers(pipeline.model, vocabulary) or CertificatePlan((), (), barriers=True)


def _not_by_pieces(model: Model) -> str | None:
    """Why a model does more, or less, than give each piece the same ids wherever it stands."""
    match model:
        case BPE():
            return "the model drops merges at random (dropout)" if model.dropout else None
        case Other("WordPiece" | "WordLevel"):
            return None
        case Other("Unigram", source):
            chance = json.loads(source).get("alpha") is not None
            return "the model draws tokens at random (alpha)" if chance else None
    return f"what the model {model.type} does with a text is not known here"


def _flat(stage: PreTokenizer | None) -> list[PreTokenizer]:
    if stage is None:
        return []
    if isinstance(stage, PreTokenizerSequence):
        return [inner for part in stage.stages for inner in _flat(part)]
    return [stage]


def _stages(part: PreTokenizer, normalizer: Normalizer | None) -> list[_Stage] | str:
    """What one pre-tokenizer does, as stages, or the reason why it cannot be put so."""
    match part:
        case ByteLevel(_, _, use_regex):
            return [_Stage(parse(GPT2_PATTERN))] if use_regex else []
        case Digits(individual_digits):
            behavior = "Isolated" if individual_digits else "Contiguous"
            return _split(One(Property(DIGITS)), behavior, False)
        case Split(Text(text), _, _) if _is_replaced(text, normalizer):
            return []  # the normalizer leaves nothing to split at
        case Split(Text(""), _, _):
            return "a Split has an empty pattern"
        case Split(Text(text), behavior, invert):
            return _split(_literal(text), behavior, invert)
        case Split(Regex(source), behavior, invert):
            try:
                match = parse(source)
                if backtracks(match):
                    return (
                        f"the pattern {source!r} may take more than linear time in the engine of the reference, "
                        "which then gives up"
                    )
                return _split(match, behavior, invert)
            except UnsupportedPatternError as problem:
                return str(problem)
        case Other("Punctuation", source):
            return _split(One(Property(PUNCTUATION)), json.loads(source).get("behavior", "Isolated"), False)
        case Other("BertPreTokenizer", _):
            white, marks = Property(WHITE_SPACE), Property(PUNCTUATION)
            return [_Stage(Alternation((One(white), One(marks))), white)]
        case Other("WhitespaceSplit", _):
            return [_Stage(One(Property(WHITE_SPACE)), "matches")]
        case Other("Whitespace", _):
            return [_Stage(_WORDS, "gaps")]
        case Other("CharDelimiterSplit", source):
            return [_Stage(_literal(json.loads(source)["delimiter"]), "matches")]
        case Other(type, _):
            return f"the pre-tokenizer {type} runs on the reference"
    return "the pre-tokenizer runs on the reference"


def _split(match: Node, behavior: str, invert: bool) -> list[_Stage] | str:
    if behavior not in BEHAVIORS:
        return f"a Split has the behavior {behavior}"
    removes: Literal["matches", "gaps"] | None = None
    if behavior == "Removed":
        removes = "gaps" if invert else "matches"
    return [_Stage(pieces_of(match, behavior, invert), removes)]


def _literal(text: str) -> Node:
    characters = tuple(One(Chars(((ord(char), ord(char)),))) for char in text)
    return characters[0] if len(characters) == 1 else Concat(characters)


def _removed(stage: _Stage) -> tuple[SetExpr, ...] | None:
    """The characters that a stage leaves out wherever they stand; None if that is not a matter of the character.

    It is one if some branches of the pattern match single characters, and no other has a character that is none of
    them: then these are what is in matches.
    """
    if stage.removes is None:
        return ()
    if not isinstance(stage.removes, str):
        return (stage.removes,)
    alone: list[SetExpr] = []
    others: list[SetExpr] = []
    for branch in _branches(stage.pieces):
        match branch:
            case One(set) | Repeat(One(set), 1, _, _):
                alone.append(set)
            case _:
                others += sets_of(branch)
    matched = Union(tuple(alone))
    if others and (members(Union(tuple(others))) & ~members(matched)).any():
        return None
    return (matched if stage.removes == "matches" else Not(matched),)


def _branches(pattern: Node) -> list[Node]:
    if isinstance(pattern, Alternation):
        return [inner for branch in pattern.branches for inner in _branches(branch)]
    return [pattern]


def _metaspace(part: Metaspace, model: Model, vocabulary: Mapping[str, int]) -> list[Node] | str:
    """The stage of a ``Metaspace``, over texts as they are before it.

    It writes the word mark for each space, and puts one before each piece of the stages before it (``always``),
    or before the first of a text (``first``), if there is none.  Then it cuts before marks (``split``).  The
    text may be cut before a mark or a space as it was: nothing is put before what begins with one.
    """
    mark = part.replacement
    marks = " " + mark if mark != " " else mark
    if not part.split:
        if not isinstance(model, BPE):
            return []
        reason = why_no_barriers(model, vocabulary)
        barrier = _word_barrier(vocabulary, mark, marks) if reason is None else reason
        return barrier if isinstance(barrier, str) else [barrier]
    one = One(Chars(tuple((ord(c), ord(c)) for c in marks)))
    return [pieces_of(one, "MergedWithNext", False)]


def _shows_beginning(pipeline: Pipeline) -> bool:
    """Whether the first stretch of a text, and no other, begins where the text does, as the reference counts.

    It counts characters of the text as given.  Where a normalizer drops the first one, nothing begins there; what
    it puts before the first one stands at its place, and an added token could be found in that.
    """
    normalizer = pipeline.normalizer
    if normalizer is None:
        return True
    return _keeps_beginning(normalizer) and not any(token.normalized for token in pipeline.added_tokens)


def _keeps_beginning(normalizer: Normalizer) -> bool:
    match normalizer:
        case NormalizerSequence(steps):
            return all(map(_keeps_beginning, steps))
        case UnicodeForm() | Prepend():
            return True
        case Replace(Text(old), new):
            return len(old) == len(new) == 1
    return False


def _is_replaced(text: str, normalizer: Normalizer | None) -> bool:
    """Whether the normalizer's last word on ``text`` is to replace it by something without it."""
    match normalizer:
        case NormalizerSequence(steps) if steps:
            return _is_replaced(text, steps[-1])
        case Replace(Text(replaced), content):
            return len(text) == 1 and replaced == text and text not in content
    return False


def _word_barrier(vocabulary: Mapping[str, int], sign: str, marks: str) -> Node | str:
    """Cut a text without pre-tokenizer before a word mark, where no token can cross.

    The model sees each of the characters ``marks`` as ``sign``.  Merges only ever build vocabulary tokens.  If
    none contains a character x directly followed by a word mark, no merge joins the two, and BPE on either side is
    independent of the other side (:mod:`~toktier.certificates.barriers`).
    """
    holding = [token for token in vocabulary if token.rfind(sign) > 0]
    before = {token[at - 1] for token in holding for at in range(1, len(token)) if token[at] == sign}
    before -= {*marks}
    if len(before) > 64:
        return "too many tokens have a word mark inside"
    mark = Chars(tuple((ord(c), ord(c)) for c in marks))
    crossing = Chars(tuple((ord(c), ord(c)) for c in sorted(before)))
    glue = One(Union((mark, crossing)))  # a mark does not begin a piece after one of these
    other = One(Not(Union((mark, crossing))))

    def some(node: Node, low: int = 1) -> Node:
        return Repeat(node, low, None, False)

    if not before:
        return Alternation((Concat((some(One(mark)), some(other, 0))), some(other)))
    block = Concat((some(other), One(crossing), some(glue, 0)))
    return Alternation(
        (
            Concat((some(glue), some(block, 0), some(other, 0))),
            Concat((some(block), some(other, 0))),
            some(other),
        )
    )
