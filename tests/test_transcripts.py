"""The generated transcripts: fixed by their seed, and distributed as they promise."""

from __future__ import annotations

import hashlib
import statistics
from itertools import islice

import pytest
from transcripts import FORMS, SIZES, Kind, steps, transcript

KINDS: tuple[Kind, ...] = ("append", "chat", "agent")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_fit_the_text_that_they_change(kind: Kind, form: str) -> None:
    text = ""
    for step in islice(steps(3, kind, form=form, median=200, context=20_000), 300):
        assert 0 <= step.start <= step.stop <= len(text)
        if step.change != "edit":
            assert step.stop == len(text)
        if step.change == "append":
            assert step.start == len(text)
        if step.change == "replace_tail" and kind == "chat":  # an edit may reach into the prompt
            assert text[step.start :].startswith(FORMS[form].generation)
        if step.change == "compact":
            assert len(text) > 20_000
        text = step.apply(text)
        text.encode("utf-8")
    assert text


def test_every_kind_of_change_occurs_where_it_may() -> None:
    seen = {
        kind: {step.change for step in islice(steps(5, kind, median=200, context=10**4), 500)} for kind in KINDS
    }
    assert seen == {
        "append": {"append"},
        "chat": {"append", "replace_tail", "compact"},
        "agent": {"append", "replace_tail", "compact", "edit", "branch"},
    }


def test_sizes_are_distributed_as_they_promise() -> None:
    sizes = [len(step.text) for step in islice(steps(1, "append", context=10**9), 300)]
    assert min(sizes) <= 10
    assert 1_000 < statistics.median(sizes) < 2_000
    assert 60_000 < max(sizes) <= SIZES[-1][1]
    small = [len(step.text) for step in islice(steps(1, "append", median=100, context=10**9), 300)]
    assert 70 < statistics.median(small) < 170


def test_an_append_only_history_ends_beyond_its_context() -> None:
    sizes = [len(step.text) for step in steps(2, "append", context=100_000)]
    assert sum(sizes[:-1]) <= 100_000 < sum(sizes)


def test_the_seed_fixes_the_text() -> None:
    """The digests hold under every version of Python: nothing but ``Random.random()`` is drawn from."""
    assert len(transcript(0, 50_000)) == 50_000
    assert _digest(transcript(0, 50_000)) == "3694d43a4cfb3aee"
    assert _digest(transcript(0, 50_000, form="harmony")) == "2d1879fa92df3a43"
    text = ""
    for step in islice(steps(0, "agent", median=200, context=20_000), 400):
        text = step.apply(text)
    assert _digest(text) == "bd3778039202b86d"
    assert transcript(1, 5_000) != transcript(2, 5_000)


def test_the_text_is_varied() -> None:
    text = transcript(4, 400_000)
    for sample in ("的", "ます", "니다", "الخادم", "सर्वर", "сервера", "เซิร์ฟเวอร์", "👩‍👩‍👧‍👦", "äußerst"):
        assert sample in text
    for sample in (
        "\ndef ",
        '{"name": "',
        "diff --git",
        "ERROR [",
        "$ ls -la",
        "| --- |",
        "\t",
        "\r\n",
    ):
        assert sample in text
    assert len({text[at : at + 40] for at in range(0, 400_000, 40)}) > 9_000


def test_the_standard_library_can_stand_among_the_code() -> None:
    assert 'if __name__ == "__main__":' in transcript(4, 600_000, library=True)
    assert 'if __name__ == "__main__":' not in transcript(4, 600_000)
