"""The ``jax`` backend: the whole way from bytes to ids as one compiled function, for an accelerator.

It is the paper's second path (section 4): UTF-8 decoding, atoms, piece starts, whole-piece look-up and BPE with no
host in between.  Nothing here is imported before the backend is asked for: ``import toktier`` needs no JAX.
"""
