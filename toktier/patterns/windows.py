"""What a few neighbouring characters already say about a piece start.

Most positions need no automaton: between two letters, say, with a letter or a space around them, no piece
begins in any text.  :func:`window_table` asks the machine, for every window of symbols, whether a piece begins
at a given place of it in *all* texts, in *no* text, or whether that depends on what is farther away.  It
explores what the two automata can know at such a place, so the answers hold for texts of any length.

Symbols are atoms and the end marker, and for a later stage of several these once more, for characters at which
an earlier stage begins a piece.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .bimachine import Machine

#: Bits of a table's entries: a piece begins here; that depends on more than the window; the stage may be run
#: apart on what is left of here and on the rest.
BEGINS, UNKNOWN, CLOSES = np.uint8(1), np.uint8(2), np.uint8(4)

_LARGEST = 1 << 20


def symbol_count(machine: Machine, earlier: bool) -> int:
    """Atoms, the end marker, and both again if there is an earlier stage."""
    return int(machine.oracle.shape[1]) * (2 if earlier else 1)


def closing_symbols(closes: NDArray[np.bool_], earlier: bool) -> NDArray[np.bool_]:
    """Pairs of symbols between which a stage may be run apart, shape (symbols, symbols).

    ``closes``: the pairs of atoms that close for this stage alone.
    """
    padded = np.pad(closes, (0, 1), constant_values=True)  # at either end of a text there is nothing to cut
    if not earlier:
        return padded
    return np.block([[padded, np.ones_like(padded)]] * 2)  # where an earlier stage cuts, this one does


def window_table(machine: Machine, earlier: bool, closes: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
    """A table over windows of symbols, of shape (symbols,) * 4 or * 3, or None if even that is too large.

    The windows are the two symbols before a place (or the one) and the two from there on.  ``closes``: see
    :func:`closing_symbols`.
    """
    symbols = symbol_count(machine, earlier)
    if symbols**3 > _LARGEST:
        return None
    before = _arriving(machine, symbols)
    if symbols**4 <= _LARGEST:
        before = _one_more(machine, symbols, before)
    right = _seeing(machine, symbols)
    begins = machine.walk >= machine.first  # [walk state, oracle state]
    history = before.shape[1:-1]
    flat = before.reshape(len(before), -1, before.shape[-1])
    can = (flat & begins[:, None, :]).any(axis=0).astype(np.float32)
    cannot = (flat & ~begins[:, None, :]).any(axis=0).astype(np.float32)
    seen = right.reshape(len(right), -1).astype(np.float32)
    sometimes = (can @ seen > 0).reshape(*history, symbols, symbols)
    not_always = (cannot @ seen > 0).reshape(*history, symbols, symbols)
    forced = _forced(machine, symbols)
    sometimes[..., forced, :], not_always[..., forced, :] = True, False
    table = np.where(sometimes & not_always, UNKNOWN, np.where(sometimes, BEGINS, np.uint8(0)))
    table |= (closes * CLOSES)[..., None]
    return table.astype(np.uint8)


def _forced(machine: Machine, symbols: int) -> NDArray[np.bool_]:
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


def _arriving(machine: Machine, symbols: int) -> NDArray[np.bool_]:
    """``[walk state, last symbol, oracle state seen ahead]``: can occur in some text."""
    atoms = machine.oracle.shape[1]
    count = len(machine.oracle)
    found = np.zeros((len(machine.walk), symbols, count), np.bool_)
    found[0, atoms - 1 :: atoms] = True  # after an end marker anything may follow
    while True:
        total = int(found.sum())
        states = np.any(found, axis=1)  # [walk state, oracle state seen ahead]
        for symbol in range(symbols):
            if (symbol + 1) % atoms == 0:
                continue
            now, forced, seen = _step(machine, symbol)
            for state in range(len(machine.walk)):
                later = np.flatnonzero(states[state, seen])
                target = machine.walk[0 if forced else state, now[later]]
                found[target, symbol, later] = True
        if int(found.sum()) == total:
            return found


def _one_more(machine: Machine, symbols: int, arriving: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``[walk state, last symbol but one, last symbol, oracle state seen ahead]``."""
    atoms = machine.oracle.shape[1]
    found = np.zeros((arriving.shape[0], symbols, *arriving.shape[1:]), np.bool_)
    for symbol in range(symbols):
        if (symbol + 1) % atoms == 0:
            found[0, :, symbol] = True
            continue
        now, forced, seen = _step(machine, symbol)
        for state in range(len(machine.walk)):
            possible = arriving[state][:, seen]  # [last symbol but one, oracle state ahead of `symbol`]
            target = machine.walk[0 if forced else state, now]
            for later in np.flatnonzero(possible.any(axis=0)).tolist():
                found[target[later], :, symbol, later] |= possible[:, later]
    return found


def _seeing(machine: Machine, symbols: int) -> NDArray[np.bool_]:
    """``[oracle state, symbol, next symbol]``: the state can occur at the first of the two."""
    count = len(machine.oracle)
    ahead = np.zeros((symbols, count), np.bool_)  # what is seen of the next symbol
    for symbol in range(symbols):
        ahead[symbol, _step(machine, symbol)[2]] = True
    found = np.zeros((count, symbols, symbols), np.bool_)
    for symbol in range(symbols):
        now = _step(machine, symbol)[0]
        for later in range(count):
            found[now[later], symbol, ahead[:, later]] = True
    return found
