"""The engines, behind one small protocol (:mod:`toktier.backends.base`).

``reference`` is Hugging Face ``tokenizers`` itself, ``python`` the readable path and the fastest one for short
texts, ``numpy`` the fast path for long ones.
"""
