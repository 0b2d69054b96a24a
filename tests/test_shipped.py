"""What ships beside the tokenizers must be what the code derives from them."""

from __future__ import annotations

import numpy as np
import pytest

from toktier import cache, compiled, derivation
from toktier.patterns import charsets
from toktier.registry import embedded_names, resolve


def _shipped_for_this_engine() -> bool:
    return bool(charsets._shipped())


needs_shipped = pytest.mark.skipif(
    not _shipped_for_this_engine(), reason="the shipped tables are for another version of tokenizers"
)


@needs_shipped
@pytest.mark.parametrize("name", embedded_names())
def test_tables_ship_for_every_embedded_tokenizer(name: str) -> None:
    found = compiled.shipped(resolve(name).fingerprint)
    assert found is not None, "run python scripts/ship.py"
    assert found[0]["reason"] is None


@needs_shipped
@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3"])
def test_shipped_tables_are_the_derived_ones(name: str) -> None:
    artifact = resolve(name)
    found = compiled.shipped(artifact.fingerprint)
    assert found is not None
    header, arrays = derivation.derived(artifact, compiled.FORMAT)
    assert found[0] == header
    assert found[1].keys() == arrays.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(found[1][key], array, err_msg=key)


@needs_shipped
@pytest.mark.parametrize("source", [r"\p{Lm}", r"\s", "(?i:s)", charsets.DIGITS])
def test_shipped_sets_are_the_probed_ones(source: str) -> None:
    np.testing.assert_array_equal(charsets._shipped()[source], np.packbits(charsets.probe(source)))


def test_a_bundle_of_another_engine_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "engine_version", lambda: "0.0.0")
    assert compiled.shipped(resolve("gpt2").fingerprint) is None


def test_derived_and_cached_tokenizers_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tables come from the file and from the cache."""
    artifact = resolve("gpt2")
    first = compiled.compiled(artifact)
    kept: dict[str, cache.Bundle] = {}
    monkeypatch.setattr(cache, "load", lambda key: None)
    monkeypatch.setattr(
        cache, "store", lambda key, header, arrays: kept.update({key: cache.Bundle(header, arrays)})
    )
    second = compiled.compiled(artifact)
    assert len(kept) == 1
    assert first.engine is not None and second.engine is not None
    np.testing.assert_array_equal(first.engine.pieces.whole.ids, second.engine.pieces.whole.ids)
    np.testing.assert_array_equal(
        first.engine.pieces.merges.table.entries, second.engine.pieces.merges.table.entries
    )
