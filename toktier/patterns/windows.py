"""What a few neighbouring characters already say about a piece start.

Most positions need no automaton: between two letters, say, with a letter or a space around them, no piece
begins in any text.  :func:`make_windows` asks the machine, for every window of symbols, whether a piece begins
at a given place of it in *all* texts, in *no* text, or whether that depends on what is farther away.  It
explores what the two automata can know at such a place, so the answers hold for texts of any length.

Symbols are atoms and the end marker, and for a later stage of several these once more, for characters at which
an earlier stage begins a piece.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import record
from .bimachine import Machine

#: Bits of a verdict: a piece begins here; that depends on more than the window; the stage may be run apart on
#: what is left of here and on the rest.
BEGINS, UNKNOWN, CLOSES = np.uint8(1), np.uint8(2), np.uint8(4)

_LARGEST = 1 << 20

Bools = NDArray[np.bool_]


@record
class Windows:
    """Verdicts on places, by the symbols around them.

    ``near``: uint8, of shape (symbols,) * 4 or * 3: the two symbols before a place (or the one), and the two from
    there on.

    The rest is for the few places that these leave open, and looks farther: at three symbols before a place, the
    one there, and the one after its run, however long that is.  ``before``: uint16, (symbols,) * 3, numbers what
    the first three tell; ``ahead``: uint16, (symbols, symbols, 2), what the others tell, the last index being
    whether the run is longer than one symbol.  ``far``: uint8, the verdict by these two numbers.
    """

    near: NDArray[np.uint8]
    before: NDArray[np.uint16]
    ahead: NDArray[np.uint16]
    far: NDArray[np.uint8]


#: The names of what :class:`Windows` has.
ARRAYS = ("near", "before", "ahead", "far")


@record
class _Known:
    """What each of some windows tells: ``possible[number[window]]``, a set of states."""

    number: NDArray[np.uint16]
    possible: Bools


def symbol_count(machine: Machine, earlier: bool) -> int:
    """Atoms, the end marker, and both again if there is an earlier stage."""
    return int(machine.oracle.shape[1]) * (2 if earlier else 1)


def closing_symbols(closes: Bools, earlier: bool) -> Bools:
    """Pairs of symbols between which a stage may be run apart, shape (symbols, symbols).

    ``closes``: the pairs of atoms that close for this stage alone.
    """
    padded = np.pad(closes, (0, 1), constant_values=True)  # at either end of a text there is nothing to cut
    if not earlier:
        return padded
    return np.block([[padded, np.ones_like(padded)]] * 2)  # where an earlier stage cuts, this one does


def make_windows(machine: Machine, earlier: bool, closes: Bools) -> Windows | None:
    """The tables of a stage, or None if even those are too large.  ``closes``: see :func:`closing_symbols`."""
    symbols = symbol_count(machine, earlier)
    if symbols**3 > _LARGEST:
        return None
    one = _known(_arriving(machine, symbols), 1)
    two = _one_more(machine, symbols, one)
    three = _one_more(machine, symbols, two)
    ahead = _known(_seeing(machine, symbols), 3)
    close = two if symbols**4 <= _LARGEST else one
    near = _verdicts(machine, close, ahead)[close.number[..., None, None], ahead.number[..., 0]]
    near[..., _forced(machine, symbols), :] = BEGINS
    near |= (closes * CLOSES)[..., None]
    return Windows(near, three.number, ahead.number, _verdicts(machine, three, ahead))


def _verdicts(machine: Machine, before: _Known, ahead: _Known) -> NDArray[np.uint8]:
    """For what is known of both sides of a place: BEGINS, 0, or UNKNOWN."""
    begins = machine.walk >= machine.first  # [walk state, oracle state]
    seen = ahead.possible.T.astype(np.float32)
    sometimes, not_always = (
        (before.possible & where).any(axis=1).astype(np.float32) @ seen > 0 for where in (begins, ~begins)
    )
    return np.where(sometimes & not_always, UNKNOWN, np.where(sometimes, BEGINS, np.uint8(0)))


def _known(possible: Bools, dimensions: int) -> _Known:
    """Sets, the first ``dimensions`` of whose array are those of their windows, without repetition."""
    windows, sets = possible.shape[:dimensions], possible.shape[dimensions:]
    rows = possible.reshape(int(np.prod(windows)), -1)
    packed = np.packbits(rows, axis=1)
    first: dict[bytes, int] = {}  # np.unique compares rows byte by byte
    same = [first.setdefault(row.tobytes(), at) for at, row in enumerate(packed)]
    kept = list(first.values())
    number = np.searchsorted(kept, same)
    return _Known(number.reshape(windows).astype(np.uint16), rows[kept].reshape(-1, *sets))


def _forced(machine: Machine, symbols: int) -> Bools:
    """The symbols at which a piece always begins: the end marker, and where an earlier stage begins one."""
    atoms = machine.oracle.shape[1]
    forced: NDArray[np.bool_] = np.arange(symbols) >= atoms
    forced[atoms - 1 :: atoms] = True
    return forced


def _step(machine: Machine, symbol: int) -> tuple[NDArray[np.uint8], bool, NDArray[np.intp]]:
    """Reading ``symbol`` in front of any oracle state, by the latter.

    Returns the oracle's states at the symbol, whether the walk starts afresh there, and what the symbol before
    it sees of the oracle: its state, or the end of a text.
    """
    atoms = machine.oracle.shape[1]
    now = machine.oracle[:, symbol % atoms]
    forced = bool(_forced(machine, symbol + 1)[symbol])
    seen = np.zeros(len(now), np.intp) if forced else now.astype(np.intp)
    return now, forced, seen


def _arriving(machine: Machine, symbols: int) -> Bools:
    """``[last symbol, walk state, oracle state seen ahead]``: can occur in some text."""
    possible = np.zeros((symbols, *machine.walk.shape), np.bool_)
    while True:
        later = _after(machine, symbols, np.logical_or.reduce(possible, axis=0, keepdims=True))[0]
        if (later == possible).all():
            return possible
        possible = later


def _one_more(machine: Machine, symbols: int, known: _Known) -> _Known:
    """What windows tell that have one more symbol at their end."""
    longer = _known(_after(machine, symbols, known.possible), 2)
    return _Known(longer.number[known.number], longer.possible)


def _after(machine: Machine, symbols: int, possible: Bools) -> Bools:
    """``[set, symbol, walk state, oracle state seen ahead]``, from sets of the last two before the symbol."""
    atoms = machine.oracle.shape[1]
    found = np.zeros((len(possible), symbols, *machine.walk.shape), np.bool_)
    found[:, atoms - 1 :: atoms, 0] = True  # after an end marker anything may follow
    for symbol in range(symbols):
        if (symbol + 1) % atoms == 0:
            continue
        now, forced, seen = _step(machine, symbol)
        which, state, later = np.nonzero(possible[:, :, seen])
        if forced:
            state = np.zeros_like(state)
        found[which, symbol, machine.walk[state, now[later]], later] = True
    return found


def _seeing(machine: Machine, symbols: int) -> Bools:
    """``[symbol, the one after its run, whether that is longer than one, oracle state]``: can occur there."""
    found = np.zeros((symbols, symbols, 2, len(machine.oracle)), np.bool_)
    steps = [_step(machine, symbol) for symbol in range(symbols)]
    for symbol, (now, _, seen) in enumerate(steps):
        for after, (_, _, ahead) in enumerate(steps):
            found[symbol, after, 0, now[ahead]] = True
            visible = np.zeros(len(now), np.bool_)  # of a run's second symbol, by the first
            visible[seen[ahead]] = True
            count = 0
            while count != (count := int(visible.sum())):
                visible[seen[visible]] = True
            found[symbol, after, 1, now[visible]] = True
    return found
