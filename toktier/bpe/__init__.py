"""Byte-pair encoding of pieces: exact tables, and merging in batches.

``tables`` holds what a vocabulary and its merges say, as arrays, and ``hashing`` finds exact keys in them.
``symbols`` says what merging starts from; ``batch`` merges many words at once, ``word`` one at a time, and
``windows`` words of any length in linear time.  ``pieces`` puts these together, and ``memo`` and ``span_memo``
remember what it gave.
"""
