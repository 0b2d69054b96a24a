"""Which stages an artifact's text goes through, or why only the reference can run it.

A *stage* is a pattern that cuts at every match and keeps gaps as pieces.  All pre-tokenizers that our engines
run are put into this one form, so that everything after it (machines, ``re`` patterns) has a single case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .errors import UnsupportedPatternError
from .patterns.charsets import DIGITS
from .patterns.syntax import Alternation, Chars, Concat, Node, Not, One, Property, Repeat, Union, parse
from .pipeline import (
    BPE,
    ByteLevel,
    Digits,
    Literal,
    Normalizer,
    NormalizerSequence,
    Other,
    Pipeline,
    PreTokenizer,
    PreTokenizerSequence,
    Replace,
    Split,
)

#: The pattern that the ``ByteLevel`` pre-tokenizer brings along (GPT-2's).
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_WORD_MARK = "\u2581"  # the sign that SentencePiece-style vocabularies write for a space


@dataclass(frozen=True, slots=True)
class Plan:
    """``stages`` in order; ``covering[i]`` says that stage i is only right if no character is in a gap.

    ``byte_level``: the model sees bytes (through GPT-2's alphabet), not characters.
    """

    stages: tuple[Node, ...]
    covering: tuple[bool, ...]
    byte_level: bool


def make_plan(pipeline: Pipeline, vocabulary: Mapping[str, int]) -> Plan | str:
    """The plan of an artifact, or the reason why it runs on the reference."""
    model = pipeline.model
    if not isinstance(model, BPE):
        return f"the model is {model.type}; the engines run BPE"
    if model.dropout:
        return "the model drops merges at random (dropout)"
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        return "the model marks subwords by a prefix or suffix"
    stages: list[Node] = []
    covering: list[bool] = []
    byte_level = False
    for stage in _flat(pipeline.pre_tokenizer):
        if byte_level:
            return "a pre-tokenizer follows ByteLevel"
        reason = _stage(stage, pipeline.normalizer, stages, covering)
        if reason is not None:
            return reason
        byte_level = isinstance(stage, ByteLevel)
    if byte_level:
        return Plan(tuple(stages), tuple(covering), True)
    if not model.byte_fallback or any(f"<0x{byte:02X}>" not in vocabulary for byte in range(256)):
        return "the model has no token for some bytes"
    if model.ignore_merges:
        return "the model looks up whole texts before it merges (ignore_merges), so none may be cut"
    barrier = _word_barrier(vocabulary)
    if isinstance(barrier, str):
        return barrier
    return Plan((*stages, barrier), (*covering, False), False)


def _flat(stage: PreTokenizer | None) -> list[PreTokenizer]:
    if stage is None:
        return []
    if isinstance(stage, PreTokenizerSequence):
        return [inner for part in stage.stages for inner in _flat(part)]
    return [stage]


def _stage(
    stage: PreTokenizer, normalizer: Normalizer | None, stages: list[Node], covering: list[bool]
) -> str | None:
    """Append what ``stage`` does; return a reason if it cannot be put as a stage."""
    match stage:
        case ByteLevel(add_prefix_space, _, use_regex):
            if add_prefix_space:
                return "ByteLevel adds a space before each text (add_prefix_space)"
            if use_regex:
                stages.append(parse(GPT2_PATTERN))
                covering.append(False)
        case Digits(individual_digits):
            digit = One(Property(DIGITS))
            stages.append(digit if individual_digits else Repeat(digit, 1, None, False))
            covering.append(False)
        case Split(Literal(text), _, _) if _is_replaced(text, normalizer):
            pass  # the normalizer leaves nothing to split at
        case Split(pattern, behavior, invert):
            removes_gaps = behavior == "Removed" and invert
            if behavior != "Isolated" and not removes_gaps:
                return f"a Split has the behavior {behavior}"
            if isinstance(pattern, Literal):
                node: Node = Concat(tuple(One(Chars(((ord(c), ord(c)),))) for c in pattern.text))
                if not pattern.text:
                    return "a Split has an empty pattern"
            else:
                try:
                    node = parse(pattern.source)
                except UnsupportedPatternError as problem:
                    return str(problem)
            stages.append(node)
            covering.append(removes_gaps)
        case Other(type, _):
            return f"the pre-tokenizer {type} runs on the reference"
        case _:
            return "the pre-tokenizer runs on the reference"
    return None


def _is_replaced(text: str, normalizer: Normalizer | None) -> bool:
    """Whether the normalizer's last word on ``text`` is to replace it by something without it."""
    match normalizer:
        case NormalizerSequence(steps) if steps:
            return _is_replaced(text, steps[-1])
        case Replace(Literal(replaced), content):
            return len(text) == 1 and replaced == text and text not in content
    return False


def _word_barrier(vocabulary: Mapping[str, int]) -> Node | str:
    """Cut a text without pre-tokenizer before a word mark, where no token can cross.

    Merges only ever build vocabulary tokens.  If none contains a character x directly followed by a word mark,
    no merge joins the two, and BPE on either side is independent of the other side.
    """
    before = {
        token[at - 1]
        for token in vocabulary
        for at in range(1, len(token))
        if token[at] == _WORD_MARK and token[at - 1] != _WORD_MARK
    }
    if len(before) > 64:
        return "too many tokens have a word mark inside"
    mark = Chars(((ord(_WORD_MARK), ord(_WORD_MARK)),))
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
