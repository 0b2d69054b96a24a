"""Texts that are hard to tokenize: seeded generators and hypothesis strategies.

The alphabet is sorted into classes that some pre-tokenizer, normalizer or engine tells apart.  Texts are
random walks over classes rather than over characters, so that every context of one to three classes turns up
soon, whatever the number of characters in a class.  Nothing here knows what the right ids are.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from hypothesis import strategies as st

__all__ = [
    "CLASSES",
    "RUN_LENGTHS",
    "SYMBOLS",
    "all_strings",
    "all_triples",
    "battery",
    "class_triples",
    "literal_fragments",
    "long_runs",
    "texts",
]


def _span(first: int, last: int) -> tuple[str, ...]:
    return tuple(map(chr, range(first, last + 1)))


CLASSES: dict[str, tuple[str, ...]] = {
    # letters by case; several scripts each, and the ones whose case is special
    "lower": tuple("abestvmldrxzéßıſﬁжяωსა\u01c6\U00010428\U0001d41a"),
    "upper": tuple("ABESTVMLDRXZÉẞİЖЯΩ\u212aÅ\u01c4\U00010400\U0001d400"),
    "title": tuple("\u01c5\u01c8\u01f2\u1f88\u1ffc"),
    "modifier letter": tuple("ʰʼˮʹ\u0640\u0e46\u3005\u3031\u30fc\uff70\u1d2c"),
    "other letter": tuple("ªºƻאب\u0915\u0e01\u0d9aあアㄅ\u10d0\U0001e900\U00010330\U00012000"),
    "han": tuple("中国人的\u3007\u3021\u4e00\u9fa5\u9fa6\u9fff\u3400\uf900\ufa0e\U00020000\U0002f800"),
    "hangul": tuple("한글가각힣\u1100\u1106\u1161\u11a8\u11af\ua960\ud7b0\uffa0"),
    # marks: spacing, non-spacing, enclosing; in and out of canonical order
    "mark": tuple(
        "\u0300\u0301\u0308\u030a\u0323\u0327\u0338\u0345\u0344\u05b0\u064b\u093c\u093f\u09be\u0f71\u0f72\u20dd\u20e3"
        "\u3099\u309a\ufe0f\ufe20\U000e0100\U0001d165\u0488"
    ),
    "new mark": tuple("\u0898\u1dfa\u1ac1\u1acf\u0ece\u0cf3\U00010efd\U000113c2\U0001611e\U0001e4ec"),
    # numbers: decimal digits of several scripts, letter numbers, other numbers
    "ascii digit": tuple("0123456789"),
    "digit": tuple("\u0660\u0663\u06f5\u0966\u09e7\u0e52\uff11\U0001d7d8\U0001e950\U00011de0\U0001e5f1"),
    "letter number": tuple("\u2160\u2167\u2170\u2182\u16ee\u3024\U00010140"),
    "other number": tuple("²³¹¼½\u0bf0\u2460\u2776\u3220\u3192\U00010107\U0001d2c0"),
    # white space, all of it, and what is only taken for it
    "space": (" ",),
    "tab": ("\t", "\x0b", "\x0c"),
    "newline": ("\n",),
    "return": ("\r", "\r\n", "\n\r"),
    "white space": tuple("\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") + _span(0x2000, 0x200A),
    "like white space": tuple("\u180e\u200b\u200c\u200d\u2060\ufeff\xad") + _span(0x1C, 0x1F),
    # punctuation and symbols
    "apostrophe": ("'", "\u2019", "\u02bc", "\uff07", "`"),
    "contraction": tuple(
        apostrophe + tail
        for apostrophe in ("'", "\u2019")
        for tail in (
            *("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "VE", "M", "LL", "D"),
            *("Re", "rE", "Ve", "vE", "Ll", "lL", "\u017f", "\u212a"),
            *("r", "l", "v", "e", "\u1e9e", "st", "ss", "\u017fs", "l\u017f"),
        )
    ),
    "slash": ("/", "//", "\n/", "/\n", "\r\n/"),
    "ascii punctuation": tuple("!\"#$%&()*+,-.:;<=>?@[\\]^_{|}~"),
    "punctuation": tuple("。，、！？「」（）—…\u00a1\u00ab\u203f\u05be\u061f\u0964\u2e3a\U00010100"),
    "symbol": tuple("€£©®°±×÷←→∑√░\u02c6\u00a8\u20bf\u20c1\u2b62\u309b\ufffc\ufffd\U0001d100"),
    "emoji": (
        *("\U0001f600", "\u2764\ufe0f", "\u260e", "\U0001f44d\U0001f3fd", "\U0001f3fd", "1\ufe0f\u20e3"),
        *("\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308"),
        *("\U0001f1e9\U0001f1ea", "\U0001f1e9", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "\ufe0e"),
    ),
    # characters of normal forms
    "decomposed": (
        *("e\u0301", "A\u030a", "o\u0308", "n\u0303", "u\u0323\u0302", "u\u0302\u0323", "\u1112\u1161\u11ab"),
        *("\u1106\u1161", "\u30ab\u3099", "a\u0316\u1dfa", "a\u0898\u0323", "\u0915\u093c"),
        *("\U000113c2\U000113c2", "\U0001611e\U0001611e", "\U00016d67\U00016d67", "\U000105d2\u0307"),
        *("\u0b47\u0b3e", "\uac00\u11a8"),
    ),
    "singleton": tuple("\u212b\u2126\u1f71\u0340\u0958\u2adc\ufb1d\u0f73\u2000\u037e\u1fef\u2329\uf9d0"),
    # code points of Unicode 15, 15.1, 16 and 17, then unassigned ones
    "new letter": tuple(
        "\u1c89\u1c8a\ua7cb\ua7ce\ua7cf\ua7d2\ua7da\ua7dc\u088f\U00011f02\U00016d67\U000105c0\U00010d50\U00010d70"
        "\U00016ea0\U00016ebb\U00031350\U0002ebf0\U000323b0\U0001e4d0\U00011380"
    ),
    "new symbol": tuple("\U0001fae8\U0001fae9\U0001fadf\u2ffc\u2429\U0001cc00\U0001f6d8\U0001fadc\U0001fa8a"),
    "unassigned": tuple("\u0378\u0e5f\u05ff\u2fe0\U0001fbfa\U000e0080\U0003fffd\U0002fa1e"),
    # the rest
    "control": ("\x00", "\x01", "\x07", "\x08", "\x1b", "\x7f", "\x80", "\x9f"),
    "format": tuple("\u061c\u200e\u202a\u202e\u2066\u206f\u0600\U000110bd\ufff9\U000e0001\U0001d173"),
    "private": tuple("\ue000\uf8ff\U000f0000\U0010fffd"),
    "noncharacter": tuple("\ufdd0\ufffe\uffff\U0001fffe\U0010ffff"),
}  # fmt: skip
"""Class name to its members.  Most are one character, some short strings that matter as a whole."""

SYMBOLS: tuple[str, ...] = (
    *(
        "a",
        "s",
        "A",
        "\u01c5",
        "\u02b0",
        "\u4e2d",
        "\u0301",
        "1",
        "\u0663",
        "\u2167",
        " ",
        "\t",
        "\n",
        "\r",
        "\u3000",
    ),
    *("'", "/", ".", "\u20ac", "\u017f", "\x00", "\U0001f600"),
)
"""One or two characters of each class that the known patterns tell apart: for exhaustive short strings."""

RUN_LENGTHS: tuple[int, ...] = (*range(1, 21), 255, 256, 257, 4095, 4096, 4097)

_REAL_LOOKING = """
The the it I we you they don can isn THEY iPhone HTTPServer getUserName snake_case _private __init__
café naïve Straße Zürich Привет мир ДокументПродажи Ελλάδα שלום سلام नमस्ते สวัสดี
你好 世界 中文 日本語 カタカナ ひらがな 한국어
def return self.x x=1 3.14159 1,000,000 0xFF 2024-01-31 http://example.com/a?b=c#d user@example.com \\n \\t
</div> <a href="x"> {"key": [1, 2]} #include // /* */ -> => == != && || ... --- *** $$$
e.g. U.S.A. Qwen3 GPT-4o
"""
_WORDS = tuple(_REAL_LOOKING.split())

_JOINS = (
    " ",
    " ",
    " ",
    " ",
    "",
    "\n",
    "  ",
    "\n\n",
    "\t",
    ", ",
    ". ",
    "\r\n",
    "\n    ",
    "'s ",
    "'LL",
    "\xa0",
    "/",
    "\n \n",
)


def all_strings(alphabet: Sequence[str] = SYMBOLS, length: int = 3) -> Iterator[str]:
    """Every concatenation of exactly ``length`` members of ``alphabet``."""
    return map("".join, itertools.product(alphabet, repeat=length))


def all_triples(alphabet: Sequence[str] = SYMBOLS) -> Iterator[str]:
    """Every string of three symbols (10,648 of them for :data:`SYMBOLS`)."""
    return all_strings(alphabet, 3)


def class_triples(seed: int) -> Iterator[str]:
    """For every triple of classes, a string of one random member each."""
    choice = random.Random(seed).choice
    for first, second, third in itertools.product(CLASSES.values(), repeat=3):
        yield choice(first) + choice(second) + choice(third)


def literal_fragments(literals: Iterable[str], most: int = 48) -> tuple[str, ...]:
    """Added-token literals (at most ``most``, spread over their lengths) and what nearly is one.

    The fragments: the literal, twice, in other case, with something inside, with white space or a word
    character on either side; all proper prefixes and suffixes of the shorter ones.
    """
    by_length = sorted({literal for literal in literals if literal}, key=lambda literal: (len(literal), literal))
    if len(by_length) > most:
        by_length = [by_length[round(i * (len(by_length) - 1) / (most - 1))] for i in range(most)]
    fragments: dict[str, None] = {}
    for literal in by_length:
        middle = len(literal) // 2
        variants = [
            literal,
            literal * 2,
            literal.upper(),
            literal.swapcase(),
            literal[:middle] + "\u0301" + literal[middle:],
        ]
        variants += [space + literal for space in (" ", "\n", "\u3000", "\u200b", "a", "1", "_", "<")]
        variants += [
            literal + space for space in (" ", "  ", "\r\n", "\u0301", "\u200d", "\u2167", "\u00b2", "a", ">")
        ]
        if len(literal) <= 32:
            variants += [literal[:end] for end in range(1, len(literal))]
            variants += [literal[start:] for start in range(1, len(literal))]
        fragments.update(dict.fromkeys(variants))
    return tuple(fragments)


def battery(literals: Sequence[str], seed: int, count: int) -> Iterator[str]:
    """``count`` short texts, the same for the same arguments.

    Parameters
    ----------
    literals: contents of the tokenizer's added tokens; may be empty.
    seed: of the random numbers.
    count: how many; about 100,000 take two seconds.
    """
    random_ = random.Random(seed)
    classes = list(CLASSES.values())
    fragments = literal_fragments(literals)
    literal_classes = [*classes, *[fragments] * 12] if fragments else classes
    choice, choices, randrange = random_.choice, random_.choices, random_.randrange
    for _ in range(count):
        kind = randrange(10)
        if kind < 4:  # a walk over the classes
            yield "".join([choice(members) for members in choices(classes, k=randrange(1, 13))])
        elif kind < 6:  # runs: a few classes, several members of each
            few = choices(classes, k=3)
            yield "".join(["".join(choices(choice(few), k=randrange(1, 6))) for _ in range(randrange(1, 7))])
        elif kind < 7:  # a run of one member in a small context, at a length where blocks end
            run = choice(choice(classes)) * choice(RUN_LENGTHS[:20])
            yield choice(choice(classes)) + run + choice(choice(classes))
        elif kind < 8:  # real-looking text
            size = randrange(1, 9)
            yield "".join(itertools.chain(*zip(choices(_WORDS, k=size), choices(_JOINS, k=size), strict=True)))
        elif kind < 9:  # real-looking text with characters put in
            parts = choices(_WORDS, k=4) + [choice(choice(classes)) for _ in range(6)]
            random_.shuffle(parts)
            yield "".join(parts)
        else:  # literals and fragments of them
            yield "".join([choice(members) for members in choices(literal_classes, k=randrange(1, 8))])


def long_runs(seed: int, lengths: Sequence[int] = RUN_LENGTHS) -> Iterator[str]:
    """For every class: one member repeated, and random members in a context, at each length."""
    random_ = random.Random(seed)
    for members in CLASSES.values():
        member = random_.choice(members)
        for length in lengths:
            yield member * length
            yield "x " + "".join(random_.choices(members, k=length)) + " 1\n"


@cache
def texts(literals: tuple[str, ...] = (), max_size: int = 16) -> st.SearchStrategy[str]:
    """A strategy of short texts over the same classes, plus any code point but the surrogates.

    Parameters
    ----------
    literals: contents of the tokenizer's added tokens; may be empty.
    max_size: of a text, in members.
    """
    parts = [st.sampled_from(members) for members in CLASSES.values()]
    parts.append(st.sampled_from(_WORDS))
    parts.append(st.characters(exclude_categories=("Cs",)))
    if literals:
        parts.extend([st.sampled_from(literal_fragments(literals))] * 4)
    repeated = st.builds(lambda part, times: part * times, st.one_of(parts), st.integers(1, 5))
    return st.lists(st.one_of(*parts, repeated), max_size=max_size).map("".join)
