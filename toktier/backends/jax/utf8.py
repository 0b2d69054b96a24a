"""UTF-8 on the device, by shifted slices: every byte looks at its neighbours, and none at the whole text.

Two bytes that UTF-8 never has stand for what is no text: :data:`ADDED` for a whole added token, :data:`PADDING`
for what lies behind the end.  Everything here works along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

ADDED, PADDING = 0xFF, 0xFE


@dataclass(frozen=True)
class Characters:
    """A text, byte by byte.

    ``first``: bool, a character begins here (or an added token, or padding); ``point``: int32, its code point,
    where one does, and 0 for what is no text; ``size``: int32, its number of bytes.
    """

    first: jax.Array
    point: jax.Array
    size: jax.Array


def decode(data: jax.Array) -> Characters:
    """The characters of valid UTF-8, uint8."""
    byte = data.astype(jnp.int32)
    one, two, three = (ahead(byte, k, 0) & 0x3F for k in (1, 2, 3))
    size = 1 + (byte >= 0xC0).astype(jnp.int32) + (byte >= 0xE0) + (byte >= 0xF0)
    point = jnp.where(size == 1, byte, (byte & 0x1F) << 6 | one)
    point = jnp.where(size == 3, (byte & 0x0F) << 12 | one << 6 | two, point)
    point = jnp.where(size == 4, (byte & 0x07) << 18 | one << 12 | two << 6 | three, point)
    text = byte < PADDING
    return Characters(byte & 0xC0 != 0x80, jnp.where(text, point, 0), jnp.where(text, size, 1))


def ahead(values: jax.Array, distance: int, filler: int) -> jax.Array:
    """What stands so many places further on; ``filler`` beyond the end."""
    width = [(0, 0)] * (values.ndim - 1) + [(0, distance)]
    return jnp.pad(values[..., distance:], width, constant_values=filler)


def behind(values: jax.Array, distance: int, filler: int) -> jax.Array:
    """What stands so many places before; ``filler`` before the beginning."""
    width = [(0, 0)] * (values.ndim - 1) + [(distance, 0)]
    return jnp.pad(values[..., :-distance], width, constant_values=filler)


def of_character(first: jax.Array, values: jax.Array) -> jax.Array:
    """``values`` of the bytes at which characters begin, for all of their bytes."""
    found = behind(values, 3, 0)
    for distance in (2, 1):
        found = jnp.where(behind(first, distance, 0), behind(values, distance, 0), found)
    return jnp.where(first, values, found)


def of_next(size: jax.Array, values: jax.Array, filler: int) -> jax.Array:
    """For the byte at which a character begins, the value at which the next one does."""
    found = ahead(values, 1, filler)
    for distance in (2, 3, 4):
        found = jnp.where(size == distance, ahead(values, distance, filler), found)
    return found


def of_previous(first: jax.Array, values: jax.Array, filler: int) -> jax.Array:
    """For the byte at which a character begins, the value at which the one before does."""
    found = behind(values, 4, filler)
    for distance in (3, 2, 1):
        found = jnp.where(behind(first, distance, 0), behind(values, distance, filler), found)
    return found
