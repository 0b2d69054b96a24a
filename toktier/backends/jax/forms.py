"""The quick check of a Unicode form on the device: which characters it may change, or make change another.

The reference's tables decide (:func:`~toktier.normalization.inert_table`).  A text without such characters is in
normal form; what becomes of the others is the host's matter (:mod:`.unchecked`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .tables import Array, take
from .utf8 import Characters


def active_table(inert: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """A bit for each code point, uint32 (0x110000 // 32,), of those that are not inert."""
    found: NDArray[np.uint32] = np.packbits(~inert, bitorder="little").view(np.uint32)
    return found


def active(characters: Characters, table: Array) -> jax.Array:
    """The bytes at which characters begin that are not inert, bool."""
    word = take(table, characters.point >> 5)
    return characters.first & (word >> (characters.point & 31).astype(jnp.uint32) & 1 != 0)
