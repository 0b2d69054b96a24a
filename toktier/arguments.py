"""Checks of what callers give, with errors that say what was wrong and what to do."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any

import numpy as np

from .errors import OptionError, PositionTypeError, TextTypeError


def plain_text(text: object, what: str = "the text") -> str:
    """``text`` as a ``str`` proper: a subclass may do as it likes, and Markup escapes what it is added to.

    Raises :class:`~toktier.errors.TextTypeError` if it is none.
    """
    if not isinstance(text, str):
        hint = "; decode it first: text.decode('utf-8')" if isinstance(text, bytes | bytearray) else ""
        raise TextTypeError(f"{what} must be a str, not {type(text).__name__}{hint}")
    return text if type(text) is str else str.__str__(text)


def is_one_of(value: object, values: Collection[str]) -> bool:
    """Whether ``value`` is one of some words; an array is not, nor what cannot be compared."""
    return isinstance(value, str) and value in values


def check_special(special: object) -> None:
    """Raise :class:`~toktier.errors.OptionError` for what says nothing about special tokens."""
    if not is_one_of(special, ("encode", "text", "raise")):
        raise OptionError(f'special must be "encode", "text" or "raise", not {special!r}')


def check_flag(name: str, value: object, hint: str = "") -> bool:
    """An option that is on or off; :class:`~toktier.errors.OptionError` for anything but a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise OptionError(f"{name} must be True or False, not {value!r}{hint}")
    return bool(value)


def position(value: Any, what: str) -> int:
    """``value`` as an integer, for which numpy's integers may stand too.

    Raises :class:`~toktier.errors.PositionTypeError` if it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise PositionTypeError(f"{what} must be an integer, not {value!r} ({type(value).__name__})") from None


def check_natural(name: str, value: Any, least: int = 0) -> int | None:
    """An option that is an integer of at least ``least``, as an ``int``, or None.

    Raises :class:`~toktier.errors.OptionError` if it is neither.
    """
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise OptionError(f"{name} must be an integer of at least {least}, or None, but is {value!r}")
    return number


def check_tokenizer(tokenizer: object) -> None:
    """Raise :class:`~toktier.errors.OptionError` unless it is a :class:`~toktier.Tokenizer`."""
    from .tokenizer import Tokenizer

    if not isinstance(tokenizer, Tokenizer):
        raise OptionError(f"tokenizer must be what toktier.load gives, not {type(tokenizer).__name__}")
