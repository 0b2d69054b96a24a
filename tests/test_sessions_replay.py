"""Sessions against the reference: after every change the ids are those of the full text."""

from __future__ import annotations

from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any

import adversarial
import pytest
from conftest import tokenizers, usual_tokenizers
from histories import Change, Record, apply, random_changes, seam_parts
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from judge import engine, literals
from transcripts import Step, steps, transcript

from toktier.registry import embedded_names
from toktier.sessions import Checkpoint, Session, anchors, repair
from toktier.sessions import engine as engine_module
from toktier.sessions import text as text_module


def few_literals(name: str) -> tuple[str, ...]:
    return literals(name)[:60]


# --- transcripts ----------------------------------------------------------------------------------


@cache
def history(seed: int, count: int, **settings: Any) -> list[Step]:
    """The first steps of a transcript; the same for all tokenizers."""
    return list(islice(steps(seed, "agent", **settings), count))


def replay(name: str, seed: int, count: int, **settings: Any) -> int:
    """Play a transcript by ``append``, ``edit`` and ``update`` in turn."""
    session, text = engine(name).session(), ""
    ids: list[int] = session.ids.tolist()
    record = Record(name)
    for number, step in enumerate(history(seed, count, **settings)):
        how = "append" if step.start == len(text) else ("edit", "update")[number % 2]
        change = Change(how, step.start, step.stop, step.text)
        text = change.after(text)
        patch = change.make(session, text)
        ids = apply(ids, patch)
        assert ids == session.ids.tolist(), patch
        record.note(text, session, f"{how} as step {number} of seed {seed}")
    assert not session.counters.widenings, "nothing was tampered with"
    return record.judge()


@pytest.mark.parametrize("name", tokenizers())
def test_transcripts(name: str) -> None:
    assert replay(name, 1, 800, median=40, largest=900, context=700) == 800


@pytest.mark.parametrize(("name", "form"), [("qwen3", "chatml"), ("gpt-oss", "harmony")])
def test_transcripts_of_real_size(name: str, form: str) -> None:
    assert replay(name, 2, 20, largest=50_000, context=100_000, form=form) == 20


@pytest.mark.parametrize("size", [1, 10_000, 40_000, 200_000])
def test_appends_of_any_size(size: int) -> None:
    text = transcript(5, 200_000)
    record = Record("qwen3")
    session = engine("qwen3").session("The first words: ")
    session.append(text[:size])
    record.note("The first words: " + text[:size], session, f"append {size} characters")
    session.append(text[-7:])
    record.note("The first words: " + text[:size] + text[-7:], session, "append 7 more")
    record.judge()


@pytest.mark.campaign
@pytest.mark.parametrize("name", usual_tokenizers())
def test_many_transcripts(name: str) -> None:
    for seed in range(100, 142):
        assert replay(name, seed, 1000, median=70, largest=1500, context=1600) == 1000
        history.cache_clear()
    assert replay(name, 3, 200, context=300_000) == 200


# --- seams ------------------------------------------------------------------------------------------


def split_everywhere(name: str, count: int, before: str, special: str) -> int:
    """Every string of the battery, given in two parts, for every place between them."""
    tok = engine(name)
    base = tok.session(before, special=special)  # type: ignore[arg-type]
    start = base.checkpoint()
    record = Record(name, special)
    for text in adversarial.battery(few_literals(name), 7, count):
        for cut in range(len(text) + 1):
            base.restore(start)
            base.append(text[:cut])
            base.append(text[cut:])
            record.note(before + text, base, f"{before!r} + {text[:cut]!r} + {text[cut:]!r}")
    return record.judge()


@pytest.mark.parametrize("name", usual_tokenizers())
def test_every_split(name: str) -> None:
    assert split_everywhere(name, 20, "", "encode") > 100
    assert split_everywhere(name, 20, "The word 12", "text") > 100


@pytest.mark.campaign
@pytest.mark.parametrize("name", usual_tokenizers())
def test_every_split_of_many(name: str) -> None:
    for before in ("", "a", "it's 1", "\n\n", "x\u1112", "<|im_", "e\u0301"):
        assert split_everywhere(name, 1500, before, "encode") > 1000


SEAMS = (
    *("12|345|6|7890", "a|'|s|'l|l", "x |  |\n|\n |y", "e|\u0301|\u0323|b", "\u1112|\u1161|\u11ab|\u1100|\u1161"),
    *("\U0001f469|\u200d|\U0001f469|\ufe0f|x", "a|\u0344|a", "\t|a|\t|b", "pipe|line|s", "\r|\n|\r|\n"),
    *(
        "A|B|c|D|'|S",
        "\u3000|x| |\u3000",
        "foo|/|/|\n|bar",
        "ab|\u0430|\u0431",
        "1|.|5|,|000",
        "\U000113c2|\U000113c2",
    ),
)


@pytest.mark.parametrize("name", usual_tokenizers())
def test_seams(name: str) -> None:
    """Given part by part; then each part taken away again; and in the middle of something longer."""
    own = [
        f"{literal[:at]}|{literal[at:]}" for literal in few_literals(name)[:20] for at in (1, len(literal) // 2)
    ]
    own += [f" |{literal}| |{literal}|a|{literal}" for literal in few_literals(name)[:20]]
    record = Record(name)
    for seam in (*SEAMS, *own):
        session, text = engine(name).session("The text. "), "The text. "
        for part in seam.split("|"):
            text += part
            session.append(part)
            record.note(text, session, f"append {part!r}")
        for part in reversed(seam.split("|")):
            text = text[: len(text) - len(part)]
            session.truncate(len(text))
            record.note(text, session, f"truncate by {part!r}")
        text = "The text goes on, for a while. " * 3
        session.update(text)
        for place, part in enumerate(seam.split("|")):
            text = text[: 40 + place] + part + text[40 + place :]
            session.edit(40 + place, 40 + place, part)
            record.note(text, session, f"insert {part!r} at {40 + place}")
    record.judge()


# --- any change -----------------------------------------------------------------------------------------


def change_at_random(name: str, seed: int, count: int, longest: int, special: str = "encode") -> int:
    session = engine(name).session(special=special)  # type: ignore[arg-type]
    ids: list[int] = session.ids.tolist()
    record = Record(name, special)
    for change, text in islice(random_changes(seed, seam_parts(few_literals(name), seed), longest), count):
        patch = change.make(session, text)
        ids = apply(ids, patch)
        assert ids == session.ids.tolist(), (change, patch)
        record.note(text, session, repr(change)[-300:])
    assert not session.counters.widenings
    return record.judge()


@pytest.mark.parametrize("name", usual_tokenizers())
def test_random_changes(name: str) -> None:
    assert change_at_random(name, 1, 150, 400) == 150
    assert change_at_random(name, 2, 80, 400, "text") == 80


@pytest.mark.campaign
@pytest.mark.parametrize("name", usual_tokenizers())
def test_many_random_changes(name: str) -> None:
    for seed in range(10, 22):
        assert change_at_random(name, seed, 1000, 600) == 1000
        assert change_at_random(name, seed, 1000, 3000, "text") == 1000


#: Sizes that only long texts reach, made small enough for short ones: parts, anchors, reaches, blocks.
SMALL: list[tuple[ModuleType, dict[str, Any]]] = [
    (engine_module, {"PART": 24, "EVERY": 8, "_COUNTED": 5}),
    (repair, {"EVERY": 8, "_REACH": (2, 5, 12), "_CHECKED": 3, "_OVERLAP": 2, "_APART": 10, "_PROBE": 6}),
    (anchors, {"SPACING": 4}),
    (text_module, {"_BLOCK": 8, "_WIDE_BLOCK": 4}),
]


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, sizes in SMALL:
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("name", usual_tokenizers())
def test_what_long_texts_go_through(name: str) -> None:
    assert change_at_random(name, 3, 120, 200) == 120


@pytest.mark.campaign
@pytest.mark.usefixtures("small_sizes")
@pytest.mark.parametrize("name", tokenizers())
def test_what_many_long_texts_go_through(name: str) -> None:
    for seed in range(30, 36):
        assert change_at_random(name, seed, 1000, 250) == 1000
        assert change_at_random(name, seed, 1000, 250, "text") == 1000


class Sessions(RuleBasedStateMachine):
    """Any order of calls on any number of forks."""

    name = ""
    texts = st.text()
    forks: Bundle[tuple[Session, list[str]]] = Bundle("forks")
    checkpoints: Bundle[tuple[Checkpoint, str]] = Bundle("checkpoints")

    def __init__(self) -> None:
        super().__init__()
        self.record = Record(self.name)

    @initialize(target=forks, text=st.just(""))
    def begin(self, text: str) -> tuple[Session, list[str]]:
        return engine(self.name).session(text), [text]

    def changed(self, fork: tuple[Session, list[str]], text: str, done: str) -> None:
        fork[1][0] = text
        self.record.note(text, fork[0], done)

    @rule(fork=forks, data=st.data())
    def append(self, fork: tuple[Session, list[str]], data: st.DataObject) -> None:
        new = data.draw(self.texts)
        fork[0].append(new)
        self.changed(fork, fork[1][0] + new, f"append({new!r})")

    @rule(fork=forks, data=st.data())
    def edit(self, fork: tuple[Session, list[str]], data: st.DataObject) -> None:
        text, new = fork[1][0], data.draw(self.texts)
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, len(text)))
        fork[0].edit(start, stop, new)
        self.changed(fork, text[:start] + new + text[stop:], f"edit({start}, {stop}, {new!r})")

    @rule(fork=forks, data=st.data())
    def update(self, fork: tuple[Session, list[str]], data: st.DataObject) -> None:
        text = fork[1][0]
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(self.texts)
        fork[0].update(text)
        self.changed(fork, text, f"update({text!r})")

    @rule(fork=forks, data=st.data())
    def truncate(self, fork: tuple[Session, list[str]], data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(fork[1][0])))
        fork[0].truncate(at)
        self.changed(fork, fork[1][0][:at], f"truncate({at})")

    @rule(target=forks, fork=forks)
    def fork(self, fork: tuple[Session, list[str]]) -> tuple[Session, list[str]]:
        return fork[0].fork(), [fork[1][0]]

    @rule(target=checkpoints, fork=forks)
    def checkpoint(self, fork: tuple[Session, list[str]]) -> tuple[Checkpoint, str]:
        return fork[0].checkpoint(), fork[1][0]

    @rule(fork=forks, checkpoint=checkpoints)
    def restore(self, fork: tuple[Session, list[str]], checkpoint: tuple[Checkpoint, str]) -> None:
        ids = fork[0].ids.tolist()
        patch = fork[0].restore(checkpoint[0])
        assert apply(ids, patch) == fork[0].ids.tolist()
        self.changed(fork, checkpoint[1], "restore")

    @invariant()
    def nothing_was_tampered_with(self) -> None:
        assert all(not fork.counters.widenings for fork, _ in self._forks())

    def _forks(self) -> list[tuple[Session, list[str]]]:
        return [value for key, value in self.names_to_values.items() if key.startswith("forks")]

    def teardown(self) -> None:
        for fork, text in self._forks():
            self.record.note(text[0], fork, "the end of the run")
        self.record.judge()


@pytest.mark.parametrize("name", embedded_names())
def test_any_order_of_calls(name: str, request: pytest.FixtureRequest) -> None:
    long = "campaign" in (request.config.getoption("-m") or "") and "not" not in request.config.getoption("-m")
    machine = type("Machine", (Sessions,), {"name": name, "texts": adversarial.texts(few_literals(name), 6)})
    run = machine.TestCase  # type: ignore[attr-defined]
    run.settings = settings(max_examples=500 if long else 12, stateful_step_count=25, deadline=None)
    run("runTest").runTest()
