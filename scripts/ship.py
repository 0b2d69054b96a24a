"""Write what ships with the package besides the tokenizers: tables derived from them, and probed sets.

    python scripts/ship.py            # (re)write toktier/data/*.bundle
    python scripts/ship.py --check    # exit with 1 if they are not what this code and this reference give

Both depend on the version of ``tokenizers`` that is installed: under another version the package derives them
anew and keeps them in the user's cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from toktier import packing
from toktier.backends.reference import engine_version
from toktier.compiled import FORMAT
from toktier.derivation import derived
from toktier.hash_tables import FILLED
from toktier.patterns.charsets import DIGITS, PUNCTUATION, WHITE_SPACE, WORDS, probe
from toktier.registry import DATA, embedded_names, resolve

#: Sets that occur in the patterns of published tokenizers.
SOURCES = (
    *(rf"\p{{{name}}}" for name in ("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "Nd", "P", "S", "Z", "Han")),
    *(rf"\{letter}" for letter in "sdw"),
    *(f"(?i:{letter})" for letter in "sdmtlrve"),
    *(DIGITS, WHITE_SPACE, PUNCTUATION, WORDS),
)

Content = tuple[Mapping[str, Any], Mapping[str, np.ndarray]]


def contents() -> Iterator[tuple[str, Content]]:
    sets = {str(number): np.packbits(probe(source)) for number, source in enumerate(SOURCES)}
    yield "charsets", ({"tokenizers": engine_version(), "sources": list(SOURCES)}, sets)
    for name in embedded_names():
        artifact = resolve(name)
        header, arrays = derived(artifact, FORMAT)
        yield artifact.fingerprint[:12], (header, {name: arrays[name] for name in arrays if name not in FILLED})


def same(one: Content, other: Content) -> bool:
    return (
        dict(one[0]) == dict(other[0])
        and one[1].keys() == other[1].keys()
        and all(np.array_equal(array, other[1][name]) for name, array in one[1].items())
    )


def main(arguments: list[str]) -> int:
    status = 0
    for stem, (header, arrays) in contents():
        path = Path(DATA, f"{stem}.bundle")
        if "--check" not in arguments:
            path.write_bytes(packing.dump(header, arrays))
            print(f"{path.name}: {path.stat().st_size:,} bytes")
            continue
        shipped = packing.load(path.name)
        if shipped is None or not same((shipped.header, shipped.arrays), (header, arrays)):
            print(f"{path.name} is out of date: run python scripts/ship.py")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
