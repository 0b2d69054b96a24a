"""Places of a text whose token index is known: its sparse checkpoints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import record

#: Anchors are at least so many characters apart.
SPACING = 512


@record
class Anchors:
    """Certified cuts that close, with how many tokens lie before each; immutable.

    ``positions`` (characters) and ``tokens``: int64 of the same shape, ascending.  The first is (0, 0).
    """

    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]

    @classmethod
    def start(cls) -> Anchors:
        """Only the start of the text."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes + self.tokens.nbytes

    @property
    def last(self) -> tuple[int, int]:
        return int(self.positions[-1]), int(self.tokens[-1])

    def before(self, position: int, back: int = 0) -> tuple[int, int]:
        """The last anchor at or before ``position``, or the one ``back`` places further left."""
        at = max(0, int(self.positions.searchsorted(position, "right")) - 1 - back)
        return int(self.positions[at]), int(self.tokens[at])

    def after(self, position: int) -> tuple[int, int] | None:
        """The first anchor at or after ``position``."""
        at = int(self.positions.searchsorted(position))
        return None if at == len(self.positions) else (int(self.positions[at]), int(self.tokens[at]))

    def before_token(self, token: int) -> tuple[int, int]:
        """The last anchor at or before a token."""
        at = int(self.tokens.searchsorted(token, "right")) - 1
        return int(self.positions[at]), int(self.tokens[at])

    def after_token(self, token: int) -> tuple[int, int] | None:
        """The first anchor at or after a token."""
        at = int(self.tokens.searchsorted(token))
        return None if at == len(self.tokens) else (int(self.positions[at]), int(self.tokens[at]))

    def edited(self, low: int, high: int, shift: tuple[int, int]) -> Anchors:
        """Without those strictly between ``low`` and ``high``, those from ``high`` on moved by ``shift``.

        ``shift``: characters and tokens.
        """
        first = int(self.positions.searchsorted(low, "right"))
        last = max(first, int(self.positions.searchsorted(high)))
        return Anchors(
            np.concatenate((self.positions[:first], self.positions[last:] + shift[0])),
            np.concatenate((self.tokens[:first], self.tokens[last:] + shift[1])),
        )

    def with_anchors(self, fresh: Anchors, position: int, token: int) -> Anchors:
        """With those of ``fresh`` as well, whose positions and tokens are counted from these two on."""
        if not len(fresh):
            return self
        positions, kept = np.unique(np.append(self.positions, fresh.positions + position), return_index=True)
        return Anchors(positions, np.append(self.tokens, fresh.tokens + token)[kept])

    def with_anchor(self, position: int, token: int) -> Anchors:
        """With one more, unless there is one closer than :data:`SPACING`."""
        at = len(self) if position > self.last[0] else int(self.positions.searchsorted(position))
        if position - self.positions[at - 1] < SPACING:
            return self
        if at < len(self.positions) and self.positions[at] - position < SPACING:
            return self
        return Anchors(
            np.concatenate((self.positions[:at], [position], self.positions[at:])),
            np.concatenate((self.tokens[:at], [token], self.tokens[at:])),
        )


NO_ANCHORS = Anchors(np.empty(0, np.int64), np.empty(0, np.int64))
