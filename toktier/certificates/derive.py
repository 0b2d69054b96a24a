"""The certificate of an artifact: which of two neighbouring characters a text may be cut between.

Everything that speaks about a place of a text by its two characters comes together here: the relations of the
pre-tokenizer (:mod:`~toktier.certificates.relation`) or the barriers of a model without one
(:mod:`~toktier.certificates.barriers`), the normalizer (:mod:`~toktier.certificates.normalizers`) and the added
tokens (:mod:`~toktier.certificates.literals`).  Code points that all of them treat alike are a class, and what is
left is one small table over pairs of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedPatternError
from ..normalization import has_prefix
from ..patterns.charsets import CODE_POINTS
from ..patterns.stages import machines_of
from ..patterns.syntax import Node
from ..pipeline import Pipeline
from ..plan import CertificatePlan, certificate_plan
from .barriers import CODE_POINT_BITS, adjacent_pairs, mergeable
from .certificate import ASK, CLOSES, ENDS, RESTARTS, Certificate
from .literals import Literals, inner_pairs, literals_of
from .normalizers import Seams, seams
from .relation import Relation, derive_relation

_MOST_CLASSES = 255
_MARK = "\u2581"
#: The atom of all characters that are not told apart, in a certificate about barriers.
_OTHERS = 0x80


def derive_certificate(
    pipeline: Pipeline, vocabulary: Mapping[str, int], inert: Mapping[str, NDArray[np.bool_]]
) -> Certificate:
    """Derive it, or say in ``refusal`` why that cannot be done."""
    plan = certificate_plan(pipeline, vocabulary)
    if isinstance(plan, str):
        return _refused(plan)
    seam = seams(pipeline.normalizer, inert)
    if isinstance(seam, str):
        return _refused(seam)
    try:
        if plan.barriers:
            adjacent = adjacent_pairs(mergeable(vocabulary))
            atom_of, relation = _ascii_atoms(adjacent)
        else:
            adjacent = np.empty(0, np.uint64)
            atom_of, relation = _relation(plan)
        prefix = plan.prefix or has_prefix(pipeline.normalizer)
        class_of, table = _classes(
            atom_of,
            relation,
            seam,
            literals_of(pipeline, inert),
            barriers=plan.barriers,
            token_ends=plan.token_ends,
            prefix=prefix,
        )
    except UnsupportedPatternError as problem:
        return _refused(str(problem))
    changed = np.flatnonzero(seam.allowed & (seam.mapped != np.arange(CODE_POINTS)))
    return Certificate(
        None,
        prefix,
        relation.states,
        atom_of,
        relation.restarts,
        relation.closes,
        adjacent,
        class_of,
        table,
        np.column_stack((changed, seam.mapped[changed])),
    )


def _refused(reason: str) -> Certificate:
    none = np.zeros((1, 1), np.bool_)
    atoms = np.zeros(0, np.uint8)
    return Certificate(
        reason,
        False,
        0,
        atoms,
        none,
        none,
        np.empty(0, np.uint64),
        atoms,
        np.zeros((1, 1), np.uint8),
        np.empty((0, 2), np.int64),
    )


def _relation(plan: CertificatePlan) -> tuple[NDArray[np.uint8], Relation]:
    atoms, machines = machines_of(plan.stages)
    if any(c and m.has_gaps for c, m in zip(plan.covering, machines, strict=True)):
        raise UnsupportedPatternError("what a Split removes is not a matter of single characters", 0)
    return atoms.of_code_point, relation_of(plan.stages)


@lru_cache(maxsize=2)  # the engine of a tokenizer with one stage asks for the same
def relation_of(stages: tuple[Node, ...]) -> Relation:
    """The relation of stages in a row; see :func:`~toktier.certificates.relation.derive_relation`."""
    atoms, machines = machines_of(stages)
    return derive_relation(machines, atoms.count)


def _ascii_atoms(adjacent: NDArray[np.uint64]) -> tuple[NDArray[np.uint8], Relation]:
    """Every ASCII character and the word mark for themselves, and all others together.

    Whether two of the latter may be parted is looked up pair by pair, so they count as a pair that may.
    """
    atom_of = np.full(CODE_POINTS, _OTHERS, np.uint8)
    atom_of[:_OTHERS] = np.arange(_OTHERS)
    atom_of[ord(_MARK)] = _OTHERS + 1
    first, second = adjacent >> np.uint64(CODE_POINT_BITS), adjacent & np.uint64((1 << CODE_POINT_BITS) - 1)
    one, other = atom_of[first.astype(np.int64)], atom_of[second.astype(np.int64)]
    known = (one != _OTHERS) & (other != _OTHERS)
    apart = np.ones((_OTHERS + 2, _OTHERS + 2), np.bool_)
    apart[one[known], other[known]] = False
    return atom_of, Relation(apart, apart, 1)


def _classes(
    atom_of: NDArray[np.uint8],
    relation: Relation,
    seam: Seams,
    literals: Literals,
    *,
    barriers: bool,
    token_ends: bool,
    prefix: bool,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Code points that every condition treats alike, and the table over pairs of them."""
    features = _features(literals, seam)
    variants, variant = _variants(atom_of, seam)
    code = np.where(seam.allowed, atom_of[seam.mapped].astype(np.int64) + 1, 0) * len(variants)
    code += np.where(seam.allowed, variant, 0)
    for name, marked in features.items():
        code = code * 2 + (marked & (seam.allowed | (name == "end")))
    runs = np.flatnonzero(np.diff(code, prepend=-1))  # neighbours are alike, more often than not
    kinds, class_of_run = np.unique(code[runs], return_inverse=True)
    class_of = np.repeat(class_of_run, np.diff(runs, append=len(code)))
    if len(kinds) > _MOST_CLASSES:
        raise UnsupportedPatternError("the added tokens and the pre-tokenizer tell too many characters apart", 0)
    rest, variant = np.divmod(kinds >> len(features), len(variants))
    atom = rest - 1
    bits = {name: (kinds >> shift & 1).astype(np.bool_) for shift, name in enumerate(reversed(features))}
    before = {name: has[:, None] for name, has in bits.items()}
    white = bits["white space"]
    # a token may absorb white space, and begin or end with a character that is not allowed and so in no class

    usable = (atom >= 0)[:, None] & (atom >= 0)
    usable &= ~before["word last"] & ~bits["word first"]
    usable &= ~(before["strip last"] & white | before["white space"] & bits["strip first"])
    usable &= ~(before["white space"] & white)
    usable &= ~(before["normalized before"] & bits["normalized behind, composed"])
    if prefix:  # what follows an added token, and the white space that goes with it, is a text of its own
        usable &= ~(before["white space"] & features["strip last"].any())
    if barriers:  # what the second character becomes would have to be looked up, too
        usable &= variant == 0
    closes = usable & relation.closes[atom[:, None], atom]
    restarts = usable & relation.restarts[atom[:, None], atom]
    for number, atoms in enumerate(variants):  # whatever the second character becomes
        behind = variant == number
        closes[:, behind] &= relation.closes[np.ix_(atom, atoms)].all(axis=1, keepdims=True)
        same = (atom[behind][:, None] == atoms).all(axis=1)  # else the left side might tell one from another
        restarts[:, behind] &= closes[:, behind] | same
    # an added token behind the place would end the left side there; if that matters, it must not absorb its way
    restarts &= closes | ~(white & features["strip first"].any() | bits["first, composed"])

    ask = before["inside before"] & bits["inside behind"]
    ask |= before["normalized before"] & bits["normalized behind"]
    ask |= ~closes & bits["first"]
    if prefix:
        ask |= before["last"]
    if barriers:
        ask |= (atom == _OTHERS)[:, None] | (atom == _OTHERS)
    table = restarts * RESTARTS | closes * CLOSES | (restarts & ask) * ASK
    if token_ends and not prefix:
        table |= before["end"] * ENDS
    return class_of.astype(np.uint8), table.astype(np.uint8)


def _variants(atom_of: NDArray[np.uint8], seam: Seams) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """The sets of atoms that a character at a seam may become a member of, and which of them each has.

    The first of them is empty: the character stays what it is mapped to.
    """
    numbers: dict[tuple[int, ...], int] = {}
    atoms_of = [tuple(sorted({*atom_of[codes].tolist()})) for codes in seam.groups]
    of_group = [numbers.setdefault(atoms, len(numbers)) for atoms in atoms_of]
    return [np.array(atoms, np.int64) for atoms in numbers], np.array(of_group)[seam.group]


def _features(literals: Literals, seam: Seams) -> dict[str, NDArray[np.bool_]]:
    """What the added tokens find noteworthy about raw code points, bool (0x110000,) each.

    A flag is judged in the text in which its token is found; here in both, to be sure.
    """
    edges = {name: _marked(characters) for name, characters in literals.edges().items()}
    inside, normalized = inner_pairs(literals.given), inner_pairs(literals.normalized)
    behind = _marked(pair[1] for pair in normalized)
    ends = edges.pop("end")
    return {name: marked | _anywhere(marked, seam) for name, marked in edges.items()} | {
        "end": ends,
        "inside before": _marked(pair[0] for pair in inside),
        "inside behind": _marked(pair[1] for pair in inside),
        "normalized before": _marked(pair[0] for pair in normalized)[seam.mapped],
        "normalized behind": behind[seam.mapped],
        "normalized behind, composed": _composed(behind, seam),
        "first, composed": _composed(_marked(token.content[0] for token in literals.normalized), seam),
    }


def _anywhere(marked: NDArray[np.bool_], seam: Seams) -> NDArray[np.bool_]:
    """The raw code points that a marked one may come from."""
    found: NDArray[np.bool_] = marked[seam.mapped] | _composed(marked, seam)
    return found


def _composed(marked: NDArray[np.bool_], seam: Seams) -> NDArray[np.bool_]:
    """The raw code points that may become a marked one by what stands behind them."""
    return np.array([bool(marked[codes].any()) for codes in seam.groups])[seam.group]


def _marked(characters: Iterable[str]) -> NDArray[np.bool_]:
    found = np.zeros(CODE_POINTS, np.bool_)
    found[[ord(char) for char in characters]] = True
    return found
