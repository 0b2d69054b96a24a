"""The examples of README.md and docs/: each block of Python runs by itself and gives what its comments say.

A comment that begins with a Python value, or with ``array([...])``, is what the line before it gives; words may
follow it after two spaces.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
_ARRAY = re.compile(r"array\((.*)\)$")


def blocks() -> list[Any]:
    found = []
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = file.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            # what is about devices compiles for a long time
            marks = [pytest.mark.campaign] if file.name == "jax.md" else []
            name = f"{file.relative_to(ROOT).as_posix()}:{line}"
            found.append(pytest.param(match[1], id=name, marks=marks))
    return found


def promised(source: str) -> dict[int, Any]:
    """The values that comments name, by line."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            said = re.split(" {2,}", token.string.removeprefix("#").strip())[0]
            array = _ARRAY.match(said)
            try:
                found[token.start[0]] = ast.literal_eval(array[1] if array else said)
            except (ValueError, SyntaxError):
                continue  # words
    return found


def run(source: str) -> int:
    """Run a block in a namespace of its own; how many values were compared."""
    expected, names, compared = promised(source), {"__name__": "__main__"}, 0
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), "<block>", "exec"), names)
            continue
        value = eval(compile(ast.Expression(statement.value), "<block>", "eval"), names)
        if statement.end_lineno in expected:
            given = value.tolist() if isinstance(value, np.ndarray) else value
            assert given == expected.pop(statement.end_lineno), ast.unparse(statement)
            compared += 1
    assert not expected, f"values that no expression stands before: {expected}"
    return compared


@pytest.mark.parametrize("source", blocks())
def test_a_block_runs_by_itself(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "chat_session" in source:
        pytest.importorskip("jinja2")
    if "jax" in source:
        pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)  # where an example may leave a file
    run(source)


def test_the_extras_are_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = next(part for part in text.split("\n\n") if "Extras, as in" in part)
    assert set(re.findall(r"`(\w+)`", paragraph)) == set(project["optional-dependencies"])


def test_links_lead_somewhere() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
    links = [(file, link) for file in files for link in _LINK.findall(file.read_text(encoding="utf-8"))]
    assert len(links) > 10
    assert not [(file.name, link) for file, link in links if not (file.parent / link).exists()]


def test_values_are_compared() -> None:
    assert run("x = 1\nx + 1  # 2  more words\nx  # some words\n[x]  # array([1])\n") == 2
    with pytest.raises(AssertionError):
        run("1 + 1  # 3")
    with pytest.raises(AssertionError):
        run("x = 2  # 2")
    assert sum(len(promised(block.values[0])) for block in blocks()) > 20
