"""The atoms in which the two molecules of a matched pair differ."""

from collections.abc import Sequence
from functools import cache

from rdkit import rdBase

from molattn.chem.edits import Cut, context_of, cuts_of, read_parent
from molattn.chem.pairs import HYDROGEN, MatchedPair, capped_context
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, read_smiles


def changed_atoms(
    smiles: Sequence[str], pairs: Sequence[MatchedPair], *, max_atoms: int = MAX_ATOMS
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The substituent of each molecule of matched pairs, by its atoms: those that only this one of the two has.

    Where equal substituents are at equivalent atoms, it is the first of them.

    Args:
        smiles: the molecules that `matched_pairs` was called with.
        pairs: its result, or some of it.
        max_atoms: largest number of atoms of a molecule.

    Returns:
        For each pair the atoms of `first` and those of `second`, sorted, as indices in their own SMILES; none for a
        hydrogen.

    Raises:
        ValueError: a pair that `matched_pairs` does not find in these molecules.

    >>> from molattn.chem import changed_atoms, matched_pairs
    >>> smiles = ["c1ccccc1OC", "Cc1ccccc1OC", "Oc1ccccc1OC"]
    >>> pairs = matched_pairs(smiles)
    >>> for pair, atoms in zip(pairs, changed_atoms(smiles, pairs)):
    ...     print(pair.transform.removed, pair.transform.added, atoms)
    [*:1][H] C[*:1] ((), (0,))
    [*:1][H] O[*:1] ((), (0,))
    C[*:1] O[*:1] ((0,), (0,))
    """

    @cache
    def cuts(i: int) -> list[tuple[Cut, str]]:
        parent = read_parent(smiles[i], max_atoms)
        return [(cut, context_of(parent, cut)) for cut in cuts_of(parent)]

    @cache
    def whole(i: int) -> str:
        return canonical_smiles(read_smiles(smiles[i], max_atoms=max_atoms), max_atoms=max_atoms)

    def of_hydrogen(i: int, substituent: str, other: int) -> tuple[int, ...] | None:
        """The atoms of the substituent of molecule i without which it is the other one."""
        found = ((cut, context) for cut, context in cuts(i) if cut.smiles == substituent)
        cut = next((cut for cut, context in found if capped_context(context) == whole(other)), None)
        return None if cut is None else tuple(sorted(cut.atoms))

    changed = []
    with rdBase.BlockLogs():
        for pair in pairs:
            i, j, (removed, added, _) = pair
            if removed == HYDROGEN:
                found = None if (atoms := of_hydrogen(j, added, i)) is None else ((), atoms)
            elif added == HYDROGEN:
                found = None if (atoms := of_hydrogen(i, removed, j)) is None else (atoms, ())
            else:
                second = {context: cut for cut, context in reversed(cuts(j)) if cut.smiles == added}
                first = (c for c in cuts(i) if c[0].smiles == removed and c[1] in second)
                match = next(first, None)
                found = None
                if match is not None:
                    found = tuple(sorted(match[0].atoms)), tuple(sorted(second[match[1]].atoms))
            if found is None:
                raise ValueError(f"{pair} is no matched pair of {smiles[i]!r} and {smiles[j]!r}")
            changed.append(found)
    return changed
