"""Everything that moves between the device and the host.

Nothing else in this package transfers anything, so that what a request costs can be counted here.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax

T = TypeVar("T")


def accelerated() -> bool:
    """Whether the default device is more than the processor."""
    return bool(jax.default_backend() != "cpu")


def to_device(values: T) -> T:
    """Arrays, or a structure of them, in the default device's memory."""
    moved: T = jax.device_put(values)
    return moved


def to_host(values: Any) -> Any:
    """Device arrays as numpy arrays, all at once; waits until they are there."""
    return jax.device_get(values)
