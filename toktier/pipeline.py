"""What a ``tokenizer.json`` says, as frozen dataclasses.

The pipeline of the reference (Hugging Face ``tokenizers``) is, in order:
added-token extraction, normalizer, pre-tokenizer stages, model (per piece),
post-processor (once).  This module only *describes* it.  Nothing here
tokenizes, and nothing is approximated: a component that has no dataclass of
its own is kept as :class:`Other` with its JSON, and whoever needs to run it
asks the reference.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from .errors import ArtifactError
from .records import record


@record
class AddedToken:
    """A literal that is cut out of the text before everything else.

    ``once_normalized``: it is listed several times, and some entry before the one that counts was ``normalized``.
    """

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False
    once_normalized: bool = False


@record
class Other:
    """A component that only the reference runs: its type and its JSON text."""

    type: str
    json: str


# --- patterns, shared by Split and Replace ---------------------------------


@record
class Literal:
    """``{"String": text}``: the pattern is the text itself."""

    text: str


@record
class Regex:
    """``{"Regex": source}``: a regular expression in the engine's (Oniguruma) syntax."""

    source: str


Pattern: TypeAlias = Literal | Regex


# --- normalizers ------------------------------------------------------------


@record
class UnicodeForm:
    """``NFC``, ``NFD``, ``NFKC`` or ``NFKD``, with the engine's own Unicode tables."""

    form: str


@record
class Prepend:
    """Put ``text`` before every non-empty segment."""

    text: str


@record
class Replace:
    """Replace every match of ``pattern`` by ``content``."""

    pattern: Pattern
    content: str


@record
class NormalizerSequence:
    steps: tuple[Normalizer, ...]


Normalizer: TypeAlias = UnicodeForm | Prepend | Replace | NormalizerSequence | Other


# --- pre-tokenizers ---------------------------------------------------------


@record
class Split:
    """Cut at matches of ``pattern``.

    ``behavior`` is one of ``Isolated``, ``Removed``, ``MergedWithPrevious``,
    ``MergedWithNext`` and ``Contiguous``; ``invert`` swaps matches and gaps.
    """

    pattern: Pattern
    behavior: str
    invert: bool


@record
class ByteLevel:
    """Map bytes to printable characters, after GPT-2's own pattern if ``use_regex``."""

    add_prefix_space: bool
    trim_offsets: bool
    use_regex: bool


@record
class Digits:
    individual_digits: bool


@record
class Metaspace:
    """Write ``replacement`` for spaces and before texts (:mod:`~toktier.word_marks`), and cut at it if ``split``.

    ``prepend_scheme`` is one of ``always``, ``first`` and ``never``.
    """

    replacement: str
    prepend_scheme: str
    split: bool


@record
class PreTokenizerSequence:
    stages: tuple[PreTokenizer, ...]


PreTokenizer: TypeAlias = Split | ByteLevel | Digits | Metaspace | PreTokenizerSequence | Other


# --- models -----------------------------------------------------------------


@record
class BPE:
    """Byte-pair encoding.  The vocabulary and the merges live in the artifact's tables."""

    unk_token: str | None = None
    continuing_subword_prefix: str = ""
    end_of_word_suffix: str = ""
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    dropout: float | None = None


Model: TypeAlias = BPE | Other


# --- post-processors --------------------------------------------------------


@record
class ByteLevelOffsets:
    """The ``ByteLevel`` post-processor: it leaves ids alone and trims offsets if asked."""

    add_prefix_space: bool
    trim_offsets: bool


@record
class Template:
    """Special ids around a single sequence (``TemplateProcessing`` and its older kin)."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


@record
class PostProcessorSequence:
    steps: tuple[PostProcessor, ...]


PostProcessor: TypeAlias = ByteLevelOffsets | Template | PostProcessorSequence | Other


# --- truncation and padding ---------------------------------------------------


@record
class Truncation:
    max_length: int
    direction: str  # "Left" or "Right"
    strategy: str
    stride: int


@record
class Padding:
    length: int | None  # None: the longest of the batch
    direction: str  # "Left" or "Right"
    pad_to_multiple_of: int | None
    pad_id: int
    pad_type_id: int
    pad_token: str


@record
class Pipeline:
    """The whole description, except vocabulary and merges."""

    added_tokens: tuple[AddedToken, ...]
    normalizer: Normalizer | None
    pre_tokenizer: PreTokenizer | None
    model: Model
    post_processor: PostProcessor | None
    decoder: Other | None
    truncation: Truncation | None
    padding: Padding | None


# --- parsing ------------------------------------------------------------------


def _other(value: dict[str, Any]) -> Other:
    return Other(str(value.get("type", "?")), json.dumps(value, ensure_ascii=False, sort_keys=True))


def _pattern(value: Any) -> Pattern:
    if isinstance(value, dict) and isinstance(value.get("String"), str):
        return Literal(value["String"])
    if isinstance(value, dict) and isinstance(value.get("Regex"), str):
        return Regex(value["Regex"])
    raise ArtifactError(f"a pattern must be {{'String': …}} or {{'Regex': …}}, not {value!r}")


def _normalizer(value: dict[str, Any] | None) -> Normalizer | None:
    if value is None:
        return None
    match value.get("type"):
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            return UnicodeForm(form)
        case "Prepend":
            return Prepend(value["prepend"])
        case "Replace":
            return Replace(_pattern(value["pattern"]), value["content"])
        case "Sequence":
            steps = (_normalizer(step) for step in value["normalizers"])
            return NormalizerSequence(tuple(step for step in steps if step is not None))
    return _other(value)


def _pre_tokenizer(value: dict[str, Any] | None) -> PreTokenizer | None:
    if value is None:
        return None
    match value.get("type"):
        case "Split":
            return Split(_pattern(value["pattern"]), value["behavior"], bool(value.get("invert", False)))
        case "ByteLevel":
            return ByteLevel(
                bool(value.get("add_prefix_space", True)),
                bool(value.get("trim_offsets", True)),
                bool(value.get("use_regex", True)),
            )
        case "Digits":
            return Digits(bool(value.get("individual_digits", False)))
        case "Metaspace":
            scheme = "never" if value.get("add_prefix_space") is False else value.get("prepend_scheme") or "always"
            return Metaspace(value["replacement"], scheme, bool(value.get("split", True)))
        case "Sequence":
            stages = (_pre_tokenizer(stage) for stage in value["pretokenizers"])
            return PreTokenizerSequence(tuple(stage for stage in stages if stage is not None))
    return _other(value)


def _model(value: dict[str, Any]) -> Model:
    kind = value.get("type") or ("BPE" if "merges" in value else None)
    if kind != "BPE":
        small = {k: v for k, v in value.items() if k not in ("vocab", "merges")}
        return Other(str(kind), json.dumps(small, ensure_ascii=False, sort_keys=True))
    return BPE(
        unk_token=value.get("unk_token"),
        continuing_subword_prefix=value.get("continuing_subword_prefix") or "",
        end_of_word_suffix=value.get("end_of_word_suffix") or "",
        fuse_unk=bool(value.get("fuse_unk", False)),
        byte_fallback=bool(value.get("byte_fallback", False)),
        ignore_merges=bool(value.get("ignore_merges", False)),
        dropout=value.get("dropout"),
    )


def _template(value: dict[str, Any]) -> Template | None:
    """The ids before and after the one sequence, or None if the template is another shape."""
    ids: dict[str, list[int]] = {k: list(v["ids"]) for k, v in value.get("special_tokens", {}).items()}
    before: list[int] = []
    after: list[int] = []
    seen = 0
    for item in value.get("single", []):
        if "Sequence" in item and item["Sequence"].get("id") == "A":
            seen += 1
        elif "SpecialToken" in item and item["SpecialToken"]["id"] in ids:
            (after if seen else before).extend(ids[item["SpecialToken"]["id"]])
        else:
            return None
    return Template(tuple(before), tuple(after)) if seen == 1 else None


def _cls_sep(value: dict[str, Any]) -> PostProcessor:
    """``BertProcessing`` or ``RobertaProcessing``.

    The reference tells the two apart by their fields, not by ``type``: the second
    trims offsets like ``ByteLevel`` and then does as the first does.
    """
    template = Template((int(value["cls"][1]),), (int(value["sep"][1]),))
    if "trim_offsets" not in value or "add_prefix_space" not in value:
        return template
    trim = ByteLevelOffsets(bool(value["add_prefix_space"]), bool(value["trim_offsets"]))
    return PostProcessorSequence((trim, template))


def _post_processor(value: dict[str, Any] | None) -> PostProcessor | None:
    if value is None:
        return None
    match value.get("type"):
        case "ByteLevel":
            return ByteLevelOffsets(
                bool(value.get("add_prefix_space", True)), bool(value.get("trim_offsets", True))
            )
        case "TemplateProcessing":
            return _template(value) or _other(value)
        case "BertProcessing" | "RobertaProcessing":
            return _cls_sep(value)
        case "Sequence":
            steps = (_post_processor(step) for step in value["processors"])
            return PostProcessorSequence(tuple(step for step in steps if step is not None))
    return _other(value)


def _truncation(value: dict[str, Any] | None) -> Truncation | None:
    if value is None:
        return None
    return Truncation(
        int(value["max_length"]),
        str(value.get("direction", "Right")),
        str(value.get("strategy", "LongestFirst")),
        int(value.get("stride", 0)),
    )


def _padding(value: dict[str, Any] | None) -> Padding | None:
    if value is None:
        return None
    strategy = value.get("strategy", "BatchLongest")
    if int(value.get("pad_id", 0)) < 0:
        raise ValueError("pad_id is negative")
    return Padding(
        int(strategy["Fixed"]) if isinstance(strategy, dict) else None,
        str(value.get("direction", "Right")),
        value.get("pad_to_multiple_of"),
        int(value.get("pad_id", 0)),
        int(value.get("pad_type_id", 0)),
        str(value.get("pad_token", "[PAD]")),
    )


def parse(document: dict[str, Any]) -> Pipeline:
    """Describe a decoded ``tokenizer.json``.

    Raises :class:`~toktier.errors.ArtifactError` where a part has not the shape that
    the reference's own files have.
    """
    try:
        decoder = document.get("decoder")
        return Pipeline(
            added_tokens=tuple(
                AddedToken(
                    int(token["id"]),
                    token["content"],
                    bool(token.get("single_word", False)),
                    bool(token.get("lstrip", False)),
                    bool(token.get("rstrip", False)),
                    bool(token.get("normalized", not token.get("special", False))),
                    bool(token.get("special", False)),
                    bool(token.get("once_normalized", False)),
                )
                for token in document.get("added_tokens") or ()
            ),
            normalizer=_normalizer(document.get("normalizer")),
            pre_tokenizer=_pre_tokenizer(document.get("pre_tokenizer")),
            model=_model(document["model"]),
            post_processor=_post_processor(document.get("post_processor")),
            decoder=None if decoder is None else _other(decoder),
            truncation=_truncation(document.get("truncation")),
            padding=_padding(document.get("padding")),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as problem:
        if isinstance(problem, ArtifactError):
            raise
        raise ArtifactError(
            f"a part has an unexpected shape ({type(problem).__name__}: {problem}); correct the file"
        ) from problem
