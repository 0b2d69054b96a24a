"""What happens to the model's ids afterwards: truncation, special ids, padding.

This is the end of the reference's ``encode`` for a single sequence, in its order:
cut the model's ids down to ``max_length`` less the special ids that will be added, put
the special ids around them, and pad.  Offsets go the same way, so the trimming steps of
the post-processor are kept here too; :mod:`toktier.offsets` applies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .arguments import check_flag
from .errors import OptionError
from .pipeline import (
    ByteLevelOffsets,
    Other,
    Padding,
    Pipeline,
    PostProcessorSequence,
    Template,
    Truncation,
)
from .pipeline import PostProcessor as PostProcessorPart
from .records import record

_MAX_LENGTH = 2**64 - 1  # the reference's counter is an unsigned 64-bit integer


@record
class PostProcessor:
    """Truncation, the special ids around a single sequence, and padding.

    ``prefix``, ``suffix``
        Special ids that ``add_special_tokens=True`` puts before and after the text's ids.
    ``trims``
        One entry for each step that trims white space off offsets: its ``add_prefix_space``.
    ``truncation``, ``padding``
        The artifact's own settings, or None.
    ``unsupported``
        Why only the reference can run this post-processor, or None.
    ``keeps_text``
        Whether the text's own ids stay as they are; not so where a template names the text twice.
    """

    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    trims: tuple[bool, ...] = ()
    truncation: Truncation | None = None
    padding: Padding | None = None
    unsupported: str | None = None
    keeps_text: bool = True

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> PostProcessor:
        """Collect what ``pipeline`` says about the time after the model."""
        steps = _steps(pipeline.post_processor)
        template = next((step for step in steps if isinstance(step, Template)), Template((), ()))
        return cls(
            prefix=template.prefix,
            suffix=template.suffix,
            trims=tuple(
                step.add_prefix_space for step in steps if isinstance(step, ByteLevelOffsets) and step.trim_offsets
            ),
            truncation=pipeline.truncation,
            padding=pipeline.padding,
            unsupported=_unsupported(steps, pipeline.truncation),
            keeps_text=not any(isinstance(step, Other) for step in steps),
        )

    def limit(self, add_special_tokens: bool = True, max_length: int | None = None) -> int | None:
        """How many of the model's ids are kept at most; None if all are.

        ``max_length`` replaces the artifact's own truncation for this call, as
        ``enable_truncation(max_length)`` does in the reference, but keeps its direction.
        A ``max_length`` that does not even hold the special ids makes the reference's
        unsigned counter wrap around, and nothing is cut; the same holds here.

        Raises :class:`~toktier.errors.OptionError` if ``max_length`` is negative or no integer, or
        ``add_special_tokens`` no truth value.
        """
        second_text = isinstance(add_special_tokens, str | list | tuple)
        check_flag("add_special_tokens", add_special_tokens, "; for two texts call twice" if second_text else "")
        if max_length is not None:
            _check_max_length(max_length)
            total = int(max_length)
        elif self.truncation is not None:
            total = self.truncation.max_length
        else:
            return None
        kept = total - (len(self.prefix) + len(self.suffix) if add_special_tokens else 0)
        return kept if kept >= 0 else None

    def room(self, add_special_tokens: bool = True, max_length: int | None = None) -> int | None:
        """How many ids the model has to deliver from the start of the text; None: all.

        An engine may stop once it has this many, because truncation drops the rest.
        Truncation on the left keeps the last ids, so then all of them are wanted.
        """
        if self.truncation is not None and self.truncation.direction == "Left":
            return None
        return self.limit(add_special_tokens, max_length)

    def kept(self, count: int, add_special_tokens: bool = True, max_length: int | None = None) -> slice:
        """The slice of ``count`` model ids (or of their offsets) that truncation leaves."""
        limit = self.limit(add_special_tokens, max_length)
        if limit is None or limit >= count:
            return slice(0, count)
        if self.truncation is not None and self.truncation.direction == "Left":
            return slice(count - limit, count)
        return slice(0, limit)

    def finish(
        self, ids: NDArray[np.uint32], add_special_tokens: bool = True, max_length: int | None = None
    ) -> NDArray[np.uint32]:
        """Truncate, surround and pad the model's ids of one text.

        ``ids`` has shape (n,) and dtype uint32, and so has the result, which may be ``ids``
        itself or a view of it.  Raises :class:`~toktier.errors.OptionError` for a bad
        ``max_length``.
        """
        if max_length is None and self.truncation is None and self.padding is None and not add_special_tokens:
            return ids
        whole = self._surround(ids, add_special_tokens, max_length)
        return self._pad(whole, self._padded_length(len(whole)))

    def length(self, count: int, add_special_tokens: bool = True) -> int:
        """How many ids :meth:`finish` makes of ``count`` ids of the model."""
        kept = self.kept(count, add_special_tokens)
        special = len(self.prefix) + len(self.suffix) if add_special_tokens else 0
        whole: int = kept.stop - kept.start + special
        return max(whole, self._padded_length(whole))

    def finish_batch(
        self,
        batch: Sequence[NDArray[np.uint32]],
        add_special_tokens: bool = True,
        max_length: int | None = None,
    ) -> list[NDArray[np.uint32]]:
        """Do the same for several texts; padding without a fixed length goes to the longest."""
        rows = [self._surround(ids, add_special_tokens, max_length) for ids in batch]
        length = self._padded_length(max(map(len, rows), default=0))
        return [self._pad(row, length) for row in rows]

    def finish_offsets(self, spans: NDArray[np.int64], add_special_tokens: bool = True) -> NDArray[np.int64]:
        """Put ``(0, 0)`` beside ``spans`` for every special and padding id.

        ``spans`` has shape (n, 2), one row for each id that :meth:`kept` leaves; the result
        has one row for each id of :meth:`finish`.
        """
        before = len(self.prefix) if add_special_tokens else 0
        after = len(self.suffix) if add_special_tokens else 0
        length = before + len(spans) + after
        fill = max(0, self._padded_length(length) - length)
        if self.padding is not None and self.padding.direction == "Left":
            before += fill
        else:
            after += fill
        if not before and not after:
            return spans
        return np.pad(spans, ((before, after), (0, 0)))

    def _surround(
        self, ids: NDArray[np.uint32], add_special_tokens: bool, max_length: int | None
    ) -> NDArray[np.uint32]:
        if max_length is not None or self.truncation is not None:
            ids = ids[self.kept(len(ids), add_special_tokens, max_length)]
        if not add_special_tokens or not (self.prefix or self.suffix):
            return ids
        return np.concatenate((_array(self.prefix), ids, _array(self.suffix)))

    def _padded_length(self, longest: int) -> int:
        if self.padding is None:
            return longest
        length = longest if self.padding.length is None else self.padding.length
        return length + -length % (self.padding.pad_to_multiple_of or 1)

    def _pad(self, ids: NDArray[np.uint32], length: int) -> NDArray[np.uint32]:
        if self.padding is None or length <= len(ids):
            return ids
        row = np.full(length, self.padding.pad_id, np.uint32)
        start = length - len(ids) if self.padding.direction == "Left" else 0
        row[start : start + len(ids)] = ids
        return row


@cache
def _array(ids: tuple[int, ...]) -> NDArray[np.uint32]:
    """Special ids as an array, which takes longer to make than to join to those of a short text."""
    return np.array(ids, np.uint32)


def _steps(part: PostProcessorPart | None) -> tuple[PostProcessorPart, ...]:
    """The post-processor as a flat sequence of steps."""
    if part is None:
        return ()
    if isinstance(part, PostProcessorSequence):
        return tuple(step for inner in part.steps for step in _steps(inner))
    return (part,)


def _unsupported(steps: Sequence[PostProcessorPart], truncation: Truncation | None) -> str | None:
    for step in steps:
        if isinstance(step, Other):
            return f"post-processor {step.type} has a shape that only the reference runs"
    templates = [step for step in steps if isinstance(step, Template)]
    if len(templates) > 1:
        return "several post-processor steps in a row add special tokens"
    if truncation is None:
        return None
    if truncation.strategy == "OnlySecond":
        return "truncation strategy OnlySecond fails in the reference on a single text that is too long"
    special = sum(len(step.prefix) + len(step.suffix) for step in templates)
    if truncation.stride >= max(1, truncation.max_length - special):
        return "the truncation stride is not below max_length, which fails in the reference on a long text"
    return None


def _check_max_length(max_length: int) -> None:
    if isinstance(max_length, bool) or not isinstance(max_length, (int, np.integer)):
        raise OptionError(f"max_length must be an integer or None, not {type(max_length).__name__}")
    if not 0 <= max_length <= _MAX_LENGTH:
        raise OptionError(f"max_length must be between 0 and 2**64 - 1, not {max_length}")
