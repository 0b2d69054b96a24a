"""Certified cuts, judged by the reference: what a cut promises, checked on texts that are cut there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import adversarial
from conftest import artifact, parsed, reference
from tokenizers import Tokenizer as HuggingFace

from toktier.artifact import Artifact
from toktier.patterns.atoms import Atoms
from toktier.patterns.machine import Machine
from toktier.patterns.stages import machines_of
from toktier.pipeline import parse
from toktier.plan import CertificatePlan, certificate_plan
from toktier.tokenizer import Tokenizer

#: What texts are made of besides the adversarial alphabet.
COMMON = (
    *("a", "b", "it", "the", " ", " ", "  ", "\n", "\r\n", "\t", "1", "23", "'s", "'", ".", "_", "!", "é", "\xa0"),
    *("e\u0301", "\u0301", "\u3000", "x y", "ab\n", "中", "国", "\u1112\u1161", "\u11ab", "ﬁ", "A", "İ", "\u2581"),
)


@dataclass(frozen=True)
class Judge:
    """The reference of one artifact.  ``continuing``: for texts that go on from a cut, without any prefix."""

    whole: HuggingFace
    continuing: HuggingFace
    words: tuple[str, ...]

    @property
    def has_prefix(self) -> bool:
        return self.continuing is not self.whole


def judge_of(artifact: Artifact, whole: HuggingFace | None = None) -> Judge:
    """A judge that neither truncates nor pads; ``whole``, if it does not, is its reference."""
    if whole is None or whole.truncation or whole.padding:
        whole = HuggingFace.from_str(artifact.read().decode())
    continuing = whole
    normalizer = json.loads(whole.normalizer.__getstate__()) if whole.normalizer else None
    bare = _without_prefix(normalizer)
    if bare != normalizer:
        continuing = HuggingFace.from_str(json.dumps(artifact.document() | {"normalizer": bare}))
    for judge in (whole, continuing):
        judge.no_truncation()
        judge.no_padding()
    words = tuple(token.content for token in whole.get_added_tokens_decoder().values())
    return Judge(whole, continuing, words)


def _without_prefix(normalizer: Any) -> Any:
    match normalizer:
        case {"type": "Prepend"}:
            return None
        case {"type": "Sequence", "normalizers": list(steps)}:
            kept = [step for step in map(_without_prefix, steps) if step is not None]
            return {"type": "Sequence", "normalizers": kept}
    return normalizer


@cache
def judge(name: str) -> Judge:
    """Of a tokenizer by name: tests that change its settings change them back."""
    return judge_of(artifact(name), reference(name))


def texts_for(words: Sequence[str], seed: int, count: int) -> list[str]:
    """Adversarial texts with added tokens, parts of them, and what stands next to them."""
    random_ = random.Random(seed)
    some = random_.sample(list(words), min(40, len(words)))
    fragments = [*adversarial.literal_fragments(some), *some] or ["x"]
    texts = list(adversarial.battery(some, seed, count // 3))
    while len(texts) < count:
        parts = random_.choices(COMMON, k=random_.randrange(1, 10))
        parts += random_.choices(fragments, k=random_.randrange(3))
        random_.shuffle(parts)
        texts.append("".join(parts))
    return texts


def assert_sound(
    judge: Judge,
    texts: Sequence[str],
    cuts: Callable[[str, bool], Iterable[int]],
    most: int = 12,
    seed: int = 0,
) -> tuple[int, int]:
    """Cut every text at up to ``most`` of its certified cuts, and compare with the ids of the whole.

    ``cuts(text, closes)``.  Where one *restarts*: the ids left of it come from the text up to and with the
    character behind it, and the rest goes on as a text of its own.  Where it closes, too, both sides are texts.
    Returns how many were tried of each.
    """
    random_ = random.Random(seed)
    where: list[tuple[str, int, bool]] = []
    for text in texts:
        found = list(cuts(text, False))
        closing = set(cuts(text, True))
        assert closing <= set(found), text
        assert all(0 < cut < len(text) for cut in found), text
        for cut in found if len(found) <= most else random_.sample(found, most):
            # the judge without a prefix would leave it out after added tokens, too
            if not judge.has_prefix or not any(word in text[cut:] for word in judge.words):
                where.append((text, cut, cut in closing))

    whole = dict(zip(texts, _ids(judge.whole, texts), strict=True))
    where = [place for place in where if whole[place[0]] is not None]
    left = _ids(judge.whole, [text[:cut] for text, cut, _ in where])
    right = _ids(judge.continuing, [text[cut:] for text, cut, _ in where])
    longer = _ids(judge.whole, [text[: cut + 1] for text, cut, _ in where])
    behind = _ids(judge.continuing, [text[cut] for text, cut, _ in where])
    for (text, cut, closes), x, y, xb, b in zip(where, left, right, longer, behind, strict=True):
        shown = text[:cut], text[cut:]
        assert x is not None and y is not None and xb is not None and b is not None, ("panics", *shown)
        kept = len(xb) - len(b)
        assert xb[kept:] == b, ("restarts: the character behind", *shown)
        assert xb[:kept] + y == whole[text], ("restarts", *shown)
        if closes:
            assert x + y == whole[text], ("closes", *shown)
    return len(where), sum(closes for _, _, closes in where)


def _ids(by: HuggingFace, texts: Sequence[str]) -> list[list[int] | None]:
    """The reference's ids; None where it panics, as it does on tokens that absorb the same white space."""
    try:
        return [encoding.ids for encoding in by.encode_batch_fast(list(texts), add_special_tokens=False)]
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        if len(texts) == 1:
            return [None]
        middle = len(texts) // 2
        return _ids(by, texts[:middle]) + _ids(by, texts[middle:])


def both_cuts(tok: Tokenizer) -> Callable[[str, bool], list[int]]:
    """``tok.cuts`` as :func:`assert_sound` asks for them."""
    return lambda text, closes: tok.cuts(text, closes=closes).tolist()


@dataclass(frozen=True)
class Staged:
    """The stages of one artifact's certificate, and the reference's word on where pieces begin."""

    plan: CertificatePlan
    atoms: Atoms
    machines: tuple[Machine, ...]
    boundaries: Callable[[str], list[int]]


@cache
def staged(name: str) -> Staged | str:
    """Derived anew, not read from a cache; the reason if there is no certificate."""
    document = parsed(name)
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {token: id for id, (token, _) in enumerate(vocabulary)}
    plan = certificate_plan(parse(document), vocabulary)
    if isinstance(plan, str):
        return plan
    atoms, machines = machines_of(plan.stages)
    return Staged(plan, atoms, machines, piece_starts(judge(name).whole.pre_tokenizer))


def piece_starts(pre_tokenizer: Any) -> Callable[[str], list[int]]:
    """Where the pieces of a text begin, by a pre-tokenizer of the reference."""
    return lambda text: [start for _, (start, stop) in pre_tokenizer.pre_tokenize_str(text) if stop > start]
