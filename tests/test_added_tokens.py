"""The matcher of added tokens: its flags, its character classes, its pattern."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toktier.added_tokens import AddedTokenMatcher, as_loaded, is_word, white_space
from toktier.pipeline import AddedToken

# The model gives each byte its own id, so that everything the reference saw is in its ids.
BYTES = {f"<0x{byte:02X}>": byte for byte in range(256)}


def reference(tokens: list[AddedToken], normalizer: Any = None, vocab: dict[str, int] = BYTES) -> Tokenizer:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token.id, "content": token.content} | {flag: getattr(token, flag) for flag in flags}
            for token in tokens
        ],
        "normalizer": normalizer,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "unk_token": None},
    }
    return Tokenizer.from_str(json.dumps(document))


def numbered(*tokens: AddedToken) -> list[AddedToken]:
    return list(as_loaded(tokens, BYTES))


def plain(*contents: str) -> list[AddedToken]:
    return numbered(*(AddedToken(0, content) for content in contents))


def check(tokens: list[AddedToken], text: str, *, skip_special: bool = False) -> None:
    """The matcher's view of ``text`` spelled out in ids must be the reference's."""
    engine = reference(tokens)
    engine.encode_special_tokens = skip_special
    matcher = AddedTokenMatcher(tokens)
    found = matcher.find(text, skip_special=skip_special)
    if matcher._pattern is not None:  # looked for one by one, or all by the pattern
        ways = [matcher._split(matcher._pattern, text, most) for most in (len(text), len(text) // 2, 0)]
        assert ways[0] == ways[1] == ways[2]
    ids: list[int] = []
    end = 0
    for start, stop, token in zip(found.starts.tolist(), found.stops.tolist(), found.ids.tolist(), strict=True):
        assert end <= start < stop <= len(text)
        ids += [*text[end:start].encode(), token]
        end = stop
    assert ids + list(text[end:].encode()) == engine.encode(text).ids, text


# --- character classes -------------------------------------------------------------------

BLOCKS = [range(first, first + 0x4000) for first in range(0, 0x110000, 0x4000)]


@pytest.mark.parametrize("block", [*BLOCKS[:8], BLOCKS[0xE0000 // 0x4000], BLOCKS[-1]], ids=lambda b: f"{b[0]:X}")
def test_character_classes_of_single_word_and_rstrip(block: range) -> None:
    """Each code point after a token that it may discard, or that may absorb it."""
    characters = [chr(code) for code in block if not 0xD800 <= code < 0xE000]
    if not characters:
        pytest.skip("all surrogates")
    word, strip = numbered(AddedToken(0, "<w>", single_word=True), AddedToken(0, "<r>", rstrip=True))
    engine = reference([word, strip])
    for start in range(0, len(characters), 1024):
        part = characters[start : start + 1024]
        text = "".join(f"-<w>{character}-" for character in part)
        assert engine.encode(text).ids == [
            code
            for character in part
            for code in (
                ord("-"),
                *(b"<w>" if is_word(character) else [word.id]),
                *character.encode(),
                ord("-"),
            )
        ]
        text = "".join(f"<r>{character}-" for character in part)
        assert engine.encode(text).ids == [
            code
            for character in part
            for code in (strip.id, *(b"" if character in white_space() else character.encode()), ord("-"))
        ]


def test_white_space_is_in_the_first_plane_only() -> None:
    assert len(white_space()) == len(set(white_space())) == 25
    space, _ = numbered(AddedToken(0, "<r>", rstrip=True), AddedToken(0, "y"))
    engine = reference([space])
    for first in range(0x10000, 0x110000, 0x10000):
        text = "<r>".join(chr(code) for code in range(first, first + 0x10000, 0x11))
        assert len(engine.encode(text).ids) == len(text.replace("<r>", "").encode()) + text.count("<r>")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("zqxj\u0301", 0),
        ("zqxj\u200d", 0),
        ("zqxj\u2162", 0),
        ("zqxj\u00b2", 1),
        ("zqxjzqxj", 0),
        ("a zqxj.", 1),
    ],
)
def test_single_word(text: str, count: int) -> None:
    tokens = numbered(AddedToken(0, "zqxj", single_word=True))
    assert len(AddedTokenMatcher(tokens).find(text).ids) == count
    check(tokens, text)


@pytest.mark.parametrize(
    "text",
    [
        "a <X><X> b",
        "a\u00a0<X>\u3000b",
        "a\u200b<X>b",
        "  <X>\n\t\r\n <X>  ",
        "<X>",
        " <X>",
        "<X> ",
        "<X> <X>",
        "\u180e<X>\ufeff",
        "\x1c<X>\x85\u2028",
    ],
)
@pytest.mark.parametrize(("left", "right"), [(True, True), (True, False), (False, True)])
def test_stripping(text: str, left: bool, right: bool) -> None:
    check(numbered(AddedToken(0, "<X>", lstrip=left, rstrip=right)), text)


def test_stripping_stops_at_the_match_before() -> None:
    tokens = numbered(AddedToken(0, "<X>", lstrip=True), AddedToken(0, "a  "), AddedToken(0, " ", lstrip=True))
    for text in ("a  <X>", "a   <X>", "  a  <X>   <X>", "    ", "b    <X>"):
        check(tokens, text)


def test_long_white_space_is_linear_and_exact() -> None:
    tokens = numbered(AddedToken(0, "<X>", lstrip=True, rstrip=True))
    text = (" \n" * 500 + "<X>" + "\u3000 " * 500) * 20
    found = AddedTokenMatcher(tokens).find(text)
    assert len(found.ids) == 20
    assert found.starts[0] == 0
    assert found.stops[-1] == len(text)
    assert (found.starts[1:] == found.stops[:-1]).all()


# --- leftmost-longest -----------------------------------------------------------------------


def test_digit_strings_scan_from_the_left() -> None:
    contents = [f"{number:0{width}}" for width in (1, 2, 3) for number in range(10**width)]
    tokens = plain(*contents)
    found = AddedTokenMatcher(tokens).find("1314151")
    assert [tokens[k - 256].content for k in found.ids] == ["131", "415", "1"]
    check(tokens, "1314151 x99y0001")


def test_longer_literal_fails_late() -> None:
    tokens = plain("ab", "abcde", "bc", "cdx", "e", "deab", "abcdefgh", "cdefgx")
    for text in ("abcdx", "abcdef", "abcdefgx", "ababcdeab", "xbcde", "abcdefg", "abcdefghcdx"):
        check(tokens, text)


@given(
    st.lists(st.text("ab<|", min_size=1, max_size=6), min_size=1, max_size=12, unique=True),
    st.text("ab<|", max_size=60),
)
def test_leftmost_longest(contents: list[str], text: str) -> None:
    check(plain(*contents), text)


def test_literals_with_pattern_syntax() -> None:
    contents = [
        "a.c",
        "[x]",
        "(",
        ")",
        "^",
        "$",
        "\\d",
        "a|b",
        "*",
        "+",
        "?",
        "{2}",
        "-",
        "]",
        "^-",
        "&&",
        "#",
        "~",
    ]
    check(plain(*contents), "".join(contents) + "abc xx 12 a|bb {2}" + "".join(reversed(contents)))


def test_long_and_deeply_nested_literals() -> None:
    """Every prefix of a long literal is one too: the pattern must not nest that deep."""
    rng = random.Random(5)
    spine = "".join(rng.choice("ab") for _ in range(700))
    tokens = plain(*(spine[:length] for length in range(1, 701)), *("\n" * n for n in range(1, 300)), "c" * 5000)
    for text in (
        spine,
        spine[:-1] + "c" + spine[:300],
        "\n" * 1000 + spine * 2,
        "c" * 4999 + "\n" + "c" * 5001,
    ):
        check(tokens, text)


# --- special tokens, unsupported sets ----------------------------------------------------------


def test_skipping_special_tokens() -> None:
    tokens = numbered(
        AddedToken(0, "<s>", special=True),
        AddedToken(0, "<s>x"),
        AddedToken(0, "s>y"),
        AddedToken(0, "x", lstrip=True),
    )
    for text in ("<s>", "<s>x", "<s>y", "a <s> x", " <s>y<s>x x"):
        check(tokens, text)
        check(tokens, text, skip_special=True)


def test_no_tokens() -> None:
    matcher = AddedTokenMatcher([])
    assert not matcher
    assert len(matcher.find("anything").ids) == 0
    assert matcher.unsupported is None


def test_positions_are_plain_arrays() -> None:
    found = AddedTokenMatcher(plain("<X>", "y")).find("é<X>🙂y")
    assert found.starts.tolist() == [1, 5]
    assert found.stops.tolist() == [4, 6]
    assert (str(found.starts.dtype), str(found.stops.dtype), str(found.ids.dtype)) == (
        "int64",
        "int64",
        "uint32",
    )
    assert found.starts.flags.c_contiguous
    assert found.stops.flags.c_contiguous


def test_what_cannot_be_told_is_named() -> None:
    overlapping = numbered(AddedToken(0, "<X>", rstrip=True), AddedToken(0, "\u3000b"))
    assert "begins with white space" in str(AddedTokenMatcher(overlapping).unsupported)
    assert (
        AddedTokenMatcher(numbered(AddedToken(0, "<X>", rstrip=True), AddedToken(0, "\u200bb"))).unsupported
        is None
    )
    twice = [AddedToken(256, "a"), AddedToken(257, "a")]
    assert "same normalized content" in str(AddedTokenMatcher(twice).unsupported)
    assert "empty normalized content" in str(AddedTokenMatcher([AddedToken(256, "")]).unsupported)


# --- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tokens",
    [
        [AddedToken(999, "x"), AddedToken(3, "y")],
        [AddedToken(256, "x"), AddedToken(300, "<0x07>"), AddedToken(301, "z")],
        [AddedToken(256, ""), AddedToken(257, "x")],
        [AddedToken(256, "x", special=True), AddedToken(257, "y"), AddedToken(258, "x", lstrip=True)],
        [AddedToken(256, "x"), AddedToken(256, "y")],
        [],
    ],
)
def test_ids_are_those_of_the_reference(tokens: list[AddedToken]) -> None:
    loaded = as_loaded(tokens, BYTES)
    engine = reference(tokens)
    decoder = engine.get_added_tokens_decoder()
    assert {token.id: token.content for token in loaded} == {k: v.content for k, v in decoder.items()}
    for token in loaded:
        assert (token.lstrip, token.normalized) == (decoder[token.id].lstrip, decoder[token.id].normalized)
        engine.encode_special_tokens = True
        assert token.special == (engine.encode(token.content).ids != [token.id])
