"""Offsets, against the reference: real tokenizers, and small ones with every flag."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import adversarial
import numpy as np
import pytest
import small
from conftest import parsed, reference, tokenizers, usual_tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from judge import engine
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers

from toktier.added_tokens import as_loaded
from toktier.artifact import Artifact
from toktier.bpe.tables import token_bytes
from toktier.errors import OptionError
from toktier.front import Front
from toktier.normalization import inert_table
from toktier.offsets import (
    _changeable,
    byte_spans,
    char_spans,
    original_positions,
    reference_offsets,
    trim_spans,
)
from toktier.pipeline import UnicodeForm, parse
from toktier.postprocessing import PostProcessor
from toktier.records import replace
from toktier.segments import NO_IDS, NO_POSITIONS, PreparedText
from toktier.tokenizer import Tokenizer as ReadyTokenizer

FORMS = ("NFC", "NFD", "NFKC", "NFKD")


class Own:
    """Offsets of this package, from ids and vocabulary instead of an engine."""

    def __init__(self, document: dict[str, Any]) -> None:
        pipeline = parse(document)
        tokens = as_loaded(pipeline.added_tokens, document["model"]["vocab"])
        self.pipeline = replace(pipeline, added_tokens=tokens)
        self.front = Front(self.pipeline)
        self.post = PostProcessor.from_pipeline(self.pipeline)
        vocabulary = token_bytes(document["model"]["vocab"], True)
        self.lengths = np.diff(vocabulary.offsets)

    def token_lengths(self, prepared: PreparedText, ids: list[int]) -> NDArray[np.int64]:
        """Bytes of each of the model's ids; where an added token was found, those of its span."""
        spans = {
            len(prepared.text[:start].encode()): len(prepared.text[start:stop].encode())
            for start, stop in zip(prepared.starts.tolist(), prepared.stops.tolist(), strict=True)
        }
        lengths, position = [], 0
        for token_id in ids:
            lengths.append(spans.get(position) or int(self.lengths[token_id]))
            position += lengths[-1]
        return np.array(lengths, np.int64)

    def offsets(
        self, text: str, ids: list[int], special: bool = True, max_length: int | None = None
    ) -> list[tuple[int, int]]:
        prepared = self.front.prepare(text)
        positions = None
        if not prepared.unchanged:
            assert isinstance(self.pipeline.normalizer, UnicodeForm)
            literals = self.front.given_spans(text)
            normal, positions = original_positions(text, self.pipeline.normalizer.form, literals)
            assert normal == prepared.text
        result = reference_offsets(
            text,
            prepared,
            self.token_lengths(prepared, ids),
            self.post,
            add_special_tokens=special,
            max_length=max_length,
            positions=positions,
        )
        assert result.dtype == np.int64
        return [(start, stop) for start, stop in result.tolist()]


# --- the parts ------------------------------------------------------------------------------


def test_byte_spans_tile() -> None:
    assert byte_spans(np.array([2, 1, 4], np.uint32)).tolist() == [[0, 2], [2, 3], [3, 7]]
    assert byte_spans(np.empty(0, np.uint32)).shape == (0, 2)


@given(text=st.text(min_size=1), data=st.data())
def test_char_spans_cover_whole_characters(text: str, data: st.DataObject) -> None:
    size = len(text.encode())
    start = data.draw(st.integers(0, size - 1))
    stop = data.draw(st.integers(start + 1, size))
    owner = [index for index, char in enumerate(text) for _ in char.encode()]
    spans = char_spans(text, np.array([[start, stop]], np.int64))
    assert spans.tolist() == [[owner[start], owner[stop - 1] + 1]]


def test_trimming_by_hand() -> None:
    # The values of the reference's own test of its trimming.
    spans = np.array([(0, 1), (0, 11), (11, 18), (18, 25), (25, 29)], np.int64)
    leading, trailing = np.array([1, 4, 2, 0, 4]), np.array([1, 2, 0, 2, 4])
    right = [[0, 0], [4, 9], [13, 18], [18, 23], [29, 29]]
    assert trim_spans(spans, leading, trailing, True).tolist() == right
    right[0] = [1, 1]
    assert trim_spans(spans, leading, trailing, False).tolist() == right
    # More white space than the span has room for stays, as in the reference.
    few = trim_spans(np.array([(0, 1)], np.int64), np.array([0]), np.array([2]), False)
    assert few.tolist() == [[0, 1]]


# --- original positions ------------------------------------------------------------------------

MARKS = st.sampled_from(
    [
        *"ae=\n é가かの漢ﬁ½😀",
        *"\u0301\u0316\u1dfa\u0898\u0323\u0338\u1106\u1161\u1109\u1175\u11af\u3099\u212b\u0344\u2126\u0958",
        *"\U0001d15e\ufb1d\U000113c2\u0f73\u0fb2\u0f81\u1e9b\u0f71\u05d0\u05bc\u0cc6\u0cc2\u0cd5\u09c7\u09be",
    ]
)


@pytest.mark.parametrize("form", FORMS)
@given(text=st.lists(MARKS, max_size=20).map("".join) | adversarial.texts())
def test_original_positions_are_the_references(form: str, text: str) -> None:
    judge = Tokenizer(models.BPE(vocab={"?": 0}, merges=[], unk_token="?"))
    judge.normalizer = getattr(normalizers, form)()
    normal, (starts, stops) = original_positions(text, form)
    assert normal == judge.normalizer.normalize_str(text)
    assert list(zip(starts.tolist(), stops.tolist(), strict=True)) == judge.encode(text).offsets


@given(parts=st.lists(st.lists(MARKS, max_size=6).map("".join), min_size=1, max_size=5))
def test_literals_are_left_alone(parts: list[str]) -> None:
    """Text between literals is normalized as if it stood alone."""
    text, literals, normal, positions = "", [], "", []
    for index, part in enumerate(parts):
        if index:
            literals.append((len(text), len(text) + 2))
            positions += [len(text), len(text) + 1]
            text, normal = text + "e\u0301", normal + "e\u0301"
        inner, (starts, _) = original_positions(part, "NFC")
        positions += (starts + len(text)).tolist()
        text, normal = text + part, normal + inner
    result, (starts, stops) = original_positions(text, "NFC", np.array(literals, np.int64).reshape(-1, 2))
    assert result == normal
    assert starts.tolist() == positions and (stops > starts).all()


@pytest.mark.parametrize("form", FORMS)
def test_what_original_positions_passes_over_is_inert(form: str) -> None:
    inert = inert_table(form)
    for code in (*range(0xD800), *range(0xE000, 0x110000)):
        if code != 0x0A and not _changeable(form).search(chr(code)):
            assert inert[code], f"U+{code:04X}"


def test_an_unknown_form_is_an_option_error() -> None:
    with pytest.raises(OptionError, match="NFX"):
        original_positions("a", "NFX")


# --- whole offsets ---------------------------------------------------------------------------------

BYTE_LEVEL = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
POSTS: list[dict[str, Any] | None] = [
    None,
    BYTE_LEVEL | {"add_prefix_space": False, "trim_offsets": False},
    BYTE_LEVEL | {"add_prefix_space": False},
    BYTE_LEVEL | {"add_prefix_space": True},
    {
        "type": "RobertaProcessing",
        "cls": ["a", 97],
        "sep": ["b", 98],
        "trim_offsets": True,
        "add_prefix_space": True,
    },
    {"type": "BertProcessing", "cls": ["a", 97], "sep": ["b", 98]},
    {
        "type": "Sequence",
        "processors": [BYTE_LEVEL | {"add_prefix_space": True}, BYTE_LEVEL | {"add_prefix_space": False}],
    },
]
TRUNCATIONS = [
    None,
    {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0},
    {"direction": "Left", "max_length": 6, "strategy": "LongestFirst", "stride": 0},
]
PADDINGS = [
    None,
    {
        "strategy": "BatchLongest",
        "direction": "Left",
        "pad_to_multiple_of": 4,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "x",
    },
    {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "x",
    },
]
ADDED = [
    small.added("<n>", 300),
    small.added("<l>", 301, "lstrip"),
    small.added("<r>", 302, "rstrip", "special"),
    small.added("<b>", 303, "lstrip", "rstrip", "special"),
    small.added("<é>", 304, "normalized", "lstrip", "rstrip"),
    small.added("<w>", 305, "single_word", "lstrip"),
    small.added("Ġ.Ġ", 306),
]
PIECES = st.sampled_from(
    [
        *(token["content"] for token in ADDED),
        *(
            "<e\u0301>",
            "<r",
            "a",
            "b",
            "ab",
            " ",
            "  ",
            " a",
            "\t",
            "\n",
            "\u00a0",
            "\u3000",
            "\u200b",
            "\x1f",
        ),
        *("é", "e\u0301", "漢", " ⭢", "Ġ", "\u0301", "😀", "\x85"),
    ]
)


@settings(max_examples=400)
@given(
    text=st.lists(PIECES, max_size=14).map("".join),
    post=st.sampled_from(POSTS),
    truncation=st.sampled_from(TRUNCATIONS),
    padding=st.sampled_from(PADDINGS),
    form=st.sampled_from([None, *FORMS]),
    special=st.booleans(),
    max_length=st.none() | st.integers(0, 9),
)
def test_offsets_are_the_references(
    text: str,
    post: dict[str, Any] | None,
    truncation: dict[str, Any] | None,
    padding: dict[str, Any] | None,
    form: str | None,
    special: bool,
    max_length: int | None,
) -> None:
    document = small.document(
        post_processor=post,
        truncation=truncation,
        padding=padding,
        added_tokens=ADDED,
        normalizer={"type": form} if form else None,
    )
    own = Own(document)
    assert own.front.unsupported is None
    bare = small.build(document | {"post_processor": None, "truncation": None, "padding": None})
    judge = small.build(document)
    if max_length is not None:
        judge.enable_truncation(max_length, direction=(truncation or {}).get("direction", "Right").lower())
    right = judge.encode(text, add_special_tokens=special).offsets
    assert own.offsets(text, bare.encode(text).ids, special, max_length) == right


# What the reference alone can do the offsets of is left out: other models, other normalizers.
BYTE_LEVEL_NAMES = [
    *("gpt2", "gpt-oss", "qwen3", "deepseek-v3", "cl100k", "claude_old", "deepseek_coder", "deepseek_llm"),
    *("deepseek_v4", "glm4_7_flash", "gpt_neox_pii", "kimi_k2", "llama3_1", "minimax_m3"),
    *("mistral_tekken_240911", "o200k", "olmo2_dolma2", "phi4", "qwen3_5", "starcoder"),
]


@pytest.mark.parametrize("name", usual_tokenizers(*BYTE_LEVEL_NAMES))
def test_real_tokenizers(name: str) -> None:
    own = Own(parsed(name))
    assert own.post.unsupported is None and own.front.unsupported is None
    judge = reference(name)
    prefix = len(own.post.prefix)

    @settings(max_examples=60)
    @given(text=adversarial.texts(tuple(token.content for token in own.pipeline.added_tokens)))
    def check(text: str) -> None:
        bare = judge.encode(text, add_special_tokens=False)
        assert own.offsets(text, bare.ids, special=False) == bare.offsets
        assert own.offsets(text, bare.ids) == judge.encode(text).offsets

    check()
    text = "  are you ok?\n\tdéjà  vu, i ⭢ j \n 漢字かな交じり文。 👩🏽‍🚀 e\u0301" * 20
    encoding = judge.encode(text)
    ids = encoding.ids[prefix : len(encoding.ids) - len(own.post.suffix)]
    assert own.offsets(text, ids) == encoding.offsets


@pytest.mark.parametrize(
    ("name", "text", "figures"),
    [
        ("qwen3", "e\u0301", [(0, 1)]),
        ("qwen3", "\u1106\u1161\u1109\u1175\u11af", [(0, 1), (2, 3)]),
        ("llama3_1", "are you ok?", [(0, 3), (3, 7), (7, 10), (10, 11)]),
        ("cl100k", "i \u2b62 j", [(0, 1), (1, 3), (2, 3), (2, 3), (3, 5)]),
    ],
)
def test_reported_cases(name: str, text: str, figures: list[tuple[int, int]]) -> None:
    if name not in {parameter.values[0] for parameter in tokenizers() if not parameter.marks}:
        pytest.skip("this tokenizer is not on this machine")
    bare = reference(name).encode(text, add_special_tokens=False)
    own = Own(parsed(name))
    assert own.offsets(text, bare.ids, special=False) == bare.offsets == figures


@pytest.mark.parametrize("text", ["a", "\u0378"])
def test_spans_that_the_reference_has_beyond_the_text(text: str) -> None:
    """It counts a suffix of the model, or a token of a byte, by its characters; bytes end with the text."""
    vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "end_of_word_suffix": "</w>"}
    data = json.dumps(small.document(pre_tokenizer=None, decoder=None, model=model)).encode()
    found = ReadyTokenizer(Artifact.from_bytes(data, "suffix")).encode_with_offsets(text)
    expected = Tokenizer.from_str(data.decode()).encode(text)
    assert found.offsets.tolist() == [list(span) for span in expected.offsets]
    assert found.offsets.max() > len(text)
    assert found.byte_offsets.max() == len(text.encode())


def test_lengths_that_do_not_tile_are_refused() -> None:
    prepared = PreparedText("aé", NO_POSITIONS, NO_POSITIONS, NO_IDS, True)
    with pytest.raises(ValueError, match="2 of the text's 3 bytes"):
        reference_offsets("aé", prepared, np.array([1, 1]), PostProcessor())


def test_a_changed_text_needs_positions_that_fit() -> None:
    prepared = PreparedText("é", NO_POSITIONS, NO_POSITIONS, NO_IDS, False)
    with pytest.raises(ValueError, match="original positions"):
        reference_offsets("e\u0301", prepared, np.array([2]), PostProcessor())
    short = (NO_POSITIONS, NO_POSITIONS)
    with pytest.raises(ValueError, match="0 positions"):
        reference_offsets("e\u0301", prepared, np.array([2]), PostProcessor(), positions=short)


def test_a_short_text_costs_nothing_for_each_token_of_the_vocabulary() -> None:
    tok = engine("gpt-oss")
    tok.encode_with_offsets("Hello")
    tracemalloc.start()
    try:
        tok.encode_with_offsets("Hello, world")
        assert tracemalloc.get_traced_memory()[1] < 100_000  # bytes
    finally:
        tracemalloc.stop()
