"""What of all but the kernels depends on the version of JAX."""

from __future__ import annotations

import jax

#: ``(0, 10, 2)``, say.
VERSION: tuple[int, ...] = jax.__version_info__

#: Compiler options for a CPU.  There, XLA drops the barriers of :func:`.bits.once` before it fuses, and look-ups
#: are done many times over; from JAX 0.12 on it cannot compile what keeps them.
CPU_OPTIONS: dict[str, str | bool] = (
    {"xla_disable_hlo_passes": "cse_barrier_expander"} if VERSION < (0, 12) else {}
)
