"""The command lines of the benchmarks: those that the documentation names are taken, wrong ones are refused."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

_COMMAND = re.compile(r"python benchmarks/(\w+)\.py((?: [^`#\n]*)?)")


@pytest.fixture(autouse=True, scope="module")
def threads_of_the_reference() -> Iterator[None]:
    """Importing ``encode`` sets these; other tests shall not notice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setenv("RAYON_NUM_THREADS", "1")
        yield


def parser(program: str) -> ArgumentParser:
    if program == "device":
        pytest.importorskip("jax")
    found = importlib.import_module(program).command_line()
    assert isinstance(found, ArgumentParser)
    return found


def documented() -> list[tuple[str, str]]:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").iterdir()]
    texts = (file.read_text(encoding="utf-8") for file in sorted(files) if file.suffix in (".md", ".py"))
    return sorted({(match[1], match[2].strip()) for text in texts for match in _COMMAND.finditer(text)})


@pytest.mark.parametrize(("program", "words"), documented())
def test_documented_commands_are_taken(
    program: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [word for word in shlex.split(words) if not word.startswith("my-")]
    if "--plot" in given and importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    parser(program).parse_args(given)


def test_the_documentation_names_every_benchmark() -> None:
    assert {program for program, _ in documented()} >= {"encode", "sessions", "store", "certificates", "device"}


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        ("encode", "plane", "there is no 'plane'; there are plain, chat"),
        ("encode", "--tokenizers qwen", "Did you mean 'qwen3'?"),
        ("encode", "--corpora latin", "there is no 'latin'; there are english"),
        ("encode", "--backends gpu", "there is no 'gpu'; there are auto"),
        ("encode", "--size 0", "'0' is not a whole number of 1 or more"),
        ("encode", "--json no/such/folder.json", "its folder does not exist"),
        ("encode", "--plot figures.txt", "should end in .pdf, .png, .svg"),
        ("store", "thread", "there is no 'thread'; there are threads"),
        ("certificates", "derived", "no tokenizer 'derived'"),
        ("sessions", "--contexts 1e6", "'1e6' is not a whole number"),
    ],
)
def test_wrong_commands_are_refused(
    program: str, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser(program).parse_args(words.split())
    assert said in capsys.readouterr().err
