"""Compiling for a GPU on a machine that has none: what XLA and Triton make of a function, read from XLA's dumps.

A test module offers a function of ``shape`` (dimensions and dtype to a stand-in for an array) that yields names,
jitted functions and their arguments; :func:`programs` compiles them in a process of its own, since XLA reads its
flags once.  It takes the two wheels of the plugin for CUDA 12 or 13, of the version of jaxlib, and the wheel with
``ptxas`` (``nvidia-cuda-nvcc-cu12``, or ``nvidia-cuda-nvcc`` for 13), all installed with ``--no-deps``.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

#: What a test module offers.
Build: TypeAlias = Callable[[Callable[..., Any]], Iterator[tuple[str, Any, tuple[Any, ...]]]]

#: An H200, as XLA describes one.
_DEVICE = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  core_count: 132  fpus_per_core: 128
  shared_memory_per_block: 49152  shared_memory_per_core: 233472  shared_memory_per_block_optin: 232448
  threads_per_core_limit: 2048  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000  l2_cache_size: 52428800  clock_rate_ghz: 1.98
  device_memory_size: 150000000000  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 7 }
device_description_str: "NVIDIA H200"
"""


@dataclass(frozen=True)
class Kernel:
    """What ``ptxas`` reports of a kernel: a thread's registers, and the bytes it stores because they ran out."""

    registers: int
    spilled: int


@dataclass(frozen=True)
class Program:
    """A compiled function.

    ``launches``: the names of what it starts, in order; ``outside``: those of them that no command buffer holds;
    ``command_buffers``: how many of those there are.  ``ptx``: the assembly of its kernels, by file.
    """

    launches: tuple[str, ...]
    outside: tuple[str, ...]
    command_buffers: int
    ptx: tuple[str, ...]

    def kernel(self, name: str) -> Kernel:
        """What ``ptxas`` says of the kernel."""
        [text] = [text for text in self.ptx if f".entry {name}(" in text]
        ptxas = _ptxas()
        assert ptxas is not None  # as :func:`missing` says
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "kernel.ptx")
            file.write_text(text)
            command = [ptxas, "-arch=sm_90a", "-v", str(file), "-o", os.devnull]
            report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
        return Kernel(
            *(int(re.findall(pattern, report)[-1]) for pattern in (r"Used (\d+) reg", r"(\d+) bytes spill st"))
        )


def missing() -> str | None:
    """Why nothing can be compiled for a GPU here."""
    try:
        wanted = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        return "jaxlib is not installed"
    found = {}
    for plugin in ("jax-cuda12", "jax-cuda13"):
        with suppress(metadata.PackageNotFoundError):
            found[plugin] = {metadata.version(f"{plugin}-{part}") for part in ("plugin", "pjrt")}
    if {wanted} not in found.values():
        return f"jaxlib is {wanted}, its CUDA plugin {found or 'not installed'}"
    return "there is no ptxas" if _ptxas() is None else None


def _ptxas() -> str | None:
    """NVIDIA's assembler, which XLA finds by itself: on the path, or in its wheel for CUDA 12 or 13."""
    wheels = [f"{folder}/nvidia/{name}/bin" for folder in sys.path for name in ("cuda_nvcc", "cu13")]
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(wheels))


def programs(build: str, folder: Path) -> dict[str, Program]:
    """Compile what ``build``, written ``module:function``, yields; the dumps go to ``folder``."""
    environment = os.environ | {
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text --xla_dump_emitter_re=ptx",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, __file__, build]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {name: _read(folder, name) for name in done.stdout.split()}


def _read(folder: Path, name: str) -> Program:
    def dumped(ending: str) -> list[str]:
        return [file.read_text() for file in sorted(folder.glob(f"*.jit_{name}.*{ending}"))]

    [sequence] = dumped("thunk_sequence_after_thunk_passes.txt") or dumped("thunk_sequence.txt")
    lines = re.findall(r"^( *)\d+: (\w+) +\[.*?\] *(\S*)", sequence, flags=re.MULTILINE)
    launches = [(indent, what or kind) for indent, kind, what in lines if kind != "kCommandBuffer"]
    return Program(
        tuple(what for _, what in launches),
        tuple(what for indent, what in launches if not indent),
        sum(kind == "kCommandBuffer" for _, kind, _ in lines),
        tuple(filter(None, dumped(".ptx"))),
    )


def _compile(build: Build) -> None:
    import jax
    from jax.experimental import topologies

    from toktier.backends.jax.compat import named_gpu

    topology = topologies.get_topology_desc(platform="cuda", target_config=_DEVICE, topology="1x1x1")
    mesh = topologies.make_mesh(topology, (1,), ("device",))
    spec: Any = jax.sharding.PartitionSpec  # which has no types of its own
    everywhere = jax.sharding.NamedSharding(mesh, spec())
    for name, function, arguments in build(partial(jax.ShapeDtypeStruct, sharding=everywhere)):
        function.__name__ = name
        with named_gpu(mesh.abstract_mesh):
            jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).compile()
        print(name)


if __name__ == "__main__":
    module, _, function = sys.argv[1].partition(":")
    _compile(getattr(importlib.import_module(module), function))
