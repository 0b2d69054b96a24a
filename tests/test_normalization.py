"""The normalizer against the reference's own ``normalize_str``."""

from __future__ import annotations

import json
import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import adversarial
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex as HuggingFaceRegex
from tokenizers import normalizers

from toktier.errors import ArtifactError
from toktier.normalization import TextNormalizer, engine_normalizer, inert_table, unicode_forms
from toktier.pipeline import (
    Literal,
    Normalizer,
    NormalizerSequence,
    Other,
    Prepend,
    Regex,
    Replace,
    UnicodeForm,
)

ENGINES: dict[str, Any] = {
    "NFC": normalizers.NFC(),
    "NFD": normalizers.NFD(),
    "NFKC": normalizers.NFKC(),
    "NFKD": normalizers.NFKD(),
}
FORMS = tuple(ENGINES)
ALL = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


@cache
def active(form: str) -> list[str]:
    """The characters that the table does not call inert, without the planes that it leaves out."""
    inert = inert_table(form)
    return [character for character in ALL if ord(character) < 0x40000 and not inert[ord(character)]]


def chunks(characters: list[str], size: int = 2000) -> list[str]:
    return ["".join(characters[i : i + size]) for i in range(0, len(characters), size)]


@pytest.mark.parametrize("form", FORMS)
def test_every_code_point_in_order(form: str) -> None:
    fast = TextNormalizer(UnicodeForm(form)).normalize
    for text in chunks(ALL):
        assert fast(text) == ENGINES[form].normalize_str(text)


@pytest.mark.parametrize("form", FORMS)
def test_every_active_code_point_in_context(form: str) -> None:
    fast = TextNormalizer(UnicodeForm(form)).normalize
    for before, after in (
        ("a", "b"),
        ("e", "\u0301"),
        ("\u1100", "\u11a8"),
        ("\u0915", "\u0323x"),
        ("", "\u0345"),
    ):
        for start in range(0, len(pool := active(form)), 500):
            text = "-".join(before + character + after for character in pool[start : start + 500])
            assert fast(text) == ENGINES[form].normalize_str(text)


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
@pytest.mark.parametrize("before", ["a", "a\u0323", "\u1100", "\uac00", "\u0915", "\u0bc6", "\u3046", "\u0627"])
def test_inert_characters_never_compose_backwards(form: str, before: str) -> None:
    engine, inert = ENGINES[form].normalize_str, inert_table(form)
    alone = engine(before)
    quiet = [character for character in ALL if inert[ord(character)]]
    for start in range(0, len(quiet), 2000):
        part = quiet[start : start + 2000]
        assert engine(before + before.join(part)) == alone + alone.join(part)


@pytest.mark.parametrize("form", FORMS)
def test_planes_that_are_not_probed_hold_nothing(form: str) -> None:
    assert not inert_table(form)[0x40000:].any()
    for text in chunks([character for character in ALL if ord(character) >= 0x40000], 8000):
        assert ENGINES[form].normalize_str(text) == text


@pytest.mark.parametrize("form", FORMS)
def test_separators_are_inert(form: str) -> None:
    assert inert_table(form)[:128].all()
    engine, pool = ENGINES[form].normalize_str, active(form)[::5]
    alone = [engine(character) for character in pool]
    for control in map(chr, range(32)):
        assert engine(control.join(pool)).split(control) == alone


@pytest.mark.parametrize("form", FORMS)
def test_most_text_is_inert(form: str) -> None:
    """The table would be useless, though not wrong, if it let too little through."""
    inert = inert_table(form)
    composed = "Zażółć gęślą jaźń, Ελλάδα, Україна, 中文, ひらが, ไทย, 🙂"
    stays = composed if form in ("NFC", "NFKC") else "plain, Ελλδα, 中文, ひら, ไทย, 🙂"
    if form.startswith("NFK"):
        stays = stays.replace("ไทย", "")
    assert all(inert[ord(character)] for character in stays)


def texts(form: str) -> st.SearchStrategy[str]:
    pool = active(form)
    marks = [character for character in pool if unicodedata.combining(character)]
    return st.lists(
        st.one_of(
            st.sampled_from(pool),
            st.sampled_from(marks),
            st.sampled_from(
                " \n\x00\x01aeouAÅé\u1100\u1161\u11a8\uac00\uac01\u0915\u093c\u09c7\u09be\u212b\u0344"
            ),
            st.sampled_from(pool).map(lambda character: character * 40),
            st.lists(st.sampled_from(marks), min_size=5, max_size=40).map("".join),
            st.characters(exclude_categories=("Cs",)),
        ),
        max_size=40,
    ).map("".join)


@pytest.mark.parametrize("form", FORMS)
def test_random_texts(form: str) -> None:
    fast, engine = TextNormalizer(UnicodeForm(form)), ENGINES[form]

    @given(texts(form))
    def check(text: str) -> None:
        expected = engine.normalize_str(text)
        assert fast.normalize(text) == expected
        assert not fast.leaves_alone(text) or expected == text

    check()


@pytest.mark.parametrize("form", FORMS)
def test_random_segments(form: str) -> None:
    """Each segment is a text of its own: no composing across."""
    fast, engine = TextNormalizer(UnicodeForm(form)), ENGINES[form]

    @given(st.lists(texts(form), min_size=1, max_size=8))
    def check(segments: list[str]) -> None:
        assert fast.normalize_segments(segments) == [engine.normalize_str(segment) for segment in segments]

    check()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.0005, 0.02, 0.3, 1.0])
def test_long_random_texts(form: str, share: float) -> None:
    rng = random.Random(f"{form} {share}")
    pool, fast = active(form), TextNormalizer(UnicodeForm(form))
    for _ in range(3):
        text = "".join(
            rng.choice(pool) if rng.random() < share else rng.choice("ae \ncé中") for _ in range(20_000)
        )
        assert fast.normalize(text) == ENGINES[form].normalize_str(text)


def test_every_separator_in_use() -> None:
    """Texts that hold all control characters next to what they would separate."""
    text = "".join(f"{chr(code)}e\u0301{chr(code)}\u0323 mid dle " for code in range(32)) * 2
    for form in FORMS:
        assert TextNormalizer(UnicodeForm(form)).normalize(text) == ENGINES[form].normalize_str(text)
    controls = "".join(map(chr, range(32)))
    text = "".join(control + "\u0301" for control in controls)
    assert TextNormalizer(UnicodeForm("NFC")).normalize(text) == ENGINES["NFC"].normalize_str(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u0898\u0323", "a\u0898\u0323"),  # class 230 in Unicode 14, unknown to the engine
        ("a\u0316\u1dfa", "a\u0316\u1dfa"),
        ("\U000113c2\U000113c2", "\U000113c2\U000113c2"),  # composes in Unicode 16
        ("\U0001611e\U0001611e", "\U0001611e\U0001611e"),
        ("\U00016d67\U00016d67", "\U00016d67\U00016d67"),
        ("e\u0301", "\u00e9"),
        ("\u1106\u1161\u1109\u1175\u11af", "\ub9c8\uc2e4"),
    ],
)
def test_the_engine_decides(text: str, expected: str) -> None:
    assert ENGINES["NFC"].normalize_str(text) == expected
    assert TextNormalizer(UnicodeForm("NFC")).normalize(text) == expected


def test_nothing_to_do_gives_the_same_object() -> None:
    fast = TextNormalizer(UnicodeForm("NFC"))
    for text in ("plain ascii", "d\u00e9j\u00e0 vu, 中文 \ud55c"):
        assert fast.normalize(text) is text
        assert fast.leaves_alone(text)
    segments = ["one", "d\u00e9j\u00e0"]
    assert fast.normalize_segments(segments) is segments
    assert not fast.leaves_alone("e\u0301")
    assert TextNormalizer(None).is_identity
    assert TextNormalizer(NormalizerSequence(())).is_identity
    assert not fast.is_identity


def test_a_table_made_earlier_is_used() -> None:
    nothing_inert = np.zeros(0x110000, np.bool_)
    text = "z\u00e9 e\u0301 \u1100\u1161 中文"
    fast = TextNormalizer(UnicodeForm("NFC"), inert={"NFC": nothing_inert})
    assert fast.normalize(text) == ENGINES["NFC"].normalize_str(text)
    assert not fast.leaves_alone("z\u00e9")
    with pytest.raises(ValueError, match="read-only"):
        inert_table("NFC")[0] = False


def test_the_forms_that_are_needed() -> None:
    both = NormalizerSequence((UnicodeForm("NFC"), Prepend("x"), NormalizerSequence((UnicodeForm("NFKD"),))))
    assert unicode_forms(both) == {"NFC", "NFKD"}
    assert unicode_forms(None) == unicode_forms(Prepend("x")) == frozenset()


# --- the other normalizers -------------------------------------------------------------

LOWER = Other("Lowercase", '{"type": "Lowercase"}')
STRIP = Other("Strip", '{"type": "Strip", "strip_left": true, "strip_right": true}')
BERT = Other(
    "BertNormalizer",
    '{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,'
    ' "strip_accents": null, "lowercase": true}',
)
OTHERS: list[tuple[Normalizer, Any]] = [
    (Prepend("\u2581"), normalizers.Prepend("\u2581")),
    (Prepend(""), normalizers.Prepend("")),
    (Replace(Literal(" "), "\u2581"), normalizers.Replace(" ", "\u2581")),
    (Replace(Literal("aa"), "b"), normalizers.Replace("aa", "b")),
    (Replace(Literal("a"), ""), normalizers.Replace("a", "")),
    (Replace(Literal(""), "-"), normalizers.Replace("", "-")),
    (LOWER, normalizers.Lowercase()),
    (STRIP, normalizers.Strip()),
    (BERT, normalizers.BertNormalizer()),
    (
        NormalizerSequence((Prepend("\u2581"), Replace(Literal(" "), "\u2581"))),
        normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
    ),
    (
        NormalizerSequence((UnicodeForm("NFD"), LOWER, NormalizerSequence((UnicodeForm("NFC"), STRIP)))),
        normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.NFC(), normalizers.Strip()]),
    ),
]


@pytest.mark.parametrize(("described", "engine"), OTHERS, ids=[str(pair[1])[:60] for pair in OTHERS])
def test_other_normalizers(described: Normalizer, engine: Any) -> None:
    fast = TextNormalizer(described)

    @given(st.lists(st.text("aAbc \t\n\u00a0é中\u0301\u212b\u2581İ", max_size=12), min_size=1, max_size=4))
    def check(segments: list[str]) -> None:
        expected = [engine.normalize_str(segment) for segment in segments]
        assert fast.normalize_segments(list(segments)) == expected
        assert fast.normalize(segments[0]) == expected[0]
        assert not fast.leaves_alone(segments[0]) or expected[0] == segments[0]

    check()


# --- character by character --------------------------------------------------------------

BY_CHARACTER: list[dict[str, Any]] = [
    *(
        dict(
            zip(("type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), values, strict=True)
        )
        for values in product(["BertNormalizer"], (True, False), (True, False), (None, True, False), (True, False))
    ),
    {"type": "Lowercase"},
    {"type": "StripAccents"},
]
#: Marks that BERT's normalizer keeps, and what has some inside.
KEPT_MARKS = "\u302e\u302f\U0001d165\U0001d16d\U0001d15e\U0001d160\U00016ff0"


def by_character(rule: dict[str, Any]) -> tuple[TextNormalizer, Any]:
    source = json.dumps(rule)
    return TextNormalizer(Other(rule["type"], source)), engine_normalizer(source)


@pytest.mark.parametrize("rule", [BY_CHARACTER[0], *BY_CHARACTER[10:13], *BY_CHARACTER[-2:]], ids=str)
def test_characters_in_context(rule: dict[str, Any]) -> None:
    fast, engine = by_character(rule)
    draw = random.Random(6)
    marks = "\u0301\u0323\u0334\u0345\0\x01\u00ad" + KEPT_MARKS
    for number, text in enumerate(adversarial.battery((), 17, 300)):
        for some in (text, "".join(char + "".join(draw.choices(marks, k=number % 3)) for char in text[:30])):
            assert fast.normalize(some) == engine.normalize_str(some), ascii(some)


def test_a_character_map_is_filled_by_many_threads() -> None:
    fast, engine = by_character(BY_CHARACTER[0])
    texts = chunks(ALL[:0x3000], 100)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(fast.normalize, texts * 4))
    assert found == [*map(engine.normalize_str, texts)] * 4


@pytest.mark.campaign
@pytest.mark.parametrize("rule", BY_CHARACTER, ids=str)
def test_every_code_point_by_character(rule: dict[str, Any]) -> None:
    fast, engine = by_character(rule)
    for text in chunks([char for code in ALL for char in (code, "-")]):
        assert fast.normalize(text) == engine.normalize_str(text)
    for char in ALL[:0x40000:7]:
        assert fast.normalize(char + "\u0301") == engine.normalize_str(char + "\u0301")


def test_replace_with_a_regular_expression() -> None:
    engine = engine_normalizer('{"type": "Replace", "pattern": {"Regex": "\\\\s+"}, "content": "_"}')
    fast = TextNormalizer(Replace(Regex(r"\s+"), "_"))
    for text in ("", " ", "a \n b", "\u180ea\u3000\u2028", "x"):
        assert fast.normalize(text) == engine.normalize_str(text)
    assert fast.normalize("a \n b") == "a_b"


@pytest.mark.parametrize("source", [r"\s+", r"\s", r"[^\x00-\x7f]+", r"\p{M}", r"\s{2,}", r"\s+?", "(ab)"])
@pytest.mark.parametrize("content", [" ", "", "\u00e9", "<>"])
def test_replace_of_a_set(source: str, content: str) -> None:
    """Runs of a set, single members of one, and patterns that are neither."""
    engine = normalizers.Replace(HuggingFaceRegex(source), content)
    fast = TextNormalizer(Replace(Regex(source), content))
    random_ = random.Random(1)
    alphabet = ["ab", " ", "  ", "\n", "\u00e9", "\u0301", "\u3000", "\x85", "\u200b", "\U0001f600"]
    for _ in range(60):
        segments = ["".join(random_.choices(alphabet, k=random_.randrange(9))) for _ in range(2)]
        assert fast.normalize_segments(segments) == [engine.normalize_str(segment) for segment in segments]


def test_replace_takes_a_literal_literally() -> None:
    for literal in [chr(code) for code in range(32, 127)] + [
        "a|b",
        "(x)",
        "\\d",
        "[a-z]",
        "#",
        "&&",
        "~",
        "é",
        ".",
    ]:
        fast = TextNormalizer(Replace(Literal(literal), "<>"))
        text = f"{literal}{literal}a{literal}b |()[]-x\\d5.#é{literal}"
        assert fast.normalize(text) == normalizers.Replace(literal, "<>").normalize_str(text)


def test_substitutions_are_recognized() -> None:
    space = Replace(Literal(" "), "\u2581")
    assert TextNormalizer(space).is_substitution
    assert TextNormalizer(NormalizerSequence((space, Replace(Literal("a"), "b")))).is_substitution
    for other in (
        Replace(Literal("ab"), "b"),
        Replace(Literal("a"), ""),
        Prepend("x"),
        UnicodeForm("NFC"),
        LOWER,
    ):
        assert not TextNormalizer(NormalizerSequence((space, other))).is_substitution


def test_a_normalizer_that_the_reference_refuses() -> None:
    with pytest.raises(ArtifactError, match="refuses this normalizer"):
        TextNormalizer(Other("Nonsense", '{"type": "Nonsense"}'))
