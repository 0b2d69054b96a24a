"""Whatever a caller gives by mistake, an error of our own says so; numpy's integers are no mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from judge import engine

import toktier
from toktier.errors import CheckpointError, OptionError, PositionTypeError, TextTypeError, TokTierError

TOK = engine("qwen3")
TEXT = "Hello world, it's 12345"
MESSAGES = [{"role": "user", "content": "hi"}]

NO_TEXT = [
    None,
    5,
    True,
    1.5,
    b"x",
    bytearray(b"x"),
    "\ud800",
    "a\udfffb",
    ["a"],
    {"a": 1},
    object(),
    np.arange(2),
]
NO_POSITION = [None, 1.5, "1", b"1", [1], np.float32(1), np.arange(2), -1, 10**6, 10**30, np.int64(-1)]
NO_WORD: list[Any] = [None, 5, "", "x", b"encode", ["encode"], {}, np.array(["encode", "text"])]
NO_FLAG = [None, 0, "no", [True], np.array([True])]
NO_NATURAL = [-1, 1.5, "1", [1], np.int64(-1), np.arange(2)]
NO_TOKENIZER = [None, "qwen3", 5, object()]
NOT_MANY = [5, 1.5, object(), "x", b"x"]


def session() -> toktier.Session:
    return TOK.session(TEXT)


def stored() -> Any:
    found = toktier.SessionStore().session(TOK, "a")
    found.update(TEXT)
    return found


CALLS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "session": (TOK.session, NO_TEXT),
    "special of a session": (lambda given: TOK.session(special=given), NO_WORD),
    "strategy": (lambda given: TOK.session(strategy=given), NO_WORD),
    "tokenizer of a session": (toktier.Session, NO_TOKENIZER),
    "append": (lambda given: session().append(given), NO_TEXT),
    "update": (lambda given: session().update(given), NO_TEXT),
    "new of edit": (lambda given: session().edit(0, 1, given), NO_TEXT),
    "start of edit": (lambda given: session().edit(given, 1, ""), NO_POSITION),
    "stop of edit": (lambda given: session().edit(0, given, ""), NO_POSITION),
    "truncate": (lambda given: session().truncate(given), NO_POSITION),
    "start of offsets": (lambda given: session().offsets(given), NO_POSITION),
    "stop of offsets": (lambda given: session().offsets(0, given), NO_POSITION[1:]),
    "restore": (lambda given: session().restore(given), NO_TEXT),
    "from_checkpoint": (lambda given: toktier.Session.from_checkpoint(TOK, given), NO_TEXT),
    "append, stored": (lambda given: stored().append(given), NO_TEXT),
    "edit, stored": (lambda given: stored().edit(given, given, ""), NO_POSITION),
    "restore, stored": (lambda given: stored().restore(given), NO_TEXT),
    "fork, stored": (lambda given: stored().fork(given), [None, 5, b"x"]),
    "store's session": (lambda given: toktier.SessionStore().session(TOK, given), [None, 5, b"x"]),
    "store's tokenizer": (lambda given: toktier.SessionStore().session(given, "a"), NO_TOKENIZER),
    "store's special": (lambda given: toktier.SessionStore().session(TOK, "a", special=given), NO_WORD),
    "store.encode": (lambda given: toktier.SessionStore().encode(TOK, given, "a"), NO_TEXT),
    "store.encode by content": (lambda given: toktier.SessionStore().encode(TOK, given), NO_TEXT),
    "store.encode's tokenizer": (lambda given: toktier.SessionStore().encode(given, TEXT), NO_TOKENIZER),
    "store.encode's special": (lambda given: toktier.SessionStore().encode(TOK, TEXT, special=given), NO_WORD),
    "discard": (lambda given: toktier.SessionStore().discard(given), [None, 5, b"x"]),
    "max_bytes": (lambda given: toktier.SessionStore(max_bytes=given), [None, 0, -1, "1", [1], float("nan")]),
    "ttl": (lambda given: toktier.SessionStore(ttl=given), [0, -1, "1", [1], float("nan")]),
    "clock": (lambda given: toktier.SessionStore(clock=given), [None, 5]),
    "path": (lambda given: toktier.SessionStore(given), [5, b"x", ["x"]]),
    "feed": (lambda given: TOK.stream_encoder().feed(given), NO_TEXT),
    "special of a stream": (lambda given: TOK.stream_encoder(special=given), NO_WORD),
    "backend of a stream": (lambda given: TOK.stream_encoder(backend=given), NO_WORD[1:]),
    "cuts": (TOK.cuts, NO_TEXT),
    "put": (lambda given: TOK.stream_decoder().put(given), [None, 1.5, "1", -1, 2**32, [1]]),
    "decode": (TOK.decode, [None, 5, "1", [1.5], [-1], [2**32], [None], [[1]], np.ones((2, 2), int)]),
    "skip of decode": (lambda given: TOK.decode([1], given), NO_FLAG),
    "skip of decode_batch": (lambda given: TOK.decode_batch([[1]], given), NO_FLAG),
    "skip of decode_bytes": (lambda given: TOK.decode_bytes([1], given), NO_FLAG),
    "skip of stream_decoder": (TOK.stream_decoder, NO_FLAG),
    "closes": (lambda given: TOK.cuts(TEXT, closes=given), NO_FLAG),
    "add_special_tokens": (lambda given: TOK.encode(TEXT, given), NO_FLAG),
    "decode_batch": (TOK.decode_batch, [None, 5, "1", [5], [None]]),
    "encode": (TOK.encode, NO_TEXT),
    "encode_batch": (TOK.encode_batch, [None, *NOT_MANY, [None], [b"x"], ["\ud800"]]),
    "special": (lambda given: TOK.encode(TEXT, special=given), NO_WORD),
    "backend": (lambda given: TOK.encode(TEXT, backend=given), NO_WORD[1:]),
    "threads": (lambda given: TOK.encode(TEXT, threads=given), [0, *NO_NATURAL]),
    "max_length": (lambda given: TOK.encode(TEXT, max_length=given), NO_NATURAL),
    "limit": (lambda given: TOK.count(TEXT, given), NO_NATURAL),
    "threshold": (lambda given: TOK.warmup("numpy", threshold=given), NO_NATURAL),
    "load": (toktier.load, [None, 5, "", "no-such", ["gpt2"]]),
}

CHAT_CALLS: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "special": (lambda given: TOK.chat_session(special=given), NO_WORD),
    "trusted": (lambda given: TOK.chat_session(special="text", trusted=given), [None, 5, "user", [1], [["a"]]]),
    "messages": (lambda given: TOK.chat_session().update(given), [None, [], {}, [None], [5], ["x"], *NOT_MANY]),
    "tools": (lambda given: TOK.chat_session().update(MESSAGES, tools=given), [5, 1.5, "x", [5]]),
    "documents": (lambda given: TOK.chat_session().update(MESSAGES, documents=given), [5, 1.5]),
    "surrogate": (lambda given: TOK.chat_session().update([{"role": "user", "content": given}]), ["\ud800"]),
}


def _raises(call: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(TokTierError) as caught:
        call(wrong)
    assert len(str(caught.value)) > 15


@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_our_own(name: str) -> None:
    call, wrongs = CALLS[name]
    for wrong in wrongs:
        _raises(call, wrong)


@pytest.mark.parametrize("name", CHAT_CALLS)
def test_an_error_of_our_own_in_chats(name: str) -> None:
    pytest.importorskip("jinja2")
    call, wrongs = CHAT_CALLS[name]
    for wrong in wrongs:
        _raises(call, wrong)


def test_a_role_that_is_no_word() -> None:
    pytest.importorskip("jinja2")
    chat = TOK.chat_session(special="text")
    for role in (["user"], {"a": 1}, 5):
        chat.update([{"role": role, "content": "hi"}])
        assert chat.text == TOK.chat_session().render([{"role": role, "content": "hi"}])


def test_what_the_errors_say() -> None:
    with pytest.raises(TextTypeError, match=r"text of a session must be a str, not bytes; decode it first"):
        session().append(b"x")  # type: ignore[arg-type]
    with pytest.raises(PositionTypeError, match=r"start must be an integer, not 1\.5 \(float\)"):
        session().edit(1.5, 2, "")  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"what its checkpoint\(\) gave, not to str"):
        session().restore("x")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"what toktier\.load gives, not str"):
        toktier.SessionStore().session("qwen3", "a")  # type: ignore[arg-type]


def test_one_is_not_many() -> None:
    assert repr(TOK.session("a")) == "<toktier.Session qwen3 1 character, 1 id>"
    assert repr(TOK.session("a b")) == "<toktier.Session qwen3 3 characters, 2 ids>"


def test_integers_of_numpy() -> None:
    a, b = np.int64(2), np.uint8(5)
    here = session()
    here.edit(a, b, "")
    here.truncate(np.uint32(9))
    assert here.text == (TEXT[:2] + TEXT[5:])[:9]
    assert np.array_equal(here.offsets(np.int32(0), np.int64(1)), here.offsets(0, 1))
    expected = TOK.encode(TEXT)
    assert TOK.count(TEXT, np.int64(3)) == 4  # type: ignore[arg-type]
    for most in (np.uint64(2**63 + 1), np.int8(127)):
        assert TOK.encode(TEXT, max_length=most, threads=np.int64(1)) == expected  # type: ignore[arg-type]
    assert TOK.decode(np.array(expected, np.int16 if max(expected) < 2**15 else np.int64)) == TEXT


class Odd(str):
    """A text with operations of its own; Markup's, for one, escape what it is added to."""


def refuse(*arguments: object, **options: object) -> Any:
    raise AssertionError("nobody has to do with this text but through str")


_BASIC = ("__new__", "__init__", "__class__", "__getattribute__", "__hash__", "__repr__", "__init_subclass__")
for _name in set(vars(str)) - {*_BASIC, "__doc__"}:
    setattr(Odd, _name, refuse)


@pytest.mark.parametrize("text", ["a <b> & e\u0301 <|im_end|>", "it's <1> " * 3_000], ids=["short", "long"])
def test_a_text_is_its_characters_whatever_its_class(text: str) -> None:
    odd, right = Odd(text), TOK.encode(text)
    assert TOK.encode(odd) == right and TOK.encode_batch([odd, odd]) == [right] * 2
    assert TOK.encode_with_offsets(odd).ids.tolist() == right and TOK.count(odd) == len(right)
    assert TOK.cuts(odd).tolist() == TOK.cuts(text).tolist()
    assert TOK.pieces(odd) == TOK.pieces(text)
    for special in ("encode", "text"):
        session = TOK.session(odd, special=special)
        session.append(odd)
        session.edit(3, 9, odd)
        session.update(session.text + "!")
        session.append(" <")
        plain = text[:3] + text + (text + text)[9:] + "! <"
        assert session.text == plain and type(session.text) is str
        assert session.ids.tolist() == TOK.encode(plain, special=special)
        assert not session.update(Odd(plain)).removed
    store = toktier.SessionStore()
    assert store.encode(TOK, odd).tolist() == store.encode(TOK, odd, Odd("a")).tolist() == right
    assert store.session(TOK, "a").text == text and store.discard("a")
    stream = TOK.stream_encoder()
    found = [*stream.feed("1 <"), *stream.feed(odd), *stream.feed("2"), *stream.flush()]
    assert found == TOK.encode("1 <" + text + "2")
