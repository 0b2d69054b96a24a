"""Each stage of the ``jax`` backend against its twin in numpy."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")

from toktier.backends.jax import bits  # noqa: E402


@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 0.97, 1.0])
@pytest.mark.parametrize("size", [32, 2048])
def test_bits(density: float, size: int) -> None:
    random = np.random.default_rng(size)
    marks = random.random(size) < density
    places = np.flatnonzero(marks)
    found = bits.bits(jax.numpy.asarray(marks))
    assert int(found.count) == len(places)
    numbers = np.arange(size, dtype=np.int32)
    expected = np.append(places, np.full(size - len(places), size))
    assert (np.asarray(found.select(numbers)) == expected).all()
    before = np.searchsorted(places, numbers, side="right")
    assert (np.asarray(bits.last_at(found.words, numbers)) == np.append(-1, places)[before]).all()
    assert (np.asarray(bits.first_after(found.words, numbers)) == np.append(places, size)[before]).all()


@pytest.mark.parametrize("density", [0.0, 0.01, 0.1, 0.5, 1.0])
def test_first_of_stretches(density: float) -> None:
    random = np.random.default_rng(1)
    size = 4096
    marks, cuts = random.random(size) < density, random.random(size) < 0.05
    expected = np.zeros(size, np.bool_)
    seen = False
    for place in range(size):
        seen &= not cuts[place]
        expected[place] = marks[place] and not seen
        seen |= marks[place]
    found = bits.first_of_stretches(bits.pack(jax.numpy.asarray(marks)), bits.pack(jax.numpy.asarray(cuts)))
    assert (np.asarray(found) == np.asarray(bits.pack(jax.numpy.asarray(expected)))).all()
