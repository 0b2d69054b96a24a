"""The English contractions ``'s 't 're 've 'm 'll 'd`` over classes, read from either side.

Four classes of letters are enough, "stmd", "rv", "e" and "l": nothing tells s, t, m and d apart, nor r and v.
A family whose letters have a case besides has "STMD", "RV", "E" and "L" as well.
"""

#: What may follow the apostrophe.
CONTRACTIONS = (("stmd",), ("rv", "e"), ("l", "l"))


def spelled_on(spelled: tuple[str, ...] | None, c: str) -> tuple[str, ...] | None:
    """The letters since an apostrophe and now ``c``, or None once they begin no contraction."""
    if spelled is None:
        return None
    longer = (*spelled, c.lower())
    return longer if any(longer == whole[: len(longer)] for whole in CONTRACTIONS) else None


def spelled_ahead(c: str, ahead: tuple[str, ...]) -> tuple[str, ...]:
    """The longest end of a contraction that ``c`` begins, where ``ahead`` is the longest that follows it."""
    longer = (c.lower(), *ahead[:1])
    while longer and not any(longer == whole[-len(longer) :] for whole in CONTRACTIONS):
        longer = longer[:-1]
    return longer
