"""The ``jax`` backend, on whatever device JAX has, judged by the reference and by the other engines."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise

import adversarial
import numpy as np
import pytest
from conftest import artifact, reference, tokenizers
from judge import assert_ids, assert_same, engine, literals
from tokenizers import Tokenizer as HuggingFace
from unoptimized import UNOPTIMIZED, jax

import toktier
from toktier.artifact import Artifact
from toktier.backends.jax import backend as module
from toktier.backends.jax import delivering, pipeline, routing, transfers
from toktier.errors import LoneSurrogateError, MissingDependencyError, OptionError
from toktier.tokenizer import Tokenizer

SIZES = (1 << 13,)
LONG = "pieces that are too long for the device"
STRETCHES = "stretches that were not in normal form"
MANY = "texts that were not in normal form in many places"


@pytest.fixture(scope="module", autouse=True)
def small_buckets() -> Iterator[None]:
    """One small size, since each takes seconds to compile; normal forms are checked as on an accelerator.

    Qwen 3's is compiled as it is for users, all others so that it takes less long.
    """
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "BUCKETS", SIZES)
    patch.setattr(module.JaxBackend, "checks", property(lambda self: self._inert is not None))
    jax_backend("qwen3")._function(pipeline.encode, *SIZES)
    patch.setattr(module, "CPU_OPTIONS", module.CPU_OPTIONS | UNOPTIMIZED)
    yield
    patch.undo()


def jax_backend(name: str) -> module.JaxBackend:
    found = engine(name)._jax()
    assert found.buckets == SIZES
    return found


def fitting(texts: Sequence[str]) -> Iterator[list[str]]:
    """Batches that fit the largest size."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and size + len(text.encode()) + 1 > SIZES[-1]:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text.encode()) + 1
    yield batch


def assert_all(name: str, texts: Sequence[str]) -> None:
    """Ids and pieces are the reference's, and the device made them; pieces of one, for which more is compiled."""
    found = jax_backend(name)
    before = found.reasons.copy()
    for batch in fitting(texts):
        if name == "gpt2":
            assert_same(name, batch, ["jax"])
        else:
            assert_ids(engine(name), reference(name), batch, ["jax"])
    fell_back = found.reasons - before
    assert set(fell_back) <= {LONG, STRETCHES, MANY}, fell_back


# --- embedded tokenizers ---------------------------------------------------------------


@pytest.fixture(
    params=["gpt2", "qwen3", *(pytest.param(n, marks=pytest.mark.campaign) for n in ("gpt-oss", "deepseek-v3"))],
    scope="module",
)
def embedded(request: pytest.FixtureRequest) -> str:
    """Two in every run, since each is compiled for each bucket; the others in the campaign."""
    name: str = request.param
    return name


def test_battery(embedded: str) -> None:
    long = [text for text in adversarial.long_runs(3, (20, 255, 257)) if len(text.encode()) < 1000]
    assert_all(embedded, [*adversarial.battery(literals(embedded), 21, 2_500), *long])


def assert_edges(tok: Tokenizer, sizes: Sequence[int]) -> None:
    """Texts of as many bytes as a size has, of one less and one more, and one of several parts."""
    judge = tok.reference()
    text = "The naïve 中文 user's café — 1234 ways\n\n  to  go… 😀 " * 400
    data = text.encode()
    before = tok._jax().reasons.copy()
    for size in sizes:
        for edge in (size - 1, size, size + 1):
            part = data[:edge].decode("utf-8", "ignore")
            for shown in (part, part + "x" * (edge - len(part.encode()))):
                assert tok.encode(shown, backend="jax") == judge.encode(shown).ids
    assert tok.encode(text, backend="jax") == judge.encode(text).ids
    assert tok._jax().reasons == before


def test_bucket_edges(embedded: str) -> None:
    assert_edges(engine(embedded), SIZES)


def test_empty_and_one_byte_documents(embedded: str) -> None:
    texts = ["", *map(chr, range(128)), "", "\n", "é", "", "<", ""]
    assert_ids(engine(embedded), reference(embedded), texts, ["jax"])
    assert_ids(engine(embedded), reference(embedded), texts, ["jax"], add_special_tokens=True)
    assert engine(embedded).encode_batch(["", ""], False, backend="jax") == [[], []]
    assert engine(embedded).encode("", backend="jax") == reference(embedded).encode("").ids


def test_added_tokens_and_offsets(embedded: str) -> None:
    tok, judge = engine(embedded), reference(embedded)
    some = literals(embedded)[:3]
    texts = [*some, "".join(some), f"a {some[0]} b\u0301{some[-1]}\n", "e\u0301 ﬁ \u212b\u1112\u1161\u11ab 1"]
    for text in texts:
        expected = judge.encode(text)
        found = tok.encode_with_offsets(text, backend="jax")
        assert found.ids.tolist() == expected.ids
        assert [tuple(span) for span in found.offsets.tolist()] == expected.offsets
        as_text = tok.encode(text, special="text", backend="python")
        assert tok.encode(text, special="text", backend="jax") == as_text


def test_ids_in_device_memory(embedded: str) -> None:
    tok, judge = engine(embedded), reference(embedded)
    text = f"In the device's memory {literals(embedded)[0]} they stay."
    for shown in (text, "", "a" * 2_000):
        for special in (True, False):
            ids = tok.encode_to_device(shown, special)
            assert isinstance(ids, jax.Array) and ids.dtype == np.int32
            assert ids.tolist() == judge.encode(shown, add_special_tokens=special).ids


@pytest.mark.campaign
@pytest.mark.parametrize("name", tokenizers())
@pytest.mark.parametrize("seed", range(4))
def test_battery_campaign(name: str, seed: int) -> None:
    tok = engine(name)
    if len(tok.backends) == 1:
        pytest.skip("only the reference runs this tokenizer")
    for batch in fitting(list(adversarial.battery(literals(name), 100 + seed, 25_000))):
        assert_ids(tok, reference(name), batch, ["jax"])


# --- normal forms ------------------------------------------------------------------------

#: Marks (ordered by the engine, newly assigned ones, one that is first of a pair), jamo and characters that a form
#: takes apart or replaces; and others that compose with what stands before.
ACTIVE = (
    *("\u0301", "\u0323", "\u0898", "\u093c", "\u0345", "\u0334", "\u3099", "\u1acf", "\U0001e08f", "\U0001e4ec"),
    *("\u1112", "\u1161", "\u11ab", "\uac00\u11a8", "\u212b", "\u2126", "\u0344", "\u0958", "\ufb1d"),
    *("\U00011099\U000110ba", "e\u0301", "e\u0323\u0301"),
)


def scattered(text: str, insertions: Sequence[str], count: int, seed: int) -> str:
    """``text`` with some of ``insertions`` at random places."""
    random = np.random.default_rng(seed)
    places = np.sort(random.integers(0, len(text) + 1, count)).tolist()
    chosen = random.integers(0, len(insertions), count).tolist()
    parts = [text[start:stop] for start, stop in pairwise([0, *places, len(text)])]
    return "".join(part + insertions[i] for part, i in zip(parts, [*chosen, 0], strict=True))


def with_nfc(name: str) -> tuple[Tokenizer, HuggingFace]:
    """A tokenizer with NFC as its normalizer, and its reference."""
    data = json.dumps(artifact(name).document() | {"normalizer": {"type": "NFC"}})
    return Tokenizer(Artifact.from_bytes(data.encode(), name)), HuggingFace.from_str(data)


def assert_normalized(tok: Tokenizer, judge: HuggingFace, seeds: range) -> None:
    """Texts with few and with many characters that NFC may change, alone, on the device and in batches."""
    backend = tok._jax()
    insertions = (*ACTIVE, *literals(tok.name)[:4], "\n\n", "  ")
    texts = [
        scattered("The quick brown fox, 12345 \u00e9t\u00e9s.\n" * 40, insertions, n, i)
        for i in seeds
        for n in (1, 9, 800)
    ]
    for text in texts:
        expected = judge.encode(text).ids
        assert tok.encode(text, backend="jax") == expected
        assert tok.encode_to_device(text).tolist() == expected
    assert {STRETCHES, MANY} <= set(backend.reasons) <= {STRETCHES, MANY, LONG}
    for batch in fitting(texts):
        assert tok.encode_batch(batch, backend="jax") == [judge.encode(text).ids for text in batch]


def test_normal_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    tok = Tokenizer(engine("qwen3")._artifact)
    tok._jax()._compiled = jax_backend("qwen3")._compiled
    assert_normalized(tok, reference("qwen3"), range(3))
    tok._jax().reasons.clear()
    monkeypatch.setattr(module, "_FEW", 1 << 20)  # stretch by stretch, however many there are
    texts = [
        scattered(text, ACTIVE, 2, i) for i, text in enumerate(adversarial.battery(literals("qwen3"), 3, 400))
    ]
    for batch in fitting(texts):
        assert tok.encode_batch(batch, backend="jax") == [reference("qwen3").encode(text).ids for text in batch]
    assert set(tok._jax().reasons) == {STRETCHES}


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["qwen3", "deepseek-v3", "gpt-oss"])
def test_normal_forms_campaign(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tok, judge = with_nfc(name)
    assert_normalized(tok, judge, range(40))
    monkeypatch.setattr(module, "_FEW", 1 << 20)
    texts = [
        scattered(text, ACTIVE, i % 4, i) for i, text in enumerate(adversarial.battery(literals(name), 4, 50_000))
    ]
    for batch in fitting(texts):
        assert tok.encode_batch(batch, backend="jax") == [judge.encode(text).ids for text in batch]


def test_added_tokens_that_compose() -> None:
    """A token that holds a character that composes may be one no more: then the host normalizes first."""
    for content, told in (("word", True), ("\u0301x", False)):
        added = {"id": 50257, "content": content, "normalized": True, "special": False}
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        document = artifact("gpt2").document()
        document |= {"normalizer": {"type": "NFC"}, "added_tokens": [*document["added_tokens"], added | flags]}
        data = json.dumps(document)
        tok = Tokenizer(Artifact.from_bytes(data.encode(), "composing"))
        assert tok._jax().checks is told
    text = "e\u0301x e \u0301x"
    assert tok.encode(text, backend="jax") == HuggingFace.from_str(data).encode(text).ids


# --- the form for a GPU -----------------------------------------------------------------


@pytest.mark.campaign
@pytest.mark.parametrize("lanes", [False, True])
def test_kernels(monkeypatch: pytest.MonkeyPatch, lanes: bool) -> None:
    """The same by kernels, interpreted; with the one that walks lanes where runs are not known."""
    if lanes:
        monkeypatch.setattr(module, "run_tables", lambda *_: None)
    tok = Tokenizer(engine("gpt2")._artifact)
    size = 1 << 11
    forms = (pipeline.Sizes(0, 0, kernels=True, interpreted=True),)
    monkeypatch.setattr(tok._jax(), "_buckets", (size,))
    monkeypatch.setattr(tok._jax(), "_forms", lambda size: forms)
    texts = [
        *adversarial.battery(literals("gpt2"), 5, 150),
        *("a" * 1_500, "They're where 'rest is", "", "\0", "é" * 700, "x" * (size - 1), "y" * size),
    ]
    for text in texts:
        assert tok.encode(text, backend="jax") == reference("gpt2").encode(text).ids
    assert not tok._jax().reasons


def test_kernels_that_do_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then XLA's form is taken."""
    tok = Tokenizer(engine("gpt2")._artifact)
    monkeypatch.setattr(tok._jax(), "_forms", lambda size: (pipeline.Sizes(0, 0, kernels=True), module._ON_CPU))
    assert tok.encode("Hello, world", backend="jax") == reference("gpt2").encode("Hello, world").ids
    (reason,) = tok._jax().reasons
    assert reason.startswith("the kernels do not compile: ")


# --- one tokenizer is enough ------------------------------------------------------------


def another(**options: str) -> Tokenizer:
    """A tokenizer of its own, so that reasons are counted from 0, but with what is compiled already."""
    tok = Tokenizer(engine("gpt2")._artifact, **options)
    tok._jax()._compiled = jax_backend("gpt2")._compiled
    return tok


@pytest.mark.campaign
def test_several_buckets() -> None:
    tok = another()
    tok._jax()._buckets = (1 << 10, *SIZES)
    assert_edges(tok, (1 << 10, *SIZES))


def test_lengths_are_not_compiled(caplog: pytest.LogCaptureFixture) -> None:
    """As many ids as there are, without a compilation for each number of them, added tokens or not."""
    tok = engine("gpt2")
    texts = [f"{'several words, ' * n}<|endoftext|>" for n in range(1, 21)]
    tok.encode_to_device(texts[0])
    with jax.log_compiles(), caplog.at_level("WARNING"):
        arrays = [tok.encode_to_device(text) for text in texts]
        assert not [record for record in caplog.records if "Compiling" in record.message]
        arrays[-1][:17].block_until_ready()
        assert [record for record in caplog.records if "Compiling" in record.message]
    assert [array.tolist() for array in arrays] == [reference("gpt2").encode(text).ids for text in texts]


def test_part_of_an_array() -> None:
    """It shares the memory of the whole, and keeps it."""
    whole = jax.numpy.arange(100, dtype=np.int32)
    for count in (0, 1, 99, 100):
        part = delivering.first_of(whole, count)
        assert part.shape == (count,) and part.tolist() == list(range(count))
        if count:
            assert part.unsafe_buffer_pointer() == whole.unsafe_buffer_pointer()
        assert whole.shape == (100,)
    del whole
    assert part.tolist() == list(range(100)) and np.from_dlpack(part).tolist() == list(range(100))


def test_padding_is_no_text() -> None:
    for size in SIZES:
        found = jax_backend("gpt2")._function(pipeline.encode, size)(np.full(size, 0xFE, np.uint8))
        assert found.header.tolist() == [0, 0, 0, 0]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The transfers that take place, by name."""
    calls: list[str] = []
    for name in ("to_device", "to_host"):
        original = getattr(transfers, name)

        def counted(values: object, name: str = name, original: object = original) -> object:
            calls.append(name)
            return original(values)  # type: ignore[operator]

        monkeypatch.setattr(transfers, name, counted)
    return calls


def test_transfers(calls: list[str]) -> None:
    """The bytes go to the device; the count with the first ids comes back, then the other ids."""
    tok = engine("gpt2")
    texts = ["A few words." * 3, "1 2 3 4 5 6 7 8 9 " * 300]
    for text in texts:
        tok.encode(text, backend="jax")
    for text, expected in zip(texts, (["to_host"], ["to_host"] * 2), strict=True):
        calls.clear()
        with jax.transfer_guard("disallow"):  # all others
            tok.encode(text, backend="jax")
        assert calls == ["to_device", *expected]
    calls.clear()
    tok.encode_batch(texts, backend="jax")
    assert calls == ["to_device", "to_host", "to_host"]


@pytest.mark.parametrize(
    ("text", "expected", "delivered"),
    [
        (
            "Na\u00efve \u4e2d\u6587 words. " * 40,
            ["to_host"],
            ["to_host", "to_device"],
        ),  # in normal form, as can be told
        ("cafe\u0301 " + "words " * 900, ["to_host"] * 2, ["to_host"] * 2 + ["to_device"]),
        ("\u0e17\u0e35\u0e48 " * 300, ["to_host"], ["to_host", "to_device"]),  # in normal form, as the host finds
        (
            "cafe\u0301 " * 300,
            ["to_host", "to_device", "to_host"],
            ["to_host", "to_device", "to_host", "to_device"],
        ),
    ],
)
def test_transfers_for_normal_forms(
    calls: list[str], text: str, expected: list[str], delivered: list[str]
) -> None:
    """At most two synchronizations, however much of a text is normalized."""
    tok, judge = engine("qwen3"), reference("qwen3").encode(text).ids
    tok.encode_to_device(text)  # compiles
    for call, names in (
        (lambda: tok.encode(text, backend="jax"), expected),
        (lambda: tok.encode_to_device(text), delivered),
    ):
        calls.clear()
        with jax.transfer_guard("disallow"):
            ids = call()
        assert calls == ["to_device", *names]
        assert list(ids) == judge


def test_very_long_pieces_go_to_the_host() -> None:
    tok, judge = engine("gpt2"), reference("gpt2")
    before = jax_backend("gpt2").reasons[LONG]
    text = "a " + "ab" * 1_000 + " b\n" + "-" * 2_000 + "中文" * 500 + " c"
    assert tok.encode(text, backend="jax") == judge.encode(text).ids
    assert jax_backend("gpt2").reasons[LONG] == before + 3
    assert LONG in str(tok.explain())


def test_stretches_that_are_too_long_to_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    tok = Tokenizer(engine("gpt2")._artifact)
    monkeypatch.setattr(module, "run_tables", lambda *_: None)
    monkeypatch.setattr(module, "LONGEST_LANE", 1)
    text = "They're where 'rest is"  # three letters after an apostrophe are more than a window sees
    assert tok.encode(text, backend="jax") == reference("gpt2").encode(text).ids
    assert tok.piece_starts(text, backend="jax")[1].tolist() == tok.piece_starts(text, backend="numpy")[1].tolist()
    assert tok._jax().reasons == {"where pieces begin depends on more than 1 bytes in a row": 2}


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (RuntimeError("RESOURCE_EXHAUSTED: out of memory allocating 8 bytes"), "out of memory"),
        (RuntimeError("Unable to initialize backend 'cuda'"), "RuntimeError: Unable to initialize backend 'cuda'"),
        (BufferError("not shared"), "BufferError: not shared"),
    ],
)
def test_failures_of_the_device(monkeypatch: pytest.MonkeyPatch, problem: Exception, reason: str) -> None:
    tok = another(backend="jax")

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(tok._jax(), "_run", fail)
    text = "Whatever the device does, the ids are the same."
    expected = engine("gpt2").encode(text, backend="numpy")
    assert tok.encode(text) == expected
    assert tok.encode_to_device(text).tolist() == expected
    assert tok.piece_starts(text)[1].tolist() == engine("gpt2").piece_starts(text, backend="numpy")[1].tolist()
    assert tok._jax().reasons == {reason: 3}
    assert f"on the device, 3 times: {reason}" in str(tok.explain())


def test_a_function_that_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    tok = Tokenizer(engine("gpt2")._artifact, backend="jax")
    monkeypatch.setattr(module, "run_tables", lambda *_: None)
    monkeypatch.setattr(tok._jax(), "_forms", lambda size: (pipeline.Sizes(lanes=0, merged=0),))
    text = "Neither does a compiler's failure matter."
    assert tok.encode(text) == tok.encode(text) == engine("gpt2").encode(text, backend="numpy")
    (reason,) = tok._jax().reasons
    assert reason.startswith("it does not compile") and tok._jax().reasons[reason] == 2


def test_sizes_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, whoever asks for it."""
    monkeypatch.setattr("toktier.parallel.usable_cores", lambda: 4)
    backend = Tokenizer(engine("gpt2")._artifact)._jax()
    sizes = (64, 128)
    both, done = threading.Barrier(2, timeout=20), []

    def compile_(function: object, size: int) -> object:
        both.wait()
        done.append(size)
        return compile_

    monkeypatch.setattr(backend, "_buckets", sizes)
    monkeypatch.setattr(backend, "_compile", compile_)
    monkeypatch.setattr(backend, "_sizes", lambda up_to: [*sizes, *sizes])
    backend.warm_up()
    assert sorted(done) == [*sizes]


def test_a_busy_device(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = jax_backend("gpt2")
    before = backend.reasons["the device is busy"]
    monkeypatch.setattr(backend._room, "acquire", lambda blocking: False)
    assert engine("gpt2").encode("Busy.", backend="jax") == reference("gpt2").encode("Busy.").ids
    assert backend.reasons["the device is busy"] == before + 1


def test_without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    artifact = engine("gpt2")._artifact
    with pytest.raises(MissingDependencyError, match=r"toktier-jax\[jax\].*\[cuda12\].*\[cuda13\]"):
        Tokenizer(artifact, backend="jax")
    with pytest.raises(MissingDependencyError, match=r"toktier-jax\[jax\]"):
        Tokenizer(artifact).encode("a", backend="jax")
    with pytest.raises(MissingDependencyError):
        toktier.devices()


def test_devices() -> None:
    found = toktier.devices()
    assert [device.default for device in found] == [True] + [False] * (len(found) - 1)
    assert found[0].platform == jax.devices()[0].platform


def test_auto_takes_an_accelerator_only(monkeypatch: pytest.MonkeyPatch) -> None:
    tok = another()
    backend = tok._jax()
    for accelerated, expected in ((False, "numpy"), (True, "jax")):
        monkeypatch.setattr(module.JaxBackend, "accelerated", accelerated)
        tok.warmup(threshold=15_000)
        assert tok._engine("a" * 15_000, None).name == expected
        assert tok._engine("a" * 14_999, None).name == "numpy"
        assert tok._engine("a", None).name == "python"
    text = "Words for the device. " * 700
    monkeypatch.setattr(backend, "encode", lambda prepared, _: (np.array([7], np.uint32), np.empty(0, np.int64)))
    assert set(tok.encode(text)) == {7}
    with pytest.raises(OptionError):
        tok.warmup(threshold=-1)


@pytest.mark.parametrize(
    ("fixed", "each", "expected"),
    [(9_000, 0.1, 10_000), (200_000, 0.5, None), (0, 0.5, 1_000), (9_000, 1.0, None)],
)
def test_from_where_on_the_device_is_faster(fixed: float, each: float, expected: int | None) -> None:
    """By a clock that counts: the host takes 1 a character, the device so much a text and a character."""
    now = 0.0
    seen: list[str] = []

    def host(text: str) -> None:
        nonlocal now
        seen.append(text)
        now += len(text)

    def device(text: str) -> None:
        nonlocal now
        assert seen[-1] == text
        now += fixed + each * len(text)

    text = routing.made_up_texts(engine("gpt2")._compiled.tokens)
    assert routing.faster_from(host, device, (1_000, 100_000), text, clock=lambda: now) == expected
    assert len(set(seen)) == len(seen) and {len(text) for text in seen} == {1_000, 100_000}


def test_auto_is_told_at_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where texts go depends on what is measured; their ids do not."""
    tok = another()
    monkeypatch.setattr(module.JaxBackend, "accelerated", True)
    text = "Words for the device. " * 700
    expected = tok.encode(text)
    for found, name in ((15_000, "jax"), (None, "numpy")):
        monkeypatch.setattr(module, "faster_from", lambda host, device, lengths, text, found=found: found)
        tok.warmup()
        assert tok._jax().faster_from == found
        assert tok._engine(text, None).name == name
        assert tok.encode(text) == expected
    monkeypatch.undo()
    monkeypatch.setattr(module.JaxBackend, "accelerated", True)
    monkeypatch.setattr(module.JaxBackend, "buckets", SIZES)
    monkeypatch.setattr(tok._jax(), "_run", lambda *_: (_ for _ in ()).throw(RuntimeError("no device")))
    tok.warmup()
    assert tok._jax().faster_from is None  # what was measured is not the device


def test_one_call() -> None:
    assert toktier.encode("Hello, world", "gpt2", backend="jax") == reference("gpt2").encode("Hello, world").ids
    assert toktier.load("gpt2", backend="jax").backend == "jax"


def test_lone_surrogates() -> None:
    tok = engine("gpt2")
    for call in (tok.encode_to_device, lambda text: tok.encode(text, backend="jax")):
        with pytest.raises(LoneSurrogateError) as problem:
            call("a" * 9_000 + "\ud800")
        assert problem.value.index == 9_000
