"""What the tests share: tokenizers, the reference built from them, and run profiles.

The embedded tokenizers always run.  Others lie beside the checkout, in
``../shared/tokenizers``, on machines that have them; a test that asks for one is
skipped with a reason elsewhere.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer

import toktier.artifact
from toktier.artifact import Artifact
from toktier.registry import embedded_names, resolve

ROOT = Path(__file__).resolve().parent.parent
_BESIDE = ROOT.parent / "shared" / "tokenizers"
SHARED: Path | None = _BESIDE if _BESIDE.is_dir() else None
ABSENT = "the tokenizers that are not part of the package (../shared/tokenizers) are not on this machine"

# `pytest -m campaign --hypothesis-profile=campaign` is the long run.
_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=100, derandomize="CI" in os.environ, **_COMMON)
settings.register_profile("campaign", max_examples=5000, **_COMMON)
settings.load_profile("quick")

# Embedded tokenizers are decompressed whenever their bytes are asked for, which a user does once.
toktier.artifact.decompress = lru_cache(maxsize=4)(toktier.artifact.decompress)

_own_cache: list[str] = []


def pytest_configure() -> None:
    """Give the run a cache folder of its own, so that no test reads what another version wrote."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _own_cache.append(tempfile.mkdtemp(prefix="toktier-tests-"))
        os.environ["TOKTIER_CACHE_DIR"] = _own_cache[0]
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(_own_cache[0]) / "jax")


def pytest_unconfigure() -> None:
    for folder in _own_cache:
        shutil.rmtree(folder, ignore_errors=True)


def shared_tokenizer_names() -> tuple[str, ...]:
    """The tokenizers beside the checkout, without those that are embedded; empty where absent."""
    files = sorted(SHARED.glob("*.json.xz")) if SHARED else []
    names = (file.name.removesuffix(".json.xz") for file in files)
    return tuple(name for name in names if name.replace("_", "-") not in embedded_names())


def tokenizers(*names: str) -> list[Any]:
    """Parameters for ``parametrize``: these tokenizers, or all there are; absent ones are skipped."""
    if not names:
        others = shared_tokenizer_names() or ("others",)
        names = (*embedded_names(), *others)
    here = {*embedded_names(), *shared_tokenizer_names()}
    absent = pytest.mark.skip(reason=ABSENT)
    return [pytest.param(name, marks=() if name in here else absent) for name in names]


#: Tokenizers whose pipeline is much like that of another one.
_ALIKE = {
    *("cl100k", "deepseek_coder", "deepseek_v4", "glm4_7_flash", "gpt_neox_pii", "llama3_1"),
    *("mistral_tekken_240911", "o200k", "olmo2_dolma2", "qwen3_5", "claude_old", "starcoder", "minimax_m3"),
}


def usual_tokenizers(*names: str) -> list[Any]:
    """The same for tests that take long: those of a kind with another one are left to the campaign."""
    return [
        pytest.param(*p.values, marks=[*p.marks, pytest.mark.campaign]) if p.values[0] in _ALIKE else p
        for p in tokenizers(*names)
    ]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a tokenizer that is not embedded are neighbours, so that few of the workers have to load it."""
    others = set(shared_tokenizer_names())

    def tokenizer(item: pytest.Item) -> str:
        given = getattr(item, "callspec", None)
        return max(("", *(others & {v for v in given.params.values() if isinstance(v, str)})) if given else ("",))

    items.sort(key=tokenizer)


def pytest_collection_finish() -> None:
    """Tests and modules stay to the end and tokenizers are large: the collector looks at both less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@cache
def artifact(name: str) -> Artifact:
    """The artifact of an embedded tokenizer or of one beside the checkout."""
    if name in embedded_names():
        return resolve(name)
    if SHARED is None:
        pytest.skip(ABSENT)
    return resolve(SHARED / f"{name}.json.xz")


@lru_cache(maxsize=2)
def parsed(name: str) -> dict[str, Any]:
    """The decoded ``tokenizer.json``, the same object for all: who changes it changes a copy."""
    return artifact(name).document()


@cache
def reference(name: str) -> Tokenizer:
    """The reference, one object per tokenizer and process: who changes its settings changes them back."""
    return Tokenizer.from_str(artifact(name).read().decode("utf-8"))


@pytest.fixture(params=embedded_names(), scope="session")
def embedded(request: pytest.FixtureRequest) -> str:
    """The name of each embedded tokenizer in turn."""
    name: str = request.param
    return name


def in_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a forked child; what it raises fails the test."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
