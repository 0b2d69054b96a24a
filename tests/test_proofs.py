"""The prover: it proves what is true, refutes what is nearly true, and its pages say what it finds."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, SHARED
from tokenizers import pre_tokenizers

import proofs
from proofs import __main__ as command
from proofs import artifacts, bpe, guards
from proofs.controls import FAMILY_CONTROLS, Control, controls
from proofs.cuts import cuts_of, shows
from proofs.engine import PreTokenizerEngine, engine_of
from proofs.families import nodes_of, subject_of
from proofs.report import check_cuts, check_inert, prove_tokenizers, read_tokenizer
from proofs.sampling import compare_with_engine
from proofs.tables import left_out
from spec import FAMILIES
from toktier.certificates.relation import Relation, derive_relation
from toktier.patterns.machine import Machine
from toktier.records import replace

_FOLDER = ROOT / "proofs"


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_proved(name: str) -> None:
    line = proofs.prove_family(name, characters=80_000)
    assert line.failures == ()
    assert line.verdict == "proved"


@pytest.mark.parametrize("name", FAMILIES)
def test_pages_say_what_is_found(name: str) -> None:
    subject = subject_of(FAMILIES[name])
    relation = derive_relation(subject.stages.machines, subject.stages.atoms.count)
    page = {"qwen3_5": "qwen2", "tekken": "o200k"}.get(name, name)
    text = " ".join((_FOLDER / "families" / f"{page}.md").read_text().split())
    machines = subject.stages.machines
    states = [f"{len(machine.walk)} x {len(machine.oracle)}" for machine in machines]
    shown = " and ".join(filter(None, (", ".join(states[:-1]), states[-1])))
    atoms = subject.stages.atoms.count
    assert (
        f"{atoms} atoms; machine{'s' if len(machines) > 1 else ''} {shown} states; of {atoms**2} pairs, "
        f"{relation.restarts.sum()} restart and {relation.closes.sum()} close." in text
    )
    readme = (_FOLDER / "README.md").read_text()
    assert f"(families/{page}.md)" in readme


def test_the_table_of_a_family_may_leave_pairs_out() -> None:
    family = FAMILIES["cl100k"]
    first, *others = family.synchronizing
    whole, short = subject_of(family), subject_of(replace(family, synchronizing=tuple(others)))
    assert left_out(whole, cuts_of(whole.stages)) == ([], [])
    assert left_out(short, cuts_of(short.stages)) == ([(first.a, first.b)], [(first.a, first.b)])


@pytest.mark.parametrize("control", controls(), ids=lambda control: control.name)
def test_controls_are_refuted(control: Control) -> None:
    found = control.refute()
    assert found is not None, control.changed
    assert found.confirmed, (control.changed, found.text)


def test_enough_controls() -> None:
    assert len({control.name for control in controls()}) >= 10


def test_counterexamples_are_shortest() -> None:
    """Digits by four differ from digits by three at the fourth digit and not before."""
    found = next(c for c in controls() if c.name == "groups of four digits").refute()
    assert found is not None
    assert len(found.text) == 4
    assert found.text.isdigit()


def test_a_false_witness_is_not_confirmed() -> None:
    family = FAMILIES["cl100k"]
    stages = subject_of(family).stages
    cuts = cuts_of(stages)
    engine = engine_of(family.patterns)
    witness = next(iter(cuts.not_closing.values()))
    assert shows(engine, stages, witness)
    letter, space = stages.read("a ")
    assert cuts.closes[letter, space]
    assert not shows(engine, stages, type(witness)("no boundary", (letter,), (space,)))
    for reason in ("right side", "left side", "end of text"):
        assert not shows(engine, stages, type(witness)(reason, (letter,), (space, letter), (space, space)))


def test_what_the_engine_removes_is_counted() -> None:
    stages = subject_of(FAMILIES["bert"]).stages
    by_patterns = compare_with_engine(stages, engine_of(FAMILIES["bert"].patterns), characters=1000)
    assert (by_patterns.removed, by_patterns.counterexample) == (0, None)
    removing = PreTokenizerEngine(pre_tokenizers.WhitespaceSplit())
    assert compare_with_engine(stages, removing, characters=1000).removed == 1


# --- tokenizers --------------------------------------------------------------------------


def test_embedded_tokenizers_are_proved() -> None:
    gpt2, line = read_tokenizer("gpt2")
    assert gpt2 is not None, line
    (proved,) = prove_tokenizers([("gpt2", gpt2)], None)
    assert proved.failures == ()
    assert proved.restarts > proved.closes > 0
    deepseek, line = read_tokenizer("deepseek-v3")
    assert deepseek is not None, line
    assert deepseek.nodes == nodes_of(FAMILIES["deepseek"])
    (compared,) = prove_tokenizers([("deepseek-v3", deepseek)], replace(proved, name="deepseek"))
    assert compared.failures == ()


def test_a_wrong_relation_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair more than by definition, in what the package derives."""

    def wrong(machines: Sequence[Machine], atoms: int) -> Relation:
        relation = derive_relation(machines, atoms)
        restarts = relation.restarts.copy()
        restarts[tuple(np.argwhere(~restarts)[0])] = True
        return replace(relation, restarts=restarts)

    monkeypatch.setattr("proofs.report.derive_relation", wrong)
    (failure,) = proofs.prove_family("r50k", characters=1000).failures
    assert "restarts as derived, but not by definition" in failure


@pytest.mark.skipif(SHARED is None, reason="needs the tokenizers beside the checkout")
def test_barriers_are_independent() -> None:
    document = artifacts.artifact_of("llama2").document()
    assert artifacts.check_barriers(document["model"], texts=20) is None


def test_barriers_that_are_none_are_refuted() -> None:
    """Unknown characters that are fused into one token belong together, though no token holds them."""
    vocabulary = {"a": 0, "b": 1, "ab": 2, "?": 3}
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "unk_token": "?", "fuse_unk": True}
    assert artifacts.check_barriers(model) is not None
    assert artifacts.check_barriers({**model, "fuse_unk": False}) is None


# --- explain -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_explain_agrees_with_the_engine(name: str) -> None:
    text = "it's 12345  ok\n\n中文かな。ÀÉx's\t\tA1!\n/ é́"
    rows = proofs.explain(name, text)
    assert "".join(row.char for row in rows) == text
    (right,) = engine_of(FAMILIES[name].patterns).starts([text])
    assert [row.position for row in rows if row.begins] == right
    assert [row.position for row in rows if row.rule is not None] == right
    for row in rows:
        if row.cut is not None:
            assert row.begins
        if row.cut == "closes":
            left, rest = engine_of(FAMILIES[name].patterns).starts([text[: row.position], text[row.position :]])
            assert left + [row.position + start for start in rest] == right


def test_explain_one_text() -> None:
    rows = proofs.explain("cl100k", "a 1234")
    assert [(row.char, row.run, row.rule, row.cut) for row in rows] == [
        ("a", "letter", "letters", None),
        (" ", "space", "left over", "closes"),
        ("1", "number", "numbers", "restarts"),
        ("2", "number", None, None),
        ("3", "number", None, None),
        ("4", "number", "numbers", None),
    ]
    assert rows[0].walk == (0,)
    with pytest.raises(KeyError):
        proofs.explain("no such family", "a")


def test_stages_restart_where_earlier_ones_cut() -> None:
    rows = proofs.explain("deepseek", "a 1")
    assert rows[2].walk[1:] == (0, 0)  # a number: the first splitter cuts before it
    assert rows[0].walk == (0, 0, 0)


# --- BPE ----------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", bpe.STATEMENTS, ids=lambda statement: statement.__name__)
def test_statements_about_bpe(statement: bpe.Statement) -> None:
    found = bpe.check(statement, 80, seed=1)
    assert found.refuted is None
    assert found.telling > 10


def test_certified_starts() -> None:
    found = bpe.check_certified_starts(10, seed=1)
    assert found.refuted is None
    assert found.telling > 3


def test_bpe_of_the_reference() -> None:
    """The definition that the statements are about is the reference's BPE."""
    source = random.Random(3)
    for _ in range(20):
        ranks = bpe.random_ranks(source, "abc", 8)
        for word in bpe.words("abc", 4):
            assert bpe.by_engine("".join(word), ranks) == bpe.bpe(word, ranks)


def test_readme_counterexample_of_rounds() -> None:
    ranks, word = bpe.ROUNDS_FAIL
    assert bpe.bpe(word, ranks) == ["aba", "b"]
    assert bpe.bpe_in_rounds(word, ranks, ranks) == ["ab", "ab"]
    assert bpe.rules_at_once(ranks) == {("ab", "a")}
    assert bpe.bpe_in_rounds(word, ranks, bpe.rules_at_once(ranks)) == ["aba", "b"]
    readme = (_FOLDER / "README.md").read_text()
    assert "(ab a), (a b)" in readme and "The word is abab" in readme


@pytest.mark.parametrize("statement", bpe.WRONG_STATEMENTS)
def test_wrong_statements_about_rounds_are_refuted(statement: bpe.Statement) -> None:
    refuted = bpe.check(statement, 500).refuted
    assert refuted is not None
    ranks, word = refuted
    assert bpe.rounds(ranks, "abc", 5) is None
    right = bpe.by_engine(word, ranks)
    assert right == bpe.bpe_in_rounds(word, ranks, bpe.rules_at_once(ranks)) == bpe.bpe(word, ranks)


def test_a_symbol_made_twice_is_judged_for_each_rule() -> None:
    """The rule (abc, a) ranks above one maker of abc and below the other."""
    ranks = {("b", "c"): 0, ("a", "bc"): 1, ("abc", "a"): 2, ("ab", "c"): 3, ("a", "b"): 4}
    assert bpe.rules_at_once(ranks) == ranks.keys() - {("ab", "c"), ("a", "b")}


def test_readme_counterexample_of_certified_starts() -> None:
    by_bytes, from_whole = bpe.start_from_whole(bpe.STARTS_FAIL_PARTS[1])
    character = "中".encode().decode("latin-1")
    assert by_bytes == [character, "bc"]
    assert from_whole == [character + "b", "c"]


# --- guards -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["added, lstrip", "NFC", "NFC, added", "Prepend", "BertNormalizer"])
def test_guards(name: str) -> None:
    (line,) = check_cuts(name)
    assert (line.failures, line.verdict) == ((), "checked")


@pytest.mark.campaign
@pytest.mark.parametrize("name", guards.GUARDED)
def test_every_guard_with_longer_texts(name: str) -> None:
    found = guards.try_cuts(replace(guards.GUARDED[name], longest=6))
    assert found.refuted is None and found.cuts > 1_000


@pytest.mark.parametrize("form", ["NFD", pytest.param("NFC", marks=pytest.mark.campaign)])
def test_inert_characters(form: str) -> None:
    (line,) = check_inert(form)
    assert (line.failures, line.verdict) == ((), "checked")


def test_a_guard_that_certifies_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = guards.Guarded("letters", "ab")
    monkeypatch.setattr("proofs.report.guards.GUARDED", {"letters": nothing})
    (line,) = check_cuts("letters")
    assert line.failures == ("nothing is certified, so nothing was tried",)


def test_rounds_of_a_tokenizer() -> None:
    model = {"vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3}, "merges": [["ab", "a"], ["a", "b"]]}
    assert artifacts.rounds_of(model) == "rounds: 1 of 2 rules may be merged everywhere at once"
    assert artifacts.rounds_of({"vocab": {"a": 0}}) is None


# --- the command -------------------------------------------------------------------------


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--family", "bert"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"family +bert +3 .* proved", out)
    assert "nothing refuted" in out
    assert command.main(["--family", "bert", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["name"], line["verdict"], line["failures"]) == ("bert", "proved", [])


def test_command_for_a_tokenizer_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokenizer.json"
    pre_tokenizer = {"type": "Whitespace"}
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    file.write_text(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": pre_tokenizer, "model": model})
    )
    assert command.main([str(file)]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"tokenizer +{re.escape(str(file))} +3 .* proved", out) and "family" not in out
    for arguments in ([str(tmp_path / "nothing.json")], ["--family", "bert", str(file)]):
        with pytest.raises(SystemExit) as stopped:
            command.main(arguments)
        assert stopped.value.code == 2
        assert capsys.readouterr().out == ""


def test_command_fails_on_a_refutation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = FAMILY_CONTROLS["each white character a piece"][1]
    monkeypatch.setattr("proofs.report.FAMILIES", {"bert": wrong})
    assert command.main(["--family", "bert"]) == 1
    out = capsys.readouterr().out
    assert "REFUTED" in out and "1 refuted" in out


def test_every_page_is_a_family() -> None:
    pages = {page.stem for page in (_FOLDER / "families").glob("*.md")}
    assert pages == FAMILIES.keys() - {"qwen3_5", "tekken"}
