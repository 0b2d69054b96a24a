"""Everything that moves between the device and the host.

Nothing else in this package transfers anything, so that what a request costs can be counted here.
"""

from __future__ import annotations

from typing import Any, TypeVar

import jax

T = TypeVar("T")


def platform() -> str:
    """What the default device is: ``"cpu"``, ``"gpu"`` or ``"tpu"``, say; RuntimeError if there is none."""
    return str(jax.default_backend())


def to_device(values: T) -> T:
    """Arrays, or a structure of them, in the default device's memory."""
    moved: T = jax.device_put(values)
    return moved


def to_host(values: Any) -> Any:
    """Device arrays as numpy arrays, all at once; waits until they are there."""
    return jax.device_get(values)
