"""What :meth:`toktier.Tokenizer.explain` tells: which part runs where, and why."""

from __future__ import annotations

from typing import Any

from .records import fields, record


def counted(number: int, thing: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@record
class Explanation:
    """A tokenizer's route.  ``print`` it, or take :meth:`as_dict` for JSON.

    ``fallbacks`` pairs each part that the reference runs with the reason.  ``certificate`` says what is known
    about safe cuts: how many pairs of character classes (atoms) a text may be cut between.  ``limits``: the
    artifact's own truncation and padding, empty if it has none.
    """

    name: str
    fingerprint: str
    tokenizers_version: str
    backend: str
    backends: tuple[str, ...]
    stages: int
    atoms: int
    certificate: str
    limits: str
    fallbacks: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {name: getattr(self, name) for name in fields(self)}

    def __str__(self) -> str:
        splitting = f"{counted(self.stages, 'stage')} over {counted(self.atoms, 'atom')}"
        rows = [
            ("tokenizer", self.name),
            ("fingerprint", self.fingerprint),
            ("reference", f"tokenizers {self.tokenizers_version}"),
            ("backend", f"{self.backend} (of {', '.join(self.backends)})"),
            ("splitting", splitting if self.atoms else "by the reference"),
            ("certificate", self.certificate),
        ]
        if self.limits:
            rows.append(("limits", self.limits))
        rows += [("falls back", f"{part}: {reason}") for part, reason in self.fallbacks]
        return "\n".join(f"{label:12} {value}" for label, value in rows)
