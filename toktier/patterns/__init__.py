"""Pre-tokenizer patterns: syntax, character sets, and the two ways to run them.

``syntax`` reads a pattern, ``charsets`` asks the reference engine what its
character sets contain, ``atoms`` divides the code points into classes that no
set tells apart, ``machine`` derives the finite-state machine that the
``numpy`` backend runs, and ``stdlib`` writes the same pattern for the standard
library's ``re``, which the ``python`` backend runs.
"""
