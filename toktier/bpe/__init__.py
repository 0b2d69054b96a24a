"""Byte-pair encoding of pieces: exact tables, and merging in batches.

``tables`` holds what a vocabulary and its merges say, as arrays; ``hashing`` finds exact keys in them;
``batch`` merges many words at once and ``word`` one word at a time; ``windows`` encodes pieces of any length in
linear time; ``pieces`` puts these together behind a bounded memo.
"""
