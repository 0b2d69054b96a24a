"""Inputs of the command line: text and token ids, from files or standard input."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidUTF8Error, TokenIdError
from . import say

Result = TypeVar("Result")

#: The name that means standard input.
STANDARD_INPUT = "-"

_BLOCK = 1 << 20
_LONGEST_ID = len(str(2**32))
_SEPARATORS = b" \t\r\n\v\f,[]"
_TO_SPACES = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_WORD = re.compile(rb"[^ \t\r\n\v\f,\[\]]+")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class UnreadableError(Exception):
    """An input cannot be opened or read."""


class NoSuchFileError(UnreadableError):
    """There is nothing of this name."""


def shown_name(name: str) -> str:
    """What an input is called in messages."""
    return "standard input" if name == STANDARD_INPUT else name


def read_text(name: str) -> str:
    """The text of a file, exactly: no newline is translated, and a byte order mark is kept.

    Raises :class:`~toktier.errors.InvalidUTF8Error`, with the offset of the first bad byte, or
    :class:`UnreadableError`.
    """
    with _opened(name) as file:
        return decode_text(_read(file.read))


def decode_text(data: bytes) -> str:
    """``data`` as text, if it is UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        start = problem.start
        guess = "UTF-16" if data.startswith(_UTF16) else "WINDOWS-1252"
        raise InvalidUTF8Error(
            f"not UTF-8: byte 0x{data[start]:02x} at offset {start} ({problem.reason}); convert it first, for "
            f"example with: iconv -f {guess} -t UTF-8",
            start,
        ) from None


def read_ids(name: str) -> Iterator[NDArray[np.uint32]]:
    """The token ids of a file, block by block, as they arrive; see :func:`parse_ids`.

    Raises :class:`UnreadableError` if it cannot be read.
    """
    with _opened(name) as file:
        yield from parse_ids(iter(lambda: _read(lambda: file.read1(_BLOCK)), b""))


def parse_ids(blocks: Iterable[bytes]) -> Iterator[NDArray[np.uint32]]:
    """Token ids written in decimal, separated by white space or commas, in brackets or not.

    Brackets are those of JSON lists; they must be paired, and not nested.  Raises
    :class:`~toktier.errors.TokenIdError` with the line for anything else.
    """
    line, rest, open = 1, b"", False
    for block in blocks:
        data = rest + block
        # A number may go on in the next block.
        cut = max(map(data.rfind, (bytes([s]) for s in _SEPARATORS))) + 1
        data, rest = data[:cut], data[cut:]
        if len(rest) > _BLOCK:
            raise _not_an_id(rest, line + data.count(b"\n"))
        ids, open = _parse(data, line, open)
        line += data.count(b"\n")
        yield ids
    ids, open = _parse(rest, line, open)
    yield ids
    if open:
        raise TokenIdError(f"line {line}: the list that '[' begins has no ']'; the input seems to be cut off")


def _parse(data: bytes, line: int, open: bool) -> tuple[NDArray[np.uint32], bool]:
    words = data.translate(_TO_SPACES).split()
    if data.translate(None, b"0123456789" + _SEPARATORS) or max(map(len, words), default=0) > _LONGEST_ID:
        _complain(data, line)
    values = np.array(list(map(int, words)), np.int64)
    if values.size and values.max() >= 2**32:
        _complain(data, line)
    if b"[" in data or b"]" in data:
        for match in re.finditer(rb"[\[\]]", data):
            if (match[0] == b"[") == open:
                at = line + data.count(b"\n", 0, match.start())
                raise TokenIdError(f"line {at}: '{match[0].decode()}' is out of place; give one flat list of ids")
            open = not open
    return values.astype(np.uint32), open


def _complain(data: bytes, line: int) -> NoReturn:
    """Raise for the first word that is no id."""
    for match in _WORD.finditer(data):
        word = match[0]
        if not word.isdigit() or len(word) > _LONGEST_ID or int(word) >= 2**32:
            raise _not_an_id(word, line + data.count(b"\n", 0, match.start()))
    raise AssertionError("called for words that are all ids")


def _not_an_id(word: bytes, line: int) -> TokenIdError:
    shown = word[:40].decode("utf-8", "backslashreplace") + ("..." if len(word) > 40 else "")
    if word.startswith(b"{"):
        advice = "for the output of `toktier encode --json`, pick out the ids first, for example with: jq -c .ids"
    elif word.isdigit():
        advice = "ids are below 4294967296"
    else:
        advice = "ids are whole numbers, separated by white space or commas"
    return TokenIdError(f"line {line}: {shown!r} is not a token id; {advice}")


def _opened(name: str) -> AbstractContextManager[Any]:
    if name != STANDARD_INPUT:
        return _read(lambda: open(name, "rb"))
    if sys.stdin is None:
        raise UnreadableError("it is closed; name a file")
    if sys.stdin.isatty():
        say("toktier: reading from the terminal; end with Ctrl-D on a line of its own")
    return nullcontext(sys.stdin.buffer)


def _read(action: Callable[[], Result]) -> Result:
    """Do ``action``, so that its ``OSError`` cannot be taken for one of the output."""
    try:
        return action()
    except IsADirectoryError:
        raise UnreadableError("is a directory; name the files in it") from None
    except FileNotFoundError as problem:
        raise NoSuchFileError(problem.strerror) from None
    except (OSError, ValueError) as problem:  # ValueError: a NUL in a name
        if getattr(problem, "errno", None) == errno.ENAMETOOLONG:
            raise NoSuchFileError(getattr(problem, "strerror", None)) from None
        raise UnreadableError(getattr(problem, "strerror", None) or str(problem)) from None
