"""Playing histories of changes on sessions, and judging what came out, many texts at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import adversarial
import numpy as np
import pytest
from conftest import reference
from judge import AsText, as_text
from numpy.typing import NDArray
from tokenizers import Tokenizer as HuggingFace

from toktier.sessions import Patch, Session


@dataclass
class Record:
    """What a session said, to be compared with the reference later on, in one call.

    ``moments``: the text, the ids, and what had been done.
    """

    name: str
    special: str = "encode"
    moments: list[tuple[str, NDArray[np.uint32], str]] = field(default_factory=list)

    def note(self, text: str, session: Session, done: str) -> None:
        assert session.text == text, done
        self.moments.append((text, session.ids.copy(), done))

    def judge(self) -> int:
        """How many moments there were; fails at the first that the reference sees otherwise."""
        judge: HuggingFace | AsText = as_text(self.name) if self.special == "text" else reference(self.name)
        for batch in self._batches():
            right = judge.encode_batch_fast([text for text, _, _ in batch], add_special_tokens=False)
            for (text, ids, done), encoding in zip(batch, right, strict=True):
                if ids.tolist() != encoding.ids:
                    found, wanted = ids[-80:].tolist(), encoding.ids[-80:]
                    pytest.fail(f"{self.name}: {done} led to {text[-300:]!r} with {found}, not {wanted}")
        return len(self.moments)

    def _batches(self) -> Iterator[list[tuple[str, NDArray[np.uint32], str]]]:
        """Moments of a million characters or so at a time: the reference's results are large."""
        batch, size = [], 0
        for moment in self.moments:
            batch.append(moment)
            size += len(moment[0])
            if size > 1_000_000:
                yield batch
                batch, size = [], 0
        yield batch


def apply(ids: Sequence[int], patch: Patch) -> list[int]:
    """The ids after a patch, as a caller keeps them."""
    return [*ids[: patch.start], *patch.ids.tolist(), *ids[patch.start + patch.removed :]]


@dataclass(frozen=True)
class Change:
    """``text[start:stop]`` gives way to ``new``, by the call ``how``."""

    how: str
    start: int
    stop: int
    new: str

    def after(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.stop :]

    def make(self, session: Session, after: str) -> Patch:
        match self.how:
            case "append":
                return session.append(self.new)
            case "truncate":
                return session.truncate(self.start)
            case "edit":
                return session.edit(self.start, self.stop, self.new)
        return session.update(after)


def random_changes(seed: int, parts: Sequence[str], longest: int) -> Iterator[tuple[Change, str]]:
    """Endless changes of a text made of ``parts``, and the text after each; it stays below ``longest`` or so."""
    random_ = random.Random(seed)
    text = ""
    while True:
        size = len(text)
        new = random_.choice(parts)
        start = random_.randrange(size + 1)
        near_end = max(0, size - random_.randrange(40))
        change = random_.choice(
            (
                Change("append", size, size, new),
                Change("append", size, size, new),
                Change("update", near_end, size, new),
                Change("edit", start, min(size, start + random_.randrange(30)), new),
                Change("update", start, min(size, start + random_.randrange(30)), new),
                Change("truncate", near_end, size, ""),
            )
        )
        if size > longest:
            change = Change("edit", start // 2, size - start // 2, new)
        text = change.after(text)
        yield change, text


def seam_parts(literals: Sequence[str], seed: int, count: int = 400) -> list[str]:
    """Short texts whose ends matter: the adversarial battery, and pieces of what is cut in unlucky places."""
    random_ = random.Random(seed)
    whole = list(adversarial.battery(literals, seed, count))
    lucky = [
        "1234567",
        "   ",
        "\n\n\n",
        "\r",
        "'",
        "s",
        "'l",
        "l ",
        "e",
        "\u0301",
        "\u1112",
        "\u1161\u11ab",
        " x",
        "a b. ",
    ]
    lucky += ["\u200d", "\U0001f469", "\ufe0f", "\t", "\u3000", "x" * 70, " " * 70, "9" * 70, "\u0323\u0301"]
    parts = whole + lucky * (count // 40)
    for literal in random_.sample(sorted(literals), min(10, len(literals))):
        at = random_.randrange(len(literal) + 1)
        parts += [literal, literal[:at], literal[at:], " " + literal, literal + "\n"]
    return [part for part in parts if part]
