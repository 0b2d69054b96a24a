"""Pre-tokenizer patterns: syntax, character sets, and the two ways to run them.

``syntax`` reads a pattern, ``charsets`` asks the reference engine what its character sets contain, ``atoms``
divides the code points into classes that no set tells apart, and ``machine`` derives the finite-state machine.
``windows`` computes from it what a few neighbouring characters decide, and ``lanes`` runs both with numpy.
``stdlib`` writes the same pattern for the standard library's ``re``, which the ``python`` backend runs.
"""
