"""What ``toktier inspect`` shows of a text: normalized form, added tokens, pieces, and their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from ..bpe.pieces import PieceEncoder
from ..pipeline import BPE
from ..tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece at ``start..stop`` (characters of the normalized text) and its tokens: ids and bytes.

    ``added`` says that it is an added token, cut out before the pre-tokenizer saw the text.
    """

    text: str
    start: int
    stop: int
    added: bool
    tokens: tuple[tuple[int, bytes], ...]


class TokenBytes:
    """The bytes that a single id stands for; none if nobody has the id."""

    def __init__(self, tok: Tokenizer) -> None:
        self._model = tok._compiled.tokens
        self._added = {t.id: t.content.encode() for t in tok._compiled.pipeline.added_tokens}

    def __getitem__(self, id: int) -> bytes:
        if id in self._added:
            return self._added[id]
        if id >= len(self._model.present):
            return b""
        start, stop = self._model.offsets[id : id + 2].tolist()
        return self._model.blob[start:stop].tobytes()


def shown(token: bytes) -> str:
    """A token as Python would write it: a string, or bytes where a character is incomplete."""
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return repr(token)


def model_kind(tok: Tokenizer) -> str:
    """For example ``byte-level BPE``."""
    model = tok._compiled.pipeline.model
    if not isinstance(model, BPE):
        return model.type
    return "byte-level BPE" if tok._compiled.alphabet else "BPE"


def pieces_of(tok: Tokenizer, text: str) -> tuple[str, list[Piece]]:
    """The normalized text and its pieces.

    Raises :class:`~toktier.errors.BackendUnsupportedError` for a tokenizer that only the reference can run: it
    shows no pieces.
    """
    normal, starts = tok.piece_starts(text, backend="python")
    prepared = tok._front.prepare(text)
    engine = tok._compiled.engine
    assert engine is not None
    added = dict(zip(prepared.starts.tolist(), prepared.ids.tolist(), strict=True))
    encoder = PieceEncoder(engine.pieces, tok._reference_piece)
    names = TokenBytes(tok)
    pieces = []
    for start, stop in pairwise([*starts.tolist(), len(normal)]):
        piece = normal[start:stop]
        ids = [added[start]] if start in added else encoder.encode([piece.encode()])[0].tolist()
        tokens = tuple((id, names[id]) for id in ids)
        pieces.append(Piece(piece, start, stop, start in added, tokens))
    return normal, pieces
