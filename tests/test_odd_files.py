"""Files that nobody publishes but that the reference loads, reduced from random ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
import small
from tokenizers import Tokenizer as HuggingFace

from toktier import derivation
from toktier.artifact import Artifact
from toktier.errors import ArtifactError, ReferenceFailedError
from toktier.tokenizer import Tokenizer


def both(document: dict[str, Any]) -> tuple[Tokenizer, HuggingFace]:
    """Ours and the reference."""
    return Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made")), small.build(document)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("cut", [None, 3, 50])
def test_settings_of_one_object_are_not_lost_in_a_copy(backend: str, cut: int | None) -> None:
    """A token that is special by its first entry only, and a call that truncates special tokens taken for text."""
    padding = {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 4}
    document = small.document(
        added_tokens=[small.added("<s>", 264, "special"), small.added("<s>", 264)],
        padding=padding | {"pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
    )
    tok, judge = both(document)
    if cut is not None:
        judge.enable_truncation(cut)
    for as_text in (False, True):
        judge.encode_special_tokens = as_text
        found = tok.encode("a<s>b", special="text" if as_text else "encode", max_length=cut, backend=backend)
        assert found == judge.encode("a<s>b").ids


def test_what_the_reference_raises_is_an_error_of_ours() -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "OnlySecond", "stride": 0}
    tok, judge = both(small.document(truncation=truncation))
    with pytest.raises(Exception, match="Second sequence"):
        judge.encode("abcd")
    for call in (tok.encode, tok.encode_with_offsets, tok.count, lambda text: tok.encode_batch([text])):
        with pytest.raises(ReferenceFailedError, match="Second sequence"):
            call("abcd")


def test_a_decoder_of_bytes_behind_a_model_of_characters() -> None:
    """The characters of byte fallback stand in GPT-2's byte alphabet, too, but for themselves."""
    pieces = [*(f"<0x{byte:02X}>" for byte in range(256)), *"aé▁文", "aé"]
    model = {"type": "BPE", "vocab": {piece: id for id, piece in enumerate(pieces)}, "merges": [["a", "é"]]}
    document = small.document(pre_tokenizer=None, model=model | {"byte_fallback": True})
    tok, judge = both(document)
    for text in ("aéa", "é文z", "▁aé😀"):
        ids = judge.encode(text).ids
        assert tok.encode(text) == ids
        assert tok.decode(ids) == judge.decode(ids)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("order", [("normalized", "special"), ("special", "normalized")])
def test_an_added_token_listed_twice_stays_normalized_for_decoding(order: tuple[str, str], skip: bool) -> None:
    tokens = [small.added("x", 264, flag) for flag in order]
    tok, judge = both(small.document(added_tokens=tokens, normalizer={"type": "Prepend", "prepend": "a"}))
    ids = [97, *judge.get_added_tokens_decoder(), 98]
    assert tok.decode(ids, skip) == judge.decode(ids, skip_special_tokens=skip)
    for text in ("x", "xx y", "ax"):
        assert tok.encode(text) == judge.encode(text).ids


def test_a_text_that_the_post_processor_repeats_has_no_cuts() -> None:
    items = [{"Sequence": {"id": "A", "type_id": 0}}] * 2
    template = {"type": "TemplateProcessing", "single": items, "pair": items, "special_tokens": {}}
    pre = small.document()["pre_tokenizer"] | {"use_regex": True}
    tok, judge = both(small.document(post_processor=template, pre_tokenizer=pre))
    assert judge.encode("a b", add_special_tokens=False).ids == [97, 32, 98, 97, 32, 98]
    assert not len(tok.cuts("a b"))
    assert "repeats" in str(tok.explain())
    for add in (False, True):
        right = judge.encode("a b", add_special_tokens=add).ids
        stream = tok.stream_encoder(add)
        assert [*stream.feed("a"), *stream.feed(" b"), *stream.flush()] == right
        session = tok.session("a")
        session.append(" b")
        assert (session.prompt() if add else session.ids).tolist() == right


def test_bytes_that_are_not_utf8_go_through_a_second_byte_decoder() -> None:
    pieces = [*(f"<0x{byte:02X}>" for byte in range(256)), *"aé文"]
    model = {"type": "BPE", "vocab": {piece: id for id, piece in enumerate(pieces)}, "merges": []}
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, small.document()["decoder"]]}
    tok, judge = both(small.document(pre_tokenizer=None, model=model | {"byte_fallback": True}, decoder=decoder))
    for cut_off in (b"\xff", b"\xe6\x96", b"\xff\xe6\x96\x87"):
        ids = [256, *cut_off, 258, *cut_off]
        assert tok.decode(ids) == judge.decode(ids)
        assert tok.decode_bytes(ids) == b"a" + cut_off + "文".encode() + cut_off


@pytest.mark.parametrize("ignore_merges", [False, True])
@pytest.mark.parametrize("one", ["xy", "x", "\u00c3\u00a9"])
def test_two_tokens_with_one_id(one: str, ignore_merges: bool) -> None:
    """What a token's bytes say holds for one of the two, and which of them it is decoded to is chance."""
    vocab = small.vocabulary()
    vocab |= {one: 300, "zw": 300, "zwb": 301, one + "b": 302}
    model = {"type": "BPE", "vocab": vocab, "merges": [["z", "w"], ["zw", "b"]], "ignore_merges": ignore_merges}
    tok, judge = both(small.document(model=model))
    assert "same id" in str(tok.explain())
    for text in ("xy", "zw", "xyzw", "x", "zwb", "xb", "é", "éb"):
        assert tok.encode(text) == judge.encode(text).ids


@pytest.mark.parametrize("rule", [("<0xA9>", "▁"), ("▁", "<0xC3>"), ("<0xA9>", "<0xC3>")])
def test_rules_that_merge_the_bytes_of_characters(rule: tuple[str, str]) -> None:
    pieces = [*(f"<0x{byte:02X}>" for byte in range(256)), *"▁ab", "".join(rule)]
    model = {"type": "BPE", "vocab": {piece: id for id, piece in enumerate(pieces)}, "merges": [[*rule]]}
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    tok, judge = both(
        small.document(pre_tokenizer=None, decoder=None, normalizer=spaces, model=model | {"byte_fallback": True})
    )
    for text in ("é a", " é", "aé éé", "é" * 500 + " b" * 500):
        assert tok.encode(text) == judge.encode(text).ids
        for cut in tok.cuts(text)[:20].tolist():
            assert tok.encode(text[:cut]) + tok.encode(text[cut:]) == tok.encode(text)


def test_more_ids_and_rules_than_a_table_of_pairs_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivation, "too_many", lambda size, rules: (size, rules) == (999, len(small.MERGES)))
    model = small.document()["model"]
    tok, judge = both(small.document(model=model | {"vocab": small.vocabulary() | {"xy": 998}}))
    assert "too many" in str(tok.explain())
    assert tok.encode("abé  a") == judge.encode("abé  a").ids


@pytest.mark.parametrize(
    "rules", [["a b", ["b", "Ġ"]], [["a", "b"], "bĠ"], [["a", "b"], "b Ġ"], [["a", "b"], None]], ids=str
)
def test_rules_written_in_two_ways(rules: list[Any]) -> None:
    document = small.document(model=small.document()["model"] | {"merges": rules})
    with pytest.raises(Exception, match=r"untagged|variant"):
        small.build(document)
    with pytest.raises(ArtifactError, match="two kinds"):
        Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))


@pytest.mark.parametrize(
    "part",
    [
        {"normalizer": {"type": "Some", "pattern": {"Regex": "x*"}, "content": "b"}},
        {"post_processor": {"sep": ["b", 98], "cls": ["a", 97]}},
        {"decoder": {"type": None, "suffix": "b"}},
        {"decoder": {"type": "Sequence", "decoders": [{"prefix": "a", "cleanup": True}]}},
    ],
    ids=str,
)
def test_parts_without_a_type_are_what_their_fields_say(part: dict[str, Any]) -> None:
    tok, judge = both(small.document(**part))
    for text in ("", "xa", "xx b"):
        ids = judge.encode(text).ids
        assert tok.encode(text) == ids
        assert tok.decode(ids) == judge.decode(ids)


@pytest.mark.parametrize(
    "part",
    [
        {"post_processor": {"type": "BertProcessing", "sep": ["b"], "cls": ["a", 97]}},
        {"model": {"type": "WordPiece", "vocab": [["a", 0.0]]}},
    ],
    ids=str,
)
def test_parts_that_lack_something_are_refused(part: dict[str, Any]) -> None:
    document = small.document(**part)
    with pytest.raises(Exception, match=r"untagged|expected a map"):
        small.build(document)
    with pytest.raises(ArtifactError, match=r"unexpected shape|expected a map"):
        Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
