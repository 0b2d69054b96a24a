"""What a ``Split`` makes of matches and gaps, written as a pattern.

The reference cuts a text into matches and gaps, in turn or matches in a row, swaps the two names if ``invert``
is set, and then joins some of them to pieces:

=====================  ====================================================================
``Isolated``           none
``Removed``            none, but matches are left out of the text
``Contiguous``         a match and the match after it; a gap and the gap after it
``MergedWithPrevious``  a match and the gap before it
``MergedWithNext``     a match and the gap after it
=====================  ====================================================================

Each is again a pattern that is applied as in ``Isolated``: one whose matches, and the gaps that it leaves, are
the pieces.

A match of no characters cuts the gap that it stands in, whatever it is joined to: ``(?=(\\d{3})+(?!\\d))``, which
puts digits in groups from the right.
"""

from __future__ import annotations

from .syntax import ANY, Alternation, Concat, LookAhead, Node, One, Repeat, consumes_nothing

BEHAVIORS = ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext")


def pieces_of(match: Node, behavior: str, invert: bool) -> Node:
    """The pattern of the pieces of a ``Split`` at ``match``, those that it removes included."""
    if behavior != "Removed" and consumes_nothing(match):
        return Concat((One(ANY), Repeat(Concat((LookAhead(match, True), One(ANY))), 0, None, False)))
    if behavior == "Contiguous":  # of gaps there are no two in a row
        return Repeat(match, 1, None, False)
    if behavior in ("Isolated", "Removed"):
        return match
    gap = Repeat(Concat((LookAhead(match, True), One(ANY))), 1, None, False)
    if (behavior == "MergedWithPrevious") != invert:
        return Alternation((Concat((gap, Repeat(match, 0, 1, False))), match))
    return Alternation((Concat((match, Repeat(gap, 0, 1, False))), gap))
