"""What the ``jax`` backend could run on."""

from __future__ import annotations

from types import ModuleType

from ..errors import MissingDependencyError
from ..records import record


@record
class Device:
    """``platform``: ``"cpu"``, ``"gpu"`` or ``"tpu"``; ``kind``: what it calls itself; ``default``: it is used."""

    platform: str
    kind: str
    default: bool


def import_jax() -> ModuleType:
    """JAX, or :class:`~toktier.errors.MissingDependencyError`."""
    try:
        import jax
    except ImportError as problem:
        raise MissingDependencyError(
            f"the jax backend needs JAX, which cannot be imported ({problem}): "
            'pip install "toktier-jax[jax]", or "toktier-jax[cuda12]" or "toktier-jax[cuda13]" for an NVIDIA GPU'
        ) from problem
    return jax


def devices() -> tuple[Device, ...]:
    """See :func:`toktier.devices`."""
    found = import_jax().devices()
    return tuple(Device(device.platform, device.device_kind, device == found[0]) for device in found)
