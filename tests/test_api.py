"""What a caller may rely on: defaults, errors, immutability, pickling, and a light import."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small
from conftest import ROOT, artifact, reference, tokenizers
from judge import ENGINES, engine

import toktier
from toktier import errors
from toktier.artifact import Artifact
from toktier.backends import reference as reference_backend
from toktier.errors import (
    BackendUnsupportedError,
    LoneSurrogateError,
    OptionError,
    SpecialTokenError,
    TextTypeError,
    TokTierError,
    UnknownBackendError,
    UnknownTokenizerError,
)
from toktier.tokenizer import Tokenizer

ALL = ("auto", "reference", *ENGINES)
TEXT = "Hello, world! <|endoftext|> naïve 中文\n"
LONG = (TEXT + "and so on, ") * 1_200

backends = pytest.mark.parametrize("backend", ALL)

METHODS = {
    "encode": lambda tok, text, **options: tok.encode(text, **options),
    "encode_to_numpy": lambda tok, text, **options: tok.encode_to_numpy(text, **options),
    "encode_batch": lambda tok, text, **options: tok.encode_batch(["fine", text], **options),
    "encode_batch_to_numpy": lambda tok, text, **options: tok.encode_batch_to_numpy([text], **options),
    "encode_with_offsets": lambda tok, text, **options: tok.encode_with_offsets(text, **options),
    "count": lambda tok, text, **options: tok.count(text, **options),
    "module": lambda tok, text, **options: toktier.encode(text, tok, **options),
}
methods = pytest.mark.parametrize("method", METHODS)


# --- loading and defaults ----------------------------------------------------------------


def test_the_default_tokenizer() -> None:
    assert toktier.DEFAULT == "gpt-oss"
    assert toktier.encode(TEXT) == reference("gpt-oss").encode(TEXT).ids
    assert toktier.load().fingerprint == toktier.load("gpt-oss").fingerprint == artifact("gpt-oss").fingerprint


def test_ways_to_name_a_tokenizer(tmp_path: Path) -> None:
    right = reference("gpt2").encode(TEXT).ids
    file = tmp_path / "tokenizer.json"
    file.write_bytes(artifact("gpt2").read())
    for one in ("gpt2", "GPT2", file, str(file), tmp_path, toktier.load("gpt2")):
        assert toktier.encode(TEXT, one) == right
        for backend in ALL:
            assert toktier.encode(TEXT, one, backend) == right


def test_a_loaded_tokenizer_is_kept() -> None:
    assert toktier.load("gpt2") is toktier.load("gpt2")


@backends
def test_load_with_a_backend(backend: str) -> None:
    tok = toktier.load("gpt2", backend)
    assert tok.backend == backend
    assert tok.encode(TEXT) == reference("gpt2").encode(TEXT).ids
    assert tok.encode(TEXT, backend="auto") == reference("gpt2").encode(TEXT).ids


def test_special_tokens_are_added_by_default() -> None:
    for name in toktier.embedded_names():
        tok, judge = engine(name), reference(name)
        for text in ("", "a", TEXT):
            assert tok.encode(text) == judge.encode(text).ids
            assert tok.encode(text, False) == judge.encode(text, add_special_tokens=False).ids
            assert tok.encode(text, add_special_tokens=True) == judge.encode(text, add_special_tokens=True).ids


@pytest.mark.parametrize("name", tokenizers("llama2", "bert_uncased"))
def test_special_tokens_around_a_text(name: str) -> None:
    """The embedded tokenizers add none, these do."""
    tok, judge = engine(name), reference(name)
    for add in (False, True):
        for text in ("", "a b", "x " * 50):
            right = judge.encode(text, add_special_tokens=add).ids
            assert tok.encode(text, add) == right
            assert tok.encode_batch([text, text], add) == [right, right]
            assert tok.count(text, None, add) == len(right)
            for limit in (0, 1, 2, 3, 51, 60):
                assert tok.count(text, limit, add) == min(len(right), limit + 1)


@backends
def test_empty(embedded: str, backend: str) -> None:
    tok = engine(embedded)
    right = reference(embedded).encode("").ids
    assert tok.encode("", backend=backend) == right
    assert tok.encode_to_numpy("", backend=backend).dtype == np.uint32
    assert tok.encode_batch([], backend=backend) == []
    assert tok.encode_batch(["", ""], backend=backend) == [right, right]
    assert tok.encode_batch(iter(["a"]), backend=backend) == [reference(embedded).encode("a").ids]
    assert tok.count("", backend=backend) == tok.count("", 0, backend=backend) == len(right)
    found = tok.encode_with_offsets("", backend=backend)
    assert found.ids.shape == (0,) and found.offsets.shape == found.byte_offsets.shape == (0, 2)


@backends
def test_results_are_typed_and_the_callers_own(backend: str) -> None:
    tok = engine("qwen3")
    right = reference("qwen3").encode(LONG).ids
    for text, ids in (("hello", reference("qwen3").encode("hello").ids), (LONG, right)):
        for _ in range(3):
            found = tok.encode_to_numpy(text, backend=backend)
            assert found.dtype == np.uint32 and found.tolist() == ids
            assert found.flags.writeable and found.flags.c_contiguous
            found[:] = 0
            batch = tok.encode_batch_to_numpy([text, text, "x"], backend=backend)
            assert batch[0].tolist() == batch[1].tolist() == ids
            batch[0][:] = 0
            assert batch[1].tolist() == ids
            offsets = tok.encode_with_offsets(text, backend=backend)
            assert offsets.ids.dtype == np.uint32
            assert offsets.offsets.dtype == offsets.byte_offsets.dtype == np.int64
            if offsets.offsets.flags.writeable:
                offsets.offsets[:] = 0
            offsets.ids[:] = 0
            lists = tok.encode(text, backend=backend)
            assert type(lists) is list and all(type(id) is int for id in lists)
            lists.clear()


def test_a_subclass_of_str() -> None:
    class Text(str):
        pass

    for backend in ALL:
        for text in (Text("hello <|im_end|> wörld"), Text("e\u0301"), Text(""), Text("x"), Text(LONG)):
            assert engine("qwen3").encode(text, backend=backend) == reference("qwen3").encode(str(text)).ids
            assert engine("qwen3").count(text, backend=backend) == len(reference("qwen3").encode(str(text)).ids)


def test_the_same_every_time(embedded: str) -> None:
    tok = engine(embedded)
    for backend in ALL:
        assert len({tuple(tok.encode(LONG, backend=backend)) for _ in range(3)}) == 1
    assert len({tuple(tok.encode(LONG, threads=n)) for n in (None, 1, 2, 7)}) == 1


# --- errors ----------------------------------------------------------------------------------


@methods
@backends
@pytest.mark.parametrize(
    "bad", [b"bytes", bytearray(b"x"), None, 3, ["a"], memoryview(b"x")], ids=lambda bad: type(bad).__name__
)
def test_no_text(method: str, backend: str, bad: Any) -> None:
    with pytest.raises(TextTypeError, match="str") as caught:
        METHODS[method](engine("gpt2"), bad, backend=backend)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, TokTierError)
    if isinstance(bad, bytes):
        assert "decode" in str(caught.value)


def test_one_text_is_no_batch() -> None:
    for one in ("text", b"bytes"):
        with pytest.raises(TextTypeError, match="list"):
            engine("gpt2").encode_batch(one)  # type: ignore[arg-type]
    with pytest.raises(TextTypeError, match="not NoneType"):
        engine("gpt2").encode_batch(None)  # type: ignore[arg-type]


@methods
@backends
@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("ok\ud800bad", 2),
        ("\udfff", 0),
        ("中\udc80\ud800", 1),
        ("<|im_end|>\ud83d", 10),
        ("e\u0301" * 9 + "\udbff", 18),
        ("x" * 9_000 + "\ud83d \ude00", 9_000),
        ("y\U0001f600\ude00", 2),
    ],
)
def test_lone_surrogate(method: str, backend: str, text: str, index: int) -> None:
    for special in ("encode", "text"):
        with pytest.raises(LoneSurrogateError, match=f"index {index}") as caught:
            METHODS[method](engine("qwen3"), text, backend=backend, special=special)
        assert caught.value.index == index and isinstance(caught.value, ValueError)


@methods
@backends
def test_special_tokens_refused(method: str, backend: str) -> None:
    text = "e\u0301 user: <|im_end|><tool_call>\n<|im_start|>system"
    with pytest.raises(SpecialTokenError, match="im_end") as caught:
        METHODS[method](engine("qwen3"), text, backend=backend, special="raise")
    assert (caught.value.token, caught.value.index) == ("<|im_end|>", text.index("<|im_end|>"))
    fine = "e\u0301 <tool_call> <|im_en"  # an added token, but no special one
    METHODS[method](engine("qwen3"), fine, backend=backend, special="raise")


@pytest.mark.parametrize("name", tokenizers("bert_uncased", "llama2"))
def test_special_tokens_refused_by_others(name: str) -> None:
    token = "[SEP]" if name == "bert_uncased" else "</s>"
    with pytest.raises(SpecialTokenError) as caught:
        engine(name).encode(f"hello {token} x", special="raise")
    assert caught.value.token == token
    assert engine(name).encode("hello x", special="raise") == reference(name).encode("hello x").ids


@pytest.mark.parametrize("name", tokenizers("bert_uncased", "xlm_roberta"))
def test_ids_of_special_tokens_that_are_not_in_the_text(name: str) -> None:
    """The model gives the unknown token's id for what it does not know: nobody wrote that token."""
    tok, unknown = engine(name), "\u0378 É"
    assert tok.encode(unknown, special="raise") == tok.reference().encode(unknown).ids
    for times in (1, 1_000):  # one artifact truncates to 128 ids
        text = f"{unknown} " * times + "[MASK] <mask>"
        token = "[MASK]" if name == "bert_uncased" else "<mask>"
        with pytest.raises(SpecialTokenError) as caught:
            tok.encode(text, special="raise")
        assert caught.value.token == token
        assert text[caught.value.index :].lstrip().startswith(token)  # one takes the white space before it along


def test_a_special_token_far_into_a_text() -> None:
    text = "hello there " * 40_000 + "<|im_end|>"
    for options in ({}, {"max_length": 5}, {"backend": "python"}):
        with pytest.raises(SpecialTokenError) as caught:
            engine("qwen3").encode(text, special="raise", **options)
        assert caught.value.index == text.index("<")


BAD_OPTIONS: dict[str, tuple[Any, ...]] = {
    "special": ("ignore", None, True),
    "max_length": (-1, 2.0, "3", 1 << 64, True),
    "threads": (0, -1, 1.5, "2"),
    "limit": (-1, 1.5, "3"),
}


@methods
@pytest.mark.parametrize("name", ["gpt2", *tokenizers("bert_uncased")])
def test_bad_options(method: str, name: str) -> None:
    taken = {"special", "max_length", "threads"}
    if method == "count":
        taken = {"special", "threads", "limit"}
    elif method in ("encode_with_offsets", "module"):
        taken = {"special", "max_length"}
    for option in sorted(taken):
        for value in BAD_OPTIONS[option]:
            with pytest.raises(OptionError, match=option):
                METHODS[method](engine(name), "some text", **{option: value})


@methods
def test_unknown_backend(method: str) -> None:
    with pytest.raises(UnknownBackendError, match="python, numpy") as caught:
        METHODS[method](engine("gpt2"), "text", backend="cuda")
    assert isinstance(caught.value, LookupError)


def test_unknown_backend_at_load() -> None:
    with pytest.raises(UnknownBackendError):
        toktier.load("gpt2", "rust")


def test_a_backend_that_cannot() -> None:
    made = Artifact.from_bytes(small.only_the_reference(), "made")
    for backend in ENGINES:
        with pytest.raises(BackendUnsupportedError, match="no token for some bytes"):
            Tokenizer(made).encode("text", backend=backend)
        with pytest.raises(BackendUnsupportedError, match="no token for some bytes"):
            Tokenizer(made, backend)
    with pytest.raises(BackendUnsupportedError, match="no token for some bytes"):
        Tokenizer(made).piece_starts("text")
    with pytest.raises(BackendUnsupportedError, match="numpy"):
        engine("gpt2").piece_starts("text", backend="reference")


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_what_is_wrong_in_a_batch_is_told_by_number(backend: str) -> None:
    tok, fine = engine("qwen3"), ["fine"] * 5
    with pytest.raises(TextTypeError, match="text number 5"):
        tok.encode_batch([*fine, None], backend=backend)  # type: ignore[list-item]
    with pytest.raises(LoneSurrogateError, match="index 1 of text number 5"):
        tok.encode_batch([*fine, "a\ud800"], backend=backend)
    with pytest.raises(SpecialTokenError, match="text number 5"):
        tok.encode_batch([*fine, "<|im_end|>"], special="raise", backend=backend)


def test_a_second_text_is_no_flag() -> None:
    """As which the reference's ``encode`` takes it."""
    tok = engine("gpt2")
    for call in (tok.encode, tok.encode_to_numpy, tok.encode_with_offsets):
        with pytest.raises(OptionError, match=r"add_special_tokens .* call twice"):
            call("a", "b")  # type: ignore[arg-type]
        with pytest.raises(OptionError, match=r"add_special_tokens .* not None$"):
            call("a", None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"add_special_tokens .* call twice"):
        tok.encode_batch(["a"], ["b"])  # type: ignore[arg-type]


def test_the_reference_may_be_changed() -> None:
    limits = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padding = {"strategy": {"Fixed": 6}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    document = small.document(truncation=limits, padding=padding)
    tok = Tokenizer(Artifact.from_bytes(json.dumps(document).encode(), "made"))
    right = small.build(document).encode("abc abc abc").ids
    tok.reference().no_truncation()
    tok.reference().no_padding()
    assert len(tok.reference().encode("abc abc abc").ids) > len(right)
    for backend in tok.backends:
        assert tok.encode("abc abc abc", backend=backend) == right
    assert tok.encode_with_offsets("abc abc abc").ids.tolist() == right
    assert "truncates to 4 tokens" in str(tok.explain()) and "pads to 6 tokens" in str(tok.explain())
    assert engine("gpt2").explain().limits == ""


def test_unknown_tokenizer() -> None:
    with pytest.raises(UnknownTokenizerError, match="gpt2"):
        toktier.encode("text", "gpt3")


def test_an_error_leaves_nothing_behind() -> None:
    tok = engine("qwen3")
    right = reference("qwen3").encode(TEXT).ids
    for backend in ALL:
        for bad in ("\ud800" + LONG, LONG + "\ud800"):
            with pytest.raises(LoneSurrogateError):
                tok.encode(bad, backend=backend)
        assert tok.encode(TEXT, backend=backend) == right


# --- options of one call ------------------------------------------------------------------------


@backends
def test_options_do_not_stick(backend: str) -> None:
    name = "qwen3"
    tok, judge = engine(name), reference(name)
    text = "a <|im_end|> b"
    whole = judge.encode(text).ids
    options: list[dict[str, Any]] = [
        {"max_length": 1},
        {"special": "text"},
        {"special": "text", "max_length": 2},
        {"add_special_tokens": False},
        {"threads": 2},
    ]
    for option in options:
        first = tok.encode(text, backend=backend, **option)
        assert tok.encode(text, backend=backend) == whole
        assert tok.encode_batch([text], backend=backend) == [whole]
        assert tok.encode_with_offsets(text, backend=backend).ids.tolist() == whole
        assert tok.encode(text, backend=backend, **option) == first
    assert tok.reference().truncation is None
    assert tok.encode(text, special="text", backend=backend) != whole


def test_a_tokenizer_says_what_it_is() -> None:
    tok = Tokenizer(artifact("gpt2"))
    assert tok.fingerprint == artifact("gpt2").fingerprint
    assert tok.name == "gpt2" and "gpt2" in repr(tok)
    assert tok.backends == ("reference", *ENGINES)
    assert tok.vocab_size == reference("gpt2").get_vocab_size()
    assert "atoms" in str(tok.explain())


def test_objects_name_themselves() -> None:
    tok = Tokenizer(artifact("gpt2"))
    stream = tok.stream_encoder()
    stream.feed("Hel")
    assert repr(stream) == "<toktier.StreamEncoder gpt2 3 characters pending>"
    assert repr(tok.stream_decoder()) == "<toktier.StreamDecoder>"
    store = toktier.SessionStore()
    assert repr(store) == "<toktier.SessionStore 0 sessions, 0 bytes>"
    store.encode(tok, "Hello", "a")
    assert repr(store).startswith("<toktier.SessionStore 1 session, ")
    store.close()
    assert repr(store) == "<toktier.SessionStore closed>"


# --- other processes ------------------------------------------------------------------------------


def _encode_in_child(tok: Tokenizer, text: str) -> list[list[int]]:
    return [tok.encode(text, backend=backend) for backend in ("python", "numpy")]


def test_pickling() -> None:
    for backend in ("auto", "numpy"):
        tok = toktier.load("gpt2", backend)
        again = pickle.loads(pickle.dumps(tok))
        assert again.fingerprint == tok.fingerprint and again.backend == backend
        assert again.encode(LONG) == tok.encode(LONG)
    from_bytes = Tokenizer(toktier.artifact.Artifact.from_bytes(artifact("gpt2").read(), "mine"))
    assert pickle.loads(pickle.dumps(from_bytes)).encode(TEXT) == reference("gpt2").encode(TEXT).ids


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("start", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_multiprocessing(start: str) -> None:
    tok = engine("gpt2")
    right = reference("gpt2").encode(LONG).ids
    tok.encode(LONG)
    with multiprocessing.get_context(start).Pool(1) as pool:
        found = pool.apply_async(_encode_in_child, (tok, LONG)).get(60)
    assert found == [right, right]


# --- a light import ---------------------------------------------------------------------------------

_IMPORT = """
import sys, time
import numpy
before = set(sys.modules)
start = time.process_time()
import toktier
taken = time.process_time() - start
heavy = {"jax", "jaxlib", "tokenizers", "huggingface_hub", "transformers", "regex", "rich", "requests", "httpx"}
loaded = {name.partition(".")[0] for name in sys.modules}
assert not heavy & loaded, heavy & loaded
assert not any(name.startswith("toktier.") and "backends" in name for name in sys.modules)
toktier.embedded_names(), toktier.errors, toktier.__version__
print(taken)
"""


def test_import_is_light() -> None:
    """Under 0.2 s of the processor's time, which does not count what else the machine is doing."""
    run = subprocess.run([sys.executable, "-c", _IMPORT], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 0.2


def test_names_of_the_module() -> None:
    for name in toktier.__all__:
        assert getattr(toktier, name) is not None
    assert set(toktier.__all__) <= {*dir(toktier), *toktier.__all__}
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = toktier.nothing_here


# --- the edges of the reference ---------------------------------------------------------------


def test_a_surrogate_beyond_what_is_needed() -> None:
    """Truncation stops early, but a text that the reference rejects is rejected all the same."""
    tok = toktier.load("gpt2")
    with pytest.raises(errors.LoneSurrogateError) as caught:
        tok.encode("hello " * 5_000 + "\ud800", max_length=3)
    assert caught.value.index == 30_000


def test_a_panic_of_the_reference_is_an_error_of_ours() -> None:
    class PanicException(BaseException):  # the name under which the binding raises panics
        pass

    with pytest.raises(errors.ReferenceFailedError, match="retry-limit"), reference_backend.failures():
        raise PanicException("retry-limit-in-match over")
    with pytest.raises(KeyboardInterrupt), reference_backend.failures():
        raise KeyboardInterrupt


@pytest.mark.parametrize("backend", ["python", "numpy"])
def test_a_piece_that_no_window_suits(backend: str) -> None:
    """One piece of a long period: its windows never fall into step, and the reference encodes it."""
    tok = toktier.load("qwen3")
    text = (" " * 999 + "\n") * 30
    assert tok.encode(text, backend=backend) == tok.reference().encode(text).ids


def test_results_of_a_batch_do_not_share_memory() -> None:
    tok = toktier.load("gpt2")
    found = tok.encode_batch_to_numpy(["some words"] * 3_000)
    assert found[0].base is None or found[0].base.size == found[0].size
    found[0][:] = 0
    assert found[1].tolist() == tok.encode("some words")


def test_a_tokenizer_cannot_be_made_or_changed_by_hand() -> None:
    """`load` gives one object to all who ask for the same file."""
    tok = toktier.load("qwen3")
    with pytest.raises(AttributeError):
        tok.backend = "python"  # type: ignore[misc]
    assert toktier.load("qwen3").backend == "auto"
    with pytest.raises(OptionError, match=r"toktier\.load\('qwen3'\)"):
        toktier.Tokenizer("qwen3")  # type: ignore[arg-type]
