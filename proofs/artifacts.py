"""What the prover needs of a ``tokenizer.json``: its stages, and the engine that runs them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from toktier.artifact import Artifact
from toktier.bpe.rounds import mergeable_at_once
from toktier.bpe.tables import merges
from toktier.patterns.syntax import Node
from toktier.pipeline import parse
from toktier.plan import certificate_plan
from toktier.registry import embedded_names, resolve

from .engine import PreTokenizerEngine

#: Where other tokenizers lie, if this is a checkout that has some beside it.
BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "tokenizers"


def names() -> list[str]:
    """The embedded tokenizers, and those beside the checkout that are not among them."""
    beside = sorted(file.name.removesuffix(".json.xz") for file in BESIDE.glob("*.json.xz"))
    return [*embedded_names(), *(name for name in beside if name.replace("_", "-") not in embedded_names())]


def artifact_of(name: str) -> Artifact:
    """The artifact of one of :func:`names`, or whatever :func:`toktier.load` takes."""
    beside = BESIDE / f"{name}.json.xz"
    return resolve(beside if beside.is_file() else name)


@dataclass(frozen=True)
class Subject:
    """What a tokenizer comes to.

    ``nodes``: the patterns of its stages; ``pre_tokenizer``: as the artifact has it; ``refusal``: why there is no
    certificate, or None.  ``barriers``: there are no stages, and the text is cut where no token of the vocabulary
    holds the two characters next to each other; ``barrier_failure``: a text and a cut that show that it may not.
    ``rounds``: of how many of its merge rules a round is merged at once (:mod:`toktier.bpe.rounds`), in words.
    """

    nodes: tuple[Node, ...] = ()
    pre_tokenizer: str = "null"
    refusal: str | None = None
    barriers: bool = False
    barrier_failure: str | None = None
    rounds: str | None = None

    def engine(self) -> PreTokenizerEngine:
        """The artifact's own pre-tokenizer, with a model that takes no time to load."""
        return PreTokenizerEngine(_tokenizer(json.loads(self.pre_tokenizer), _NO_MODEL).pre_tokenizer)


_NO_MODEL = {"type": "BPE", "vocab": {}, "merges": []}


def _tokenizer(pre_tokenizer: Any, model: Any) -> Tokenizer:
    parts = {"version": "1.0", "added_tokens": [], "pre_tokenizer": pre_tokenizer, "model": model}
    return Tokenizer.from_str(json.dumps(parts))


def subject_of(artifact: Artifact) -> Subject:
    """Read an artifact."""
    document = artifact.document()
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, list):  # Unigram: (token, score)
        vocabulary = {token: id for id, (token, *_) in enumerate(vocabulary)}
    plan = certificate_plan(parse(document), vocabulary)
    if isinstance(plan, str):
        return Subject(refusal=plan)
    rounds = rounds_of(document["model"])
    if plan.barriers:
        return Subject(barriers=True, barrier_failure=check_barriers(document["model"]), rounds=rounds)
    return Subject(plan.stages, json.dumps(document["pre_tokenizer"]), rounds=rounds)


def rounds_of(model: Mapping[str, Any]) -> str | None:
    """How many rules of a BPE model a round may apply everywhere at once; None for other models."""
    if not model.get("merges"):
        return None
    at_once = mergeable_at_once(merges(model))
    return f"rounds: {at_once.sum():,} of {len(at_once):,} rules may be merged everywhere at once"


def check_barriers(model: Mapping[str, Any], texts: int = 60, seed: int = 0) -> str | None:
    """A cut between characters that no token holds next to each other, where BPE is not independent.

    None if there is none in random texts of the vocabulary's tokens and some characters.
    """
    source = random.Random(seed)
    tokens = list(model["vocab"])
    together = {token[at : at + 2] for token in tokens for at in range(len(token) - 1)}
    engine = _tokenizer(None, model).model

    def ids(text: str) -> list[int]:
        return [token.id for token in engine.tokenize(text)]

    for _ in range(texts):
        few = source.choices("\u2581\u2581e\n中\U0001f600\x00", k=4)
        text = "".join(source.choices(tokens, k=3) + few + source.choices(tokens, k=2))
        whole = ids(text)
        for at in range(1, len(text)):
            if text[at - 1 : at + 1] not in together and ids(text[:at]) + ids(text[at:]) != whole:
                return f"{text[:at]!r} | {text[at:]!r}"
    return None
