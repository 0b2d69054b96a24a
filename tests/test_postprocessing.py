"""Truncation, special ids and padding, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import small
from conftest import parsed, reference, tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toktier.errors import OptionError
from toktier.pipeline import parse
from toktier.postprocessing import PostProcessor


def template(*single: str) -> dict[str, Any]:
    """``TemplateProcessing``; ``$A`` is the sequence, ``[X]`` a special token, ``[XY]`` one of two ids."""
    ids = {"[X]": [90], "[Y]": [91], "[XY]": [92, 93]}

    def item(name: str, type_id: int) -> dict[str, Any]:
        if name.startswith("$"):
            return {"Sequence": {"id": name[1:], "type_id": type_id}}
        return {"SpecialToken": {"id": name, "type_id": type_id}}

    return {
        "type": "TemplateProcessing",
        "single": [item(name, 0) for name in single],
        "pair": [item("$A", 0), item("$B", 1)],
        "special_tokens": {
            name: {"id": name, "ids": values, "tokens": [f"{name}{n}" for n in range(len(values))]}
            for name, values in ids.items()
        },
    }


def sequence(*processors: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "processors": list(processors)}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
BERT = {"type": "BertProcessing", "cls": ["[C]", 95], "sep": ["[S]", 96]}
ROBERTA = BERT | {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False}
SUPPORTED = [
    None,
    BYTE_LEVEL,
    BERT,
    ROBERTA,
    BERT | {"trim_offsets": False, "add_prefix_space": True},  # the reference takes this for Roberta's
    template("[X]", "$A"),
    template("$A", "[Y]"),
    template("[X]", "[XY]", "$A", "[Y]", "[XY]"),
    template("$A"),
    sequence(),
    sequence(BYTE_LEVEL, template("[X]", "$A")),
    sequence(template("[X]", "$A", "[Y]"), BYTE_LEVEL),
    sequence(sequence(BYTE_LEVEL), sequence(ROBERTA)),
]
DIRECTIONS = st.sampled_from(["Left", "Right"])
TRUNCATIONS = st.none() | st.fixed_dictionaries(
    {
        "direction": DIRECTIONS,
        "max_length": st.integers(1, 12),
        "strategy": st.sampled_from(["LongestFirst", "OnlyFirst"]),
        "stride": st.just(0),
    }
)
PADDINGS = st.none() | st.fixed_dictionaries(
    {
        "strategy": st.just("BatchLongest") | st.builds(lambda n: {"Fixed": n}, st.integers(0, 16)),
        "direction": DIRECTIONS,
        "pad_to_multiple_of": st.none() | st.integers(0, 5),
        "pad_id": st.integers(0, 2**32 - 1),
        "pad_type_id": st.just(0),
        "pad_token": st.just("[PAD]"),
    }
)
TEXTS = st.text("ab é", max_size=14)
PLAIN = small.build(small.document())


def model_ids(text: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array(PLAIN.encode(text).ids, np.uint32)


def judge(parts: dict[str, Any], max_length: int | None) -> Tokenizer:
    """The reference, truncating to ``max_length`` if one is given."""
    judging = small.build(parts)
    if max_length is not None:
        direction = (parts["truncation"] or {}).get("direction", "Right").lower()
        judging.enable_truncation(max_length, direction=direction)
    return judging


@settings(max_examples=400)
@given(
    post=st.sampled_from(SUPPORTED),
    truncation=TRUNCATIONS,
    padding=PADDINGS,
    batch=st.lists(TEXTS, min_size=1, max_size=4),
    special=st.booleans(),
    max_length=st.none() | st.integers(0, 12),
)
def test_ids_are_the_references(
    post: dict[str, Any] | None,
    truncation: dict[str, Any] | None,
    padding: dict[str, Any] | None,
    batch: list[str],
    special: bool,
    max_length: int | None,
) -> None:
    parts = small.document(post_processor=post, truncation=truncation, padding=padding)
    own = PostProcessor.from_pipeline(parse(parts))
    assert own.unsupported is None
    judging = judge(parts, max_length)
    rows = [model_ids(text) for text in batch]
    for text, ids in zip(batch, rows, strict=True):
        right = judging.encode(text, add_special_tokens=special).ids
        result = own.finish(ids, special, max_length)
        assert result.tolist() == right and result.dtype == np.uint32
        # An engine that stops at `room` ids changes nothing.
        room = own.room(special, max_length)
        assert own.finish(ids[:room], special, max_length).tolist() == right
    right_rows = [encoding.ids for encoding in judging.encode_batch(batch, add_special_tokens=special)]
    assert [row.tolist() for row in own.finish_batch(rows, special, max_length)] == right_rows


def test_room_is_what_is_left_beside_the_special_ids() -> None:
    parts = small.document(post_processor=template("[X]", "$A", "[Y]"))
    own = PostProcessor.from_pipeline(parse(parts))
    assert own.room() is None
    assert own.room(True, 8) == 6
    assert own.room(False, 8) == 8
    assert own.room(True, 2) == 0
    assert own.room(True, 1) is None  # the reference does not cut at all then
    assert len(judge(parts, 1).encode("ab" * 50).ids) > 50


def test_nothing_to_do_copies_nothing() -> None:
    ids = model_ids("ab")
    assert PostProcessor().finish(ids) is not None
    assert np.shares_memory(PostProcessor().finish(ids), ids)
    assert PostProcessor().finish_batch([]) == []


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({"post_processor": template("$A", "$A")}, "TemplateProcessing"),
        ({"post_processor": template("[X]")}, "TemplateProcessing"),
        ({"post_processor": template("[Z]", "$A")}, "TemplateProcessing"),
        ({"post_processor": sequence(template("[X]", "$A"), BERT)}, "several"),
        ({"post_processor": {"type": "Novel"}}, "Novel"),
        ({"truncation": {"max_length": 5, "strategy": "OnlySecond", "stride": 0}}, "OnlySecond"),
        ({"truncation": {"max_length": 5, "strategy": "LongestFirst", "stride": 5}}, "stride"),
    ],
)
def test_what_only_the_reference_runs_is_named(parts: dict[str, Any], word: str) -> None:
    reason = PostProcessor.from_pipeline(parse(small.document(**parts))).unsupported
    assert reason is not None and word in reason


def test_a_stride_counts_against_the_room_for_the_text() -> None:
    truncation = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 3}
    bare = small.document(truncation=truncation)
    assert PostProcessor.from_pipeline(parse(bare)).unsupported is None
    ids = model_ids("abé" * 9)
    own = PostProcessor.from_pipeline(parse(bare)).finish(ids)
    assert own.tolist() == small.build(bare).encode("abé" * 9).ids
    framed = bare | {"post_processor": BERT}
    assert PostProcessor.from_pipeline(parse(framed)).unsupported is not None


@pytest.mark.parametrize("wrong", [-1, 2**64, 1.0, True, "8"])
def test_a_bad_max_length_is_an_option_error(wrong: Any) -> None:
    with pytest.raises(OptionError, match="max_length"):
        PostProcessor().finish(model_ids("ab"), True, wrong)


@pytest.mark.parametrize("name", tokenizers("gpt2", "bert_uncased", "llama2", "llama3_1"))
def test_real_post_processors(name: str) -> None:
    document = parsed(name)
    own = PostProcessor.from_pipeline(parse(document))
    assert own.unsupported is None
    bare = small.build(document | {"post_processor": None, "truncation": None, "padding": None})
    cut = small.build(document)
    cut.enable_truncation(8)
    text = "It's a  small text, 1234 words\n\nin all: déjà vu 漢字."
    for sample in ("", "a", text, text * 9):
        ids = np.array(bare.encode(sample).ids, np.uint32)
        for special in (True, False):
            right = reference(name).encode(sample, add_special_tokens=special).ids
            assert own.finish(ids, special).tolist() == right
            assert own.finish(ids, special, 8).tolist() == cut.encode(sample, add_special_tokens=special).ids
