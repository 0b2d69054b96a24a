"""The stand-in of a text, over which the standard library's ``re`` finds the pieces.

ASCII characters are themselves, and any other is :data:`STAND_IN` plus the number of its atom; an ASCII text is
its own stand-in.
"""

STAND_IN = 0x80
