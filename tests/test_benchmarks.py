"""The command lines of the benchmarks: those that the documentation names are taken, wrong ones are refused."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
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


def test_certificates_are_derived_in_a_process_of_their_own() -> None:
    program = ROOT / "benchmarks" / "certificates.py"
    words = ["derive", "gpt2", "--repetitions", "1"]
    done = subprocess.run([sys.executable, str(program), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^.*gpt2.*derive.* s\b", done.stdout, re.MULTILINE), done.stdout


#: Stands for ``device_worker.py``: with kernels one tokenizer's process dies and another's gives other ids, and a
#: third's is silent in either form.
_WORKER = """
import json, sys, time
name, form = sys.argv[1], sys.argv[3]
row = dict.fromkeys(("bytes", "tokens", "depth"), 1) | {"launches": None, "by_reference": True, "not_on_device": 0}
row |= dict.fromkeys(("array_ms", "array_p90_ms", "device_ms", "device_p90_ms", "list_ms", "spans_ms"), 1.5)
print(json.dumps({"form": form, "platform": "gpu"}), flush=True)
for line in sys.stdin:
    what = json.loads(line)["do"]
    if what == "row" and name == "gpt-oss":
        time.sleep(60)
    if what == "row" and name == "gpt2" and form == "kernels":
        sys.exit(3)
    failed = {"differ": "number 7"} if name == "qwen3" and form == "kernels" else row
    answers = {"row": failed, "floor": {"launch": 1e-6, "byte": 1e-12, "load": None}}
    print(json.dumps(answers.get(what, {"error": "no such thing"})), flush=True)
"""


def test_a_run_on_a_device_loses_no_more_than_what_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = importlib.import_module("device")
    worker, file = tmp_path / "worker.py", tmp_path / "found.json"
    worker.write_text(_WORKER)
    monkeypatch.setattr(device, "_WORKER", worker)
    monkeypatch.setattr(device, "_PATIENCE", 1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    words = f"--tokenizers gpt2 qwen3 gpt-oss --corpora english --sizes 7 --json {file}"
    assert device.main(words.split()) == 1
    said = json.loads(file.read_text())["said"]
    rows = {(one["tokenizer"], one["form"]): one for one in said if one["do"] == "row" and "form" in one}
    assert rows["gpt2", "kernels"]["lost"] == "the process ended with status 3"
    assert rows["qwen3", "kernels"]["differ"] == "number 7"
    assert rows["gpt2", "xla"]["array_ms"] == rows["qwen3", "xla"]["array_ms"] == 1.5
    assert rows["gpt-oss", "kernels"]["lost"] == rows["gpt-oss", "xla"]["lost"] == "no answer for 1 s"
    assert [one["tokenizer"] for one in said if one["do"] == "warm"].count("gpt-oss") == 3
    assert not [one for one in said if one.get("left out")]
    shown = capsys.readouterr().out
    assert len([line for line in shown.splitlines() if line.endswith("  xla")]) == 2, shown
    assert "what has figures here was compared" in shown and "every output" not in shown


def test_a_run_on_a_device_needs_jax(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module("device").main(["--quick"])
    assert "needs the extra jax" in capsys.readouterr().err
