"""Character by character: what the machines know of a text and where it may be cut, for ``inspect --trace``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import BackendUnsupportedError
from ..patterns.machine import Machine
from ..patterns.stages import machines_of
from ..plan import certificate_plan
from .report import _vocabulary

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Step:
    """One character of the normalized text, at ``position``.

    ``atom``: the class of characters that it is in, None within an added token and for tokenizers without stages.
    ``walk``, ``oracle``: for each stage, the walk's state before the character (0: a text begins there) and the
    oracle's at it; see :mod:`~toktier.patterns.machine`.  ``begins``: a piece begins with it.  ``cut``: what is
    certified of a cut directly before it.
    """

    position: int
    char: str
    atom: int | None
    walk: tuple[int, ...]
    oracle: tuple[int, ...]
    begins: bool
    cut: Literal["restarts", "closes"] | None

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)


def trace(tokenizer: Tokenizer, text: str) -> list[Step]:
    """Run the stages over a text and write down every state.

    Added tokens are cut out first, and each stretch between them is a text of its own.  Raises
    :class:`~toktier.errors.BackendUnsupportedError` where there are no stages that could be run.
    """
    front, found = tokenizer._front, tokenizer._compiled
    plan = certificate_plan(found.pipeline, _vocabulary(tokenizer))
    reason = front.unsupported or (plan if isinstance(plan, str) else None)
    if isinstance(plan, str) or reason is not None:
        raise BackendUnsupportedError(f"{tokenizer.name} cannot be traced: {reason}")
    text = tokenizer._check_chunk(text)
    atoms, machines = machines_of(plan.stages)
    prepared = front.prepare(text)
    cuts = _cuts(tokenizer, text, prepared.unchanged)
    steps: list[Step] = []

    def add(char: str, atom: int | None, walk: tuple[int, ...], oracle: tuple[int, ...], begins: bool) -> None:
        at = len(steps)
        steps.append(Step(at, char, atom, walk, oracle, begins, cuts.get(at)))

    def add_gap(gap: str) -> None:
        if not machines:
            for place, char in enumerate(gap):
                add(char, None, (), (), place == 0)
            return
        read = atoms.of_code_point[[ord(char) for char in gap]].tolist()
        walks, oracles, begins = run_machines(machines, read)
        for i, atom in enumerate(read):
            walk, oracle = tuple(states[i] for states in walks), tuple(states[i] for states in oracles)
            add(gap[i], atom, walk, oracle, begins[i])

    at = 0
    for start, stop in zip(prepared.starts.tolist(), prepared.stops.tolist(), strict=True):
        add_gap(prepared.text[at:start])
        for place in range(start, stop):
            add(prepared.text[place], None, (), (), place == start)
        at = stop
    add_gap(prepared.text[at:])
    return steps


def _cuts(tokenizer: Tokenizer, text: str, unchanged: bool) -> dict[int, Literal["restarts", "closes"]]:
    """Certified cuts by their place in the normalized text.

    What the normalizer makes of the left side of a cut is the left part of what it makes of the text.
    """
    closing = set(tokenizer.cuts(text, closes=True).tolist())
    found: dict[int, Literal["restarts", "closes"]] = {}
    for cut in tokenizer.cuts(text).tolist():
        at = cut if unchanged else len(tokenizer._front.prepare(text[:cut]).text)
        found[at] = "closes" if cut in closing else "restarts"
    return found


def run_machines(
    machines: Sequence[Machine], atoms: Sequence[int]
) -> tuple[list[list[int]], list[list[int]], list[bool]]:
    """Each stage's walk states before the characters, its oracle's at them, and where pieces begin."""
    count = len(atoms)
    walks: list[list[int]] = []
    oracles: list[list[int]] = []
    cut = [False] * count + [True]  # where a stage so far begins a piece, or the text ends
    for machine in machines:
        oracle, walk = [0] * (count + 1), [0] * (count + 1)
        for i in reversed(range(count)):
            oracle[i] = int(machine.oracle[0 if cut[i + 1] else oracle[i + 1], atoms[i]])
        earlier = cut.copy()
        for i in range(count):
            walk[i] = 0 if earlier[i] else walk[i]
            walk[i + 1] = int(machine.walk[walk[i], oracle[i]])
            cut[i] = walk[i + 1] >= machine.first
        walks.append(walk[:count])
        oracles.append(oracle[:count])
    return walks, oracles, cut[:count]
