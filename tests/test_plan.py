"""Plans: pre-tokenizers as stages, and where the stages allow a text to be cut, judged by the reference."""

from __future__ import annotations

import json
import random
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import small
from conftest import parsed, reference, shared_tokenizer_names, tokenizers
from numpy.typing import NDArray
from tokenizers import Tokenizer as HuggingFace
from tokenizers.models import Model

from toktier.artifact import Artifact
from toktier.certificates.barriers import CODE_POINT_BITS, adjacent_pairs, why_no_barriers
from toktier.certificates.relation import derive_relation
from toktier.patterns.atoms import Atoms, atoms_of
from toktier.patterns.machine import Machine, derive
from toktier.patterns.syntax import sets_of
from toktier.pipeline import BPE, parse
from toktier.plan import CertificatePlan, Plan, certificate_plan, make_plan
from toktier.registry import embedded_names
from toktier.tokenizer import Tokenizer
from toktier.word_marks import word_mark

CHARACTERS = "ab\u00e9\u4e2dA'1 \t\n,.$_\u2581\u3000\u00a0\U0001f600\u0301"


def split(pattern: str | dict[str, str], behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    pattern = {"Regex": pattern} if isinstance(pattern, str) else pattern
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(scheme: str, split: bool = True) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


def campaign(*names: str) -> list[Any]:
    """Parameters for ``parametrize`` that are left to the long run."""
    return [pytest.param(*p.values, marks=[*p.marks, pytest.mark.campaign]) for p in tokenizers(*names)]


BERT, WORDS, SPACES = ({"type": type} for type in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))
GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PREFIXING = {**GPT2, "add_prefix_space": True}
DIGITS = {"type": "Digits", "individual_digits": False}
BEHAVIORS = ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")

PRE_TOKENIZERS: tuple[dict[str, Any], ...] = (
    *(BERT, WORDS, SPACES, GPT2, DIGITS, {**DIGITS, "individual_digits": True}),
    *({"type": "Punctuation", "behavior": behavior} for behavior in BEHAVIORS),
    {"type": "CharDelimiterSplit", "delimiter": "a"},
    *(split("[ab]|1+", behavior, invert) for behavior in BEHAVIORS for invert in (False, True)),
    *(split({"String": "a1"}, behavior) for behavior in BEHAVIORS if behavior != "Removed"),
    *(split(r"(?<=a)b++|^1", behavior) for behavior in BEHAVIORS if behavior != "Removed"),
    *(split(r"(?=(1a)+(?!1))|\b(?<=a)|\Z", behavior, True) for behavior in BEHAVIORS if behavior != "Removed"),
    *(split("(?=a|b)"), split(""), split(r"\B", "Contiguous")),
    *(metaspace("always"), metaspace("first"), metaspace("never"), sequence(SPACES, metaspace("always"))),
    *(
        sequence(BERT, DIGITS),
        sequence(WORDS, split("a|\u00e9")),
        sequence(DIGITS, {**PREFIXING, "use_regex": False}),
    ),
)


def names_of(parts: tuple[dict[str, Any], ...]) -> list[str]:
    return [f"{number}-{part['type']}" for number, part in enumerate(parts)]


class Stages:
    """The stages of a plan over texts, position by position."""

    def __init__(self, plan: Plan | CertificatePlan) -> None:
        self.atoms: Atoms = atoms_of(list(dict.fromkeys(s for stage in plan.stages for s in sets_of(stage))))
        self.machines: list[Machine] = [derive(stage, self.atoms) for stage in plan.stages]
        assert not any(c and m.has_gaps for c, m in zip(plan.covering, self.machines, strict=True))

    def read(self, text: str) -> NDArray[np.uint8]:
        return self.atoms.of_code_point[np.frombuffer(text.encode("utf-32-le"), np.uint32)]

    def pieces(self, text: str) -> list[tuple[int, int]]:
        spans = [(0, len(text))] if text else []
        for machine in self.machines:
            spans = [
                (start + a, start + b) for start, stop in spans for a, b in self.cut(machine, text[start:stop])
            ]
        return spans

    def cut(self, machine: Machine, text: str) -> list[tuple[int, int]]:
        oracle, walk, starts = [0], 0, []
        for atom in reversed(self.read(text).tolist()):
            oracle.append(int(machine.oracle[oracle[-1], atom]))
        for at, seen in enumerate(reversed(oracle[1:])):
            walk = int(machine.walk[walk, seen])
            if walk >= machine.first:
                starts.append(at)
        return list(pairwise([*starts, len(text)]))


def texts(seed: int, count: int, length: int = 12) -> list[str]:
    random_ = random.Random(seed)
    return ["".join(random_.choices(CHARACTERS, k=random_.randrange(1, length))) for _ in range(count)]


def word_level(pre_tokenizer: dict[str, Any]) -> dict[str, Any]:
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}
    return small.document(pre_tokenizer=pre_tokenizer, model=model, decoder=None)


@cache
def stages_of(pre_tokenizer: str) -> Stages:
    plan = certificate_plan(parse(word_level(json.loads(pre_tokenizer))), {})
    assert isinstance(plan, CertificatePlan), plan
    return Stages(plan)


@pytest.mark.parametrize("part", PRE_TOKENIZERS, ids=names_of(PRE_TOKENIZERS))
def test_stages_are_the_pre_tokenizer(part: dict[str, Any]) -> None:
    """The stages' pieces are the reference's and, in between, pieces that it leaves out."""
    stages = stages_of(json.dumps(part))
    judge = small.build(word_level(part)).pre_tokenizer
    for text in [*texts(1, 250), *CHARACTERS]:
        right = [span for _, span in judge.pre_tokenize_str(text)]
        kept = np.zeros(len(text), np.bool_)
        for start, stop in right:
            kept[start:stop] = True
        found = stages.pieces(text)
        assert all(kept[start:stop].all() == kept[start:stop].any() for start, stop in found), text
        assert [span for span in found if kept[span[0]]] == [span for span in right if span[0] < span[1]], text


def cut_pairs(stages: Stages) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    relation = derive_relation(stages.machines, stages.atoms.count)
    return relation.restarts, relation.closes


def models() -> dict[str, dict[str, Any]]:
    """One model of each kind, with tokens for pieces long and short, word marks and spaces included."""
    characters = dict.fromkeys("ab1A,.$_\u00e9\u2581 \n")
    pairs = [
        ("a", "b"),
        ("\u2581", "a"),
        (" ", "a"),
        ("ab", "1"),
        ("a", "a"),
        ("1", "1"),
        ("\u2581", "\u2581"),
        (",", "\n"),
    ]
    tokens = ["<unk>", *characters, *(a + b for a, b in pairs)]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    words = {**vocabulary, **{f"##{token}": len(tokens) + id for id, token in enumerate(characters)}}
    merges = [list(pair) for pair in pairs]
    ending = {**vocabulary, "a</w>": 97, "b</w>": 98, "ab</w>": 99}
    return {
        "WordPiece": {
            **{"type": "WordPiece", "vocab": words, "unk_token": "<unk>"},
            **{"continuing_subword_prefix": "##", "max_input_chars_per_word": 5},
        },
        "WordLevel": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
        "Unigram": {
            "type": "Unigram",
            "vocab": [[token, -float(id)] for token, id in vocabulary.items()],
            "unk_id": 0,
        },
        "BPE": {"type": "BPE", "vocab": vocabulary, "merges": merges, "unk_token": "<unk>", "fuse_unk": True},
        "BPE with suffix": {
            **{"type": "BPE", "vocab": ending, "merges": [["a", "b</w>"]], "unk_token": "<unk>"},
            "end_of_word_suffix": "</w>",
        },
    }


@pytest.mark.parametrize("model", models())
@pytest.mark.parametrize("part", PRE_TOKENIZERS, ids=names_of(PRE_TOKENIZERS))
def test_every_model_may_be_cut(part: dict[str, Any], model: str) -> None:
    """Random texts cut at a certified pair, both sides encoded apart by the reference."""
    document = small.document(pre_tokenizer=part, model=models()[model], decoder=None)
    plan = certificate_plan(
        parse(document), dict.fromkeys(document["model"]["vocab"], 0) if model != "Unigram" else {}
    )
    assert isinstance(plan, CertificatePlan)
    stages = stages_of(json.dumps(part))
    judge = small.build(document)
    _, closes = cut_pairs(stages)
    tried = 0
    for text in texts(2, 120):
        atoms = stages.read(text)
        for before in np.flatnonzero(closes[atoms[:-1], atoms[1:]]).tolist()[:4]:
            left, right = text[: before + 1], text[before + 1 :]
            assert judge.encode(text).ids == judge.encode(left).ids + judge.encode(right).ids, (left, right)
            tried += 1
    assert tried or not closes.any()


# --- barriers ------------------------------------------------------------------------------------


def test_adjacent_pairs() -> None:
    found = adjacent_pairs(["abc", "", "x", "b\U0010ffff", "ab"]).tolist()
    pairs = [("a", "b"), ("b", "c"), ("b", "\U0010ffff")]
    assert found == [ord(a) << CODE_POINT_BITS | ord(b) for a, b in pairs]


def assert_independent(judge: Model, vocabulary: dict[str, int], alphabets: list[list[str]], count: int) -> None:
    pairs = set(adjacent_pairs(vocabulary).tolist())
    random_ = random.Random(3)
    tried = 0
    for number in range(count):
        text = "".join(random_.choices(alphabets[number % len(alphabets)], k=random_.randrange(2, 16)))
        whole = [token.id for token in judge.tokenize(text)]
        packed = [ord(a) << CODE_POINT_BITS | ord(b) for a, b in pairwise(text)]
        barriers = [at for at, pair in enumerate(packed, 1) if pair not in pairs]
        for cut in random_.sample(barriers, min(3, len(barriers))):
            apart = [token.id for half in (text[:cut], text[cut:]) for token in judge.tokenize(half)]
            assert apart == whole, (text, cut)
            tried += 1
    assert tried > count // 4


def tab_for_its_byte() -> dict[str, Any]:
    """As in the vocabularies of Gemma 1 and 2."""
    model = small.fallback_model()
    vocabulary = {"\t" if token == "<0x09>" else token: id for token, id in model["vocab"].items()}
    return model | {"vocab": vocabulary}


@pytest.mark.parametrize("model", [small.fallback_model(), tab_for_its_byte()], ids=["bytes", "tab"])
def test_bpe_is_independent_on_either_side_of_a_barrier(model: dict[str, Any]) -> None:
    judge = small.build(small.document(pre_tokenizer=None, model=model, decoder=None)).model
    assert_independent(judge, model["vocab"], [list("aab11\u2581\u2581\u2581\u00e9,\u00e8 \t<0xA>")], 3_000)


@pytest.mark.parametrize("name", [*tokenizers("llama2"), *campaign("gemma3")])
def test_barriers_of_real_models(name: str) -> None:
    document = parsed(name)
    plan = certificate_plan(parse(document), document["model"]["vocab"])
    assert plan == CertificatePlan((), (), barriers=True)
    tokens = list(document["model"]["vocab"])
    alphabets = [
        tokens,
        [token for token in tokens if len(token) == 1],
        list("\u2581\u2581\u2581>ab</<0x1A>\n\u00e9\ue000\ue001"),
    ]
    assert_independent(reference(name).model, document["model"]["vocab"], alphabets, 900)


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_metaspace_that_does_not_split(scheme: str) -> None:
    """BPE over a whole text whose spaces become word marks: cut before these, where no token crosses."""
    document = small.document(
        pre_tokenizer=metaspace(scheme, split=False), model=small.fallback_model(), decoder=None
    )
    plan = certificate_plan(parse(document), document["model"]["vocab"])
    assert isinstance(plan, CertificatePlan)
    stages = Stages(plan)
    restarts, closes = cut_pairs(stages)
    (one, space, a) = stages.read("1 a").tolist()
    assert closes[a, space]
    assert not restarts[one, space]
    judge = small.build(document)
    random_ = random.Random(4)
    for _ in range(1_500):
        text = "".join(random_.choices("aab11  \u2581\u00e9,\u00e8", k=random_.randrange(2, 14)))
        atoms = stages.read(text)
        for before in np.flatnonzero(closes[atoms[:-1], atoms[1:]]).tolist()[:3]:
            left, right = text[: before + 1], text[before + 1 :]
            assert judge.encode(text).ids == judge.encode(left).ids + judge.encode(right).ids, (left, right)


# --- what is refused ------------------------------------------------------------------------------


def refusal(pre_tokenizer: dict[str, Any] | None, model: dict[str, Any]) -> str:
    document = small.document(pre_tokenizer=pre_tokenizer, model=model)
    plan = certificate_plan(parse(document), model.get("vocab", {}))
    assert isinstance(plan, str), plan
    return plan


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (sequence(split("a"), PREFIXING), "ByteLevel adds a space"),
        ({**PREFIXING, "use_regex": False}, "ByteLevel adds a space"),
        (sequence(GPT2, GPT2), "follows ByteLevel"),
        (sequence(metaspace("always"), SPACES), "follows Metaspace"),
        (sequence(SPACES, metaspace("first")), "first piece alone"),
        (metaspace("always", split=False), "whole text as one piece"),
        (None, "whole text as one piece"),
        (split("ab", "Removed"), "single characters"),
        (split("(?<=a)b", "Removed"), "single characters"),
        (split("a"), "the behavior Strange"),
        (split({"String": ""}), "empty pattern"),
        (split(r"a\G"), "position 1"),
        ({"type": "UnicodeScripts"}, "UnicodeScripts"),
        ({"type": "FixedLength", "length": 3}, "FixedLength"),
    ],
)
def test_refused_pre_tokenizers(part: dict[str, Any] | None, reason: str) -> None:
    if "Strange" in reason and part is not None:
        part = {**part, "behavior": "Strange"}
    assert reason in refusal(part, models()["WordLevel"])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({**models()["BPE"], "dropout": 0.5}, "dropout"),
        ({**models()["Unigram"], "alpha": 0.5}, "alpha"),
        ({"type": "Other"}, "the model Other"),
    ],
)
def test_refused_models(model: dict[str, Any], reason: str) -> None:
    assert reason in refusal(SPACES, model)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ignore_merges": True}, "ignore_merges"),
        ({"byte_fallback": False}, "no token for some bytes"),
        ({"vocab": {"a": 0, "b": 1}, "merges": []}, "no token for some bytes"),
        ({"continuing_subword_prefix": "##"}, "prefix or suffix"),
        ({"end_of_word_suffix": "</w>"}, "prefix or suffix"),
    ],
)
def test_models_without_barriers(change: dict[str, Any], reason: str) -> None:
    assert reason in refusal(None, small.fallback_model(**change))


def test_vocabularies_without_barriers() -> None:
    model = small.fallback_model()
    described = parse(small.document(model=model)).model
    assert isinstance(described, BPE)
    vocabulary = model["vocab"]
    assert why_no_barriers(described, vocabulary) is None
    assert "the same id" in str(why_no_barriers(described, {**vocabulary, "zz": 0}))
    for byte in ("<0x08>", "<0x80>"):
        without = {token: id for token, id in vocabulary.items() if token != byte} | {"\x80": 998}
        assert "no token for some bytes" in str(why_no_barriers(described, without))
    for token in ("<0xAB>x", "x<0xAB>", "<0xAB><0xAB>"):
        assert "contains <0xAB>" in str(why_no_barriers(described, {**vocabulary, token: 999}))


def test_characters_that_are_dropped_are_no_barriers() -> None:
    """Why models without byte fallback are refused: 'a' and 'b' merge across a character that is not known."""
    pairs = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
    judge = small.build(small.document(pre_tokenizer=None, model=pairs, decoder=None))
    assert judge.encode("a?b").ids == [2]
    assert "dropped" in refusal(None, pairs)


# --- tokenizers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", tokenizers("bert_uncased", "xlm_roberta"))
def test_stages_of_real_tokenizers(name: str) -> None:
    document = parsed(name)
    plan = certificate_plan(parse(document), {})
    assert isinstance(plan, CertificatePlan)
    stages = Stages(plan)
    judge = small.build(document)
    judge.no_truncation()
    judge.no_padding()
    judge.normalizer = None
    _, closes = cut_pairs(stages)
    a, space = stages.read("a ").tolist()
    assert closes[a, space]
    assert closes[space, a]
    for text in texts(5, 600, 30):
        atoms = stages.read(text)
        for before in np.flatnonzero(closes[atoms[:-1], atoms[1:]]).tolist()[:2]:
            halves = [
                judge.encode(half, add_special_tokens=False).ids
                for half in (text[: before + 1], text[before + 1 :])
            ]
            assert judge.encode(text, add_special_tokens=False).ids == [*halves[0], *halves[1]], (text, before)


_QUICK = ("bert_uncased", "xlm_roberta", "llama2", "gpt2", "deepseek_llm", "starcoder", "olmo2_dolma2")
_OTHERS = tuple(name for name in (*embedded_names(), *shared_tokenizer_names()) if name not in _QUICK)


@pytest.mark.parametrize("name", [*tokenizers(*_QUICK), *campaign(*_OTHERS)])
def test_every_tokenizer_has_a_plan(name: str) -> None:
    document = parsed(name)
    vocabulary = document["model"]["vocab"]
    vocabulary = vocabulary if isinstance(vocabulary, dict) else {}
    pipeline = parse(document)
    plan = certificate_plan(pipeline, vocabulary)
    assert isinstance(plan, CertificatePlan), plan
    running = make_plan(pipeline, vocabulary)
    mark = word_mark(pipeline.pre_tokenizer)
    if plan.stages and isinstance(running, Plan) and (mark is None or mark.before != "word"):
        assert (plan.stages, plan.covering) == (running.stages, running.covering)


# --- the engines -----------------------------------------------------------------------------------

ENGINE_PARTS: tuple[dict[str, Any], ...] = (
    *(split("[ab]|1+", behavior, invert) for behavior in BEHAVIORS[2:] for invert in (False, True)),
    *(split(r"(?<=a)b++|^1|\Z\n", behavior) for behavior in ("Isolated", *BEHAVIORS[2:])),
    *(split("(?=(1a)+(?!1))"), split(r"(?<=a)(?=b)|\b", "MergedWithNext")),
    *(split({"String": "a1"}, "MergedWithNext"), {"type": "Punctuation", "behavior": "MergedWithPrevious"}),
)


@pytest.mark.parametrize("part", ENGINE_PARTS, ids=names_of(ENGINE_PARTS))
def test_engines_run_behaviors(part: dict[str, Any]) -> None:
    """With added tokens, after which a text begins as look-behinds see it."""
    pre_tokenizer = sequence(part, {**GPT2, "use_regex": False})
    document = small.document(pre_tokenizer=pre_tokenizer, added_tokens=[small.added("$", 300)])
    assert_engines_agree(document, ["", "b", "a$b", "a$1b", "\n$\n", *texts(6, 150, 25), "ab1\n$" * 400])


def assert_engines_agree(document: dict[str, Any], texts: list[str]) -> None:
    data = json.dumps(document).encode()
    judge = HuggingFace.from_str(data.decode())
    tok = Tokenizer(Artifact.from_bytes(data, "made"))
    assert "python" in tok.backends, tok.explain()
    for text in texts:
        for backend in ("python", "numpy"):
            assert tok.encode(text, backend=backend) == judge.encode(text).ids, (backend, text)


def test_engines_run_a_tab_for_its_byte() -> None:
    document = small.document(pre_tokenizer=None, model=tab_for_its_byte(), decoder=None)
    assert_engines_agree(document, ["\t", "a\t\t1\u2581a\u00e8", *texts(6, 150, 25), "ab1\u2581\t\u00e9a" * 400])
