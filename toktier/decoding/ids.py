"""Token ids as they come from a caller."""

from __future__ import annotations

import operator
from array import array as machine_array
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import TokenIdError

Ids: TypeAlias = Iterable[int] | NDArray[np.integer]


def check_id(value: Any, index: int | None = None) -> int:
    """``value`` as an int; :class:`~toktier.errors.TokenIdError` if it is no unsigned 32-bit integer."""
    where = "" if index is None else f" at index {index}"
    try:
        number = operator.index(value)
    except TypeError:
        raise TokenIdError(
            f"a token id must be an integer, but {value!r}{where} is of type {type(value).__name__}"
        ) from None
    if not 0 <= number < 2**32:
        raise TokenIdError(f"a token id must be between 0 and 2**32 - 1, but {number}{where} is not")
    return number


def check_ids(ids: Ids) -> NDArray[np.uint32]:
    """``ids`` as a uint32 array of shape (n,).

    Raises :class:`~toktier.errors.TokenIdError` for values that are not unsigned 32-bit
    integers, with the index of the first.
    """
    if not isinstance(ids, np.ndarray):
        return np.asarray(_machine_words(ids)).view(np.uint32)
    array: NDArray[Any] = ids
    if array.ndim != 1:
        raise TokenIdError(f"ids must be a flat sequence, but the array has {array.ndim} dimensions")
    if array.dtype == np.uint32:
        return array.view(np.uint32)
    if not array.size:
        return np.empty(0, np.uint32)
    if array.dtype.kind not in "iu":
        raise TokenIdError(f"token ids must be integers, not {array.dtype}")
    if int(array.min()) < 0 or int(array.max()) >= 2**32:
        for index, value in enumerate(array.tolist()):
            check_id(value, index)
    return array.astype(np.uint32)


def list_of_ids(ids: Ids) -> list[int]:
    """``ids`` as a list of integers, checked as by :func:`check_ids`, at less cost if there are few."""
    return check_ids(ids).tolist() if isinstance(ids, np.ndarray) else _machine_words(ids).tolist()


def _machine_words(ids: Iterable[int]) -> machine_array[int]:
    values = ids if isinstance(ids, (list, tuple)) else _listed(ids)
    try:
        return machine_array("I", values)  # refuses what is no unsigned 32-bit integer
    except (TypeError, OverflowError):
        return machine_array("I", [check_id(value, index) for index, value in enumerate(values)])


def _listed(ids: Iterable[int]) -> list[int]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise TokenIdError(f"ids must be a sequence of integers, not {type(ids).__name__}")
    return list(ids)
