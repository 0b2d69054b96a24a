"""Compiler options for what is compiled to run for a moment: XLA takes most of its time to make it fast."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")


def _if_known(options: dict[str, int | bool]) -> dict[str, int | bool]:
    """None of them where this version of XLA lacks one: they change how long a test takes, and nothing else."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(1)
    except jax.errors.JaxRuntimeError:
        return {}
    return options


#: No optimization by LLVM, and XLA's older emitters: all of the backend compiles in a fifth of the time.
UNOPTIMIZED = _if_known({"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False})
