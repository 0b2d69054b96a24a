"""Every exception that TokTier raises on purpose.

Each class also derives from the built-in exception that a caller would expect
(``ValueError``, ``TypeError``, ``LookupError``), so that code written for
another tokenizer keeps working.  A message says what was wrong, where, and
what to do about it.
"""

from __future__ import annotations


class TokTierError(Exception):
    """Base class of all errors raised by TokTier."""


class TextTypeError(TokTierError, TypeError):
    """The input is not a ``str`` (``bytes`` instead of text, for example)."""


class LoneSurrogateError(TokTierError, ValueError):
    """The text holds a lone surrogate, which no UTF-8 text can contain.

    ``index`` is the character position of the first one.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class InvalidUTF8Error(TokTierError, ValueError):
    """A file or stream is not UTF-8; ``offset`` is the position of the first bad byte."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class UnknownTokenizerError(TokTierError, LookupError):
    """No tokenizer of this name is embedded, on disk, or in the local hub cache."""


class ArtifactError(TokTierError, ValueError):
    """A ``tokenizer.json`` is damaged, truncated, or not one at all."""


class UnknownBackendError(TokTierError, LookupError):
    """The ``backend=`` argument names no backend."""


class BackendUnsupportedError(TokTierError, ValueError):
    """The backend asked for cannot run this tokenizer exactly; the message says why."""


class SpecialTokenError(TokTierError, ValueError):
    """The text contains a special token and the call said ``special="raise"``.

    ``token`` is its text and ``index`` its character position.
    """

    def __init__(self, message: str, token: str, index: int) -> None:
        super().__init__(message)
        self.token = token
        self.index = index


class ReferenceFailedError(TokTierError, RuntimeError):
    """The reference gave up on what only it can run (its regular expression engine has limits, for example)."""


class TokenIdError(TokTierError, ValueError):
    """A value given as a token id is not an unsigned 32-bit integer."""


class OptionError(TokTierError, ValueError):
    """A keyword argument has a value outside its documented set."""


class PositionError(TokTierError, IndexError):
    """A position or a range lies outside the text, or outside the ids, of a session."""


class PositionTypeError(PositionError, TypeError):
    """A position in a session is not an integer."""


class CheckpointError(TokTierError, ValueError):
    """A checkpoint was taken under another tokenizer or with other settings than those of the session."""


class UnsupportedPatternError(TokTierError, ValueError):
    """A pre-tokenizer pattern uses syntax that the derivation does not cover.

    ``position`` is the index in the pattern at which the construct begins.
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class ChatTemplateError(TokTierError, ValueError):
    """A chat template is missing, is not valid, or does not take the messages that it was given."""


class TokenOriginError(TokTierError, ValueError):
    """Whether a special token in a rendered chat is the template's or a message's cannot be told.

    ``token`` is its text and ``index`` its character position in the rendered chat.
    """

    def __init__(self, message: str, token: str, index: int) -> None:
        super().__init__(message)
        self.token = token
        self.index = index


class MissingDependencyError(TokTierError, ImportError):
    """An optional package that the call needs is not installed, or too old."""


class WrongArtifactError(TokTierError, ValueError):
    """A session of a store was made under another artifact, or with special tokens treated in another way."""


class SessionUnavailableError(TokTierError, RuntimeError):
    """The store is closed, or the session was discarded, or it was being changed at the moment of a fork."""
