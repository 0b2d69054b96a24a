"""Everything that is proved or checked, one line for each family and each tokenizer."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np

from spec import FAMILIES
from toktier.certificates.relation import derive_relation
from toktier.normalization import inert_table
from toktier.patterns.syntax import Node

from . import artifacts, bpe, families, guards
from .controls import controls
from .cuts import Witness, cuts_of, shows
from .engine import PreTokenizerEngine, engine_of
from .sampling import compare_with_engine
from .stages import Stages, stages_of
from .tables import left_out, unproved


@dataclass(frozen=True)
class Line:
    """One line of the report.

    ``states``: of the machines, walk and oracle, stage by stage; ``restarts``, ``closes``: how many pairs of
    atoms; ``failures``: what was refuted, with a text each; ``remarks``: what a reader should know besides.
    """

    kind: str
    name: str
    atoms: int = 0
    states: tuple[tuple[int, int], ...] = ()
    restarts: int = 0
    closes: int = 0
    failures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    without_failures: str = "proved"

    @property
    def verdict(self) -> str:
        """``REFUTED`` if anything failed; else proved, checked (by trying) or refused (nothing is claimed)."""
        return "REFUTED" if self.failures else self.without_failures


#: How many characters of texts are compared with an engine: for stages that are new, and for others.
_MANY, _FEW = 330_000, 80_000


def prove_family(name: str, characters: int = _MANY) -> Line:
    """A family of the spec: equal to its machine, its table of pairs sound, and all that holds for its machine.

    ``characters``: of texts that are compared with the engine.
    """
    began = time.perf_counter()
    subject = families.subject_of(FAMILIES[name])
    found = families.prove_equivalence(subject)
    failures = []
    if found.counterexample is not None:
        failures.append(f"spec and machine cut this text differently: {found.counterexample!r}")
    failures += [f"the rule {rule!r} never fires" for rule in sorted(found.idle)]
    cuts = cuts_of(subject.stages)
    for row, witness in unproved(subject, cuts):
        failures.append(f"{row.a}|{row.b} claims too much: {_spell(subject.stages, witness)}")
    restarts, closes = left_out(subject, cuts)
    remarks = [f"{found.nodes:,} combinations of states"]
    if restarts or closes:
        remarks.append(f"not in the table: {_listed(restarts)} restart, {_listed(closes)} close")
    engine = engine_of(subject.family.patterns)
    line = _prove_stages(Line("family", name), subject.stages, engine, characters)
    return replace(
        line,
        failures=(*failures, *line.failures),
        remarks=(*remarks, *line.remarks),
        seconds=time.perf_counter() - began,
    )


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{a}|{b}" for a, b in pairs) or "none"


def _spell(stages: Stages, witness: Witness) -> str:
    texts = [stages.write(atoms) for atoms in (witness.x, witness.y, witness.other)]
    return f"{witness.reason}, " + " | ".join(repr(text) for text in texts if text)


def _prove_stages(line: Line, stages: Stages, engine: PreTokenizerEngine, characters: int = _MANY) -> Line:
    """What holds for any pre-tokenizer: the relation is the one by definition, and the engine agrees."""
    cuts, derived = cuts_of(stages), derive_relation(stages.machines, stages.atoms.count)
    failures: list[str] = []
    remarks: list[str] = []
    for what, ours, theirs, witnesses in (
        ("restarts", cuts.restarts, derived.restarts, cuts.not_restarting),
        ("closes", cuts.closes, derived.closes, cuts.not_closing),
    ):
        for a, b in np.argwhere(theirs & ~ours).tolist():
            pair = f"{stages.examples[a]!r}|{stages.examples[b]!r}"
            failures.append(f"{pair} {what} as derived, but not by definition: {_spell(stages, witnesses[a, b])}")
        missed = int((ours & ~theirs).sum())
        if missed:
            remarks.append(f"{missed} pairs of which the derivation does not know that each {what}")
    line, removed = _sampled(line, stages, engine, characters)
    if not removed:
        every = [*cuts.not_restarting.values(), *cuts.not_closing.values()]
        wrong = [witness for witness in every if not shows(engine, stages, witness)]
        failures += [f"the engine does not confirm {_spell(stages, witness)}" for witness in wrong]
    return replace(
        line,
        restarts=int(cuts.restarts.sum()),
        closes=int(cuts.closes.sum()),
        failures=(*failures, *line.failures),
        remarks=(*remarks, *line.remarks),
    )


def _sampled(line: Line, stages: Stages, engine: PreTokenizerEngine, characters: int) -> tuple[Line, int]:
    """The machine against the engine; and how many atoms that leaves out of the text."""
    sample = compare_with_engine(stages, engine, characters=characters)
    failures, remarks = line.failures, line.remarks
    if sample.counterexample is not None:
        failures += (f"machine and engine cut this text differently: {sample.counterexample!r}",)
    remarks += (f"{sample.texts:,} texts as the engine, among them all of {sample.length} atoms or fewer",)
    if sample.removed:
        remarks += (f"{sample.removed} of the atoms left out of the text",)
    states = tuple((len(machine.walk), len(machine.oracle)) for machine in stages.machines)
    line = replace(line, atoms=stages.atoms.count, states=states, failures=failures, remarks=remarks)
    return line, sample.removed


# --- tokenizers -------------------------------------------------------------------


def read_tokenizer(name: str) -> tuple[artifacts.Subject | None, Line]:
    """The stages of a tokenizer; None if there are none to prove anything about, and then the line says why."""
    began = time.perf_counter()
    subject = artifacts.subject_of(artifacts.artifact_of(name))
    line = Line("tokenizer", name)
    if subject.refusal is not None:
        line = replace(line, remarks=(subject.refusal,), without_failures="refused")
    elif subject.barriers:
        text = subject.barrier_failure
        line = replace(
            line,
            failures=() if text is None else (f"BPE is not independent on the two sides of {text}",),
            remarks=("cut at barriers of the vocabulary", *_rounds(subject)),
            without_failures="checked",
        )
    line = replace(line, seconds=time.perf_counter() - began)
    return (None if line.remarks else subject), line


def _rounds(subject: artifacts.Subject) -> tuple[str, ...]:
    return () if subject.rounds is None else (subject.rounds,)


def prove_tokenizers(subjects: Sequence[tuple[str, artifacts.Subject]], family: Line | None) -> list[Line]:
    """Tokenizers with the same stages, which are those of ``family`` or proved once.

    Each is compared with its own engine.
    """
    if family is None:
        stages = stages_of(subjects[0][1].nodes)
    else:
        stages = families.subject_of(FAMILIES[family.name]).stages
    proved = family
    lines: list[Line] = []
    for name, subject in subjects:
        began = time.perf_counter()
        line = Line("tokenizer", name)
        if proved is None:
            proved = line = _prove_stages(line, stages, subject.engine())
        else:
            line = replace(line, restarts=proved.restarts, closes=proved.closes)
            line, _ = _sampled(line, stages, subject.engine(), _FEW)
            line = replace(line, remarks=(f"the stages of {proved.name}", *line.remarks))
        line = replace(line, remarks=(*line.remarks, *_rounds(subject)))
        lines.append(replace(line, seconds=time.perf_counter() - began))
    return lines


# --- all --------------------------------------------------------------------------


def check_bpe() -> list[Line]:
    """The statements about BPE."""
    lines = []
    for statement in (*bpe.STATEMENTS, None):
        began = time.perf_counter()
        found = bpe.check_certified_starts(25) if statement is None else bpe.check(statement, 150)
        refuted = () if found.refuted is None else (f"refuted by {found.refuted}",)
        remark = f"{found.vocabularies} vocabularies, {found.telling} of them telling"
        seconds = time.perf_counter() - began
        lines.append(_checked("bpe", found.statement, refuted, remark, seconds))
    return lines


def check_cuts(name: str) -> list[Line]:
    """The cuts of one of :data:`guards.GUARDED`."""
    began = time.perf_counter()
    guarded = guards.GUARDED[name]
    found = guards.try_cuts(guarded)
    failures = [] if found.refuted is None else [f"a certified cut that is none: {found.refuted!r}"]
    if not found.cuts:
        failures.append("nothing is certified, so nothing was tried")
    remark = f"{found.cuts:,} cuts of all texts of up to {guarded.longest} of {len(guarded.characters)} characters"
    return [_checked("guard", name, failures, remark, time.perf_counter() - began)]


def check_inert(form: str) -> list[Line]:
    """The characters that are inert under a Unicode form."""
    began = time.perf_counter()
    table = inert_table(form)
    text = guards.refuted_inert(form, table)
    failures = [] if text is None else [f"not inert: {text!r}"]
    remark = f"each of {int(table.sum()):,} characters"
    return [_checked("inert", form, failures, remark, time.perf_counter() - began)]


def _checked(kind: str, name: str, failures: Sequence[str], remark: str, seconds: float) -> Line:
    return Line(kind, name, failures=(*failures,), remarks=(remark,), seconds=seconds, without_failures="checked")


def check_controls() -> list[Line]:
    """The negative controls, all of which must be refuted."""
    began = time.perf_counter()
    failures, count = [], 0
    for control in controls():
        count += 1
        found = control.refute()
        if found is None:
            failures.append(f"{control.name} ({control.changed}) is not refuted")
        elif not found.confirmed:
            failures.append(f"{control.name}: the engine does not confirm {found.text!r}")
    remark = f"{count} wrong statements, all refuted" if not failures else f"of {count} wrong statements"
    seconds = time.perf_counter() - began
    return [_checked("controls", "all", failures, remark, seconds)]


def prove_all(family: str | None = None, tokenizers: Sequence[str] = ()) -> Iterator[Line]:
    """Every line; those of families first.  Uses all cores.

    ``family``: this one and nothing else.  ``tokenizers``: these and nothing else, by name or path.
    """
    if family is not None:
        yield prove_family(family)
        return
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        proving = [] if tokenizers else [pool.submit(prove_family, name) for name in FAMILIES]
        reading = [pool.submit(read_tokenizer, name) for name in tokenizers or artifacts.names()]
        others = [] if tokenizers else [pool.submit(check_controls), pool.submit(check_bpe)]
        if not tokenizers:
            others += [pool.submit(check_inert, form) for form in guards.FORMS]
            others += [pool.submit(check_cuts, name) for name in guards.GUARDED]
        proved: dict[tuple[Node, ...], Line] = {}
        for job in proving:
            line = job.result()
            proved[families.nodes_of(FAMILIES[line.name])] = line
            yield line
        groups: dict[tuple[Node, ...], list[tuple[str, artifacts.Subject]]] = {}
        for reading_job in reading:
            subject, line = reading_job.result()
            if subject is None:
                yield line
            else:
                groups.setdefault(subject.nodes, []).append((line.name, subject))
        for group in [
            pool.submit(prove_tokenizers, subjects, proved.get(nodes)) for nodes, subjects in groups.items()
        ]:
            yield from group.result()
        for other in others:
            yield from other.result()
