"""The atoms in which the two molecules of a matched pair differ."""

from collections.abc import Iterable, Sequence
from functools import cache

from rdkit import rdBase

from molattn.chem.edits import Substituent, context_of, read_parent, substituents_of
from molattn.chem.pairs import HYDROGEN, MatchedPair, capped_context
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, read_smiles
from molattn.errors import as_list


def changed_atoms(
    smiles: Iterable[str], pairs: Sequence[MatchedPair], *, max_atoms: int = MAX_ATOMS
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The atoms in which the two molecules of each matched pair differ: those of the substituents of its transform.

    If a molecule has the same substituent at several equivalent atoms, the first one is returned.

    Args:
        smiles: the molecules that `matched_pairs` was called with.
        pairs: its result, or some of its pairs.
        max_atoms: largest number of atoms of a molecule.

    Returns:
        For each pair, the atoms in `first` and those in `second`, sorted, as indices in the SMILES of each; () for a
        hydrogen.

    Raises:
        ValueError: a pair that `matched_pairs` does not find in these molecules.
        TypeError: `smiles` is a single string.

    >>> from molattn.chem import changed_atoms, matched_pairs
    >>> smiles = ["c1ccccc1OC", "Cc1ccccc1OC", "Oc1ccccc1OC"]
    >>> pairs = matched_pairs(smiles)
    >>> for pair, atoms in zip(pairs, changed_atoms(smiles, pairs)):
    ...     print(pair.transform.removed, pair.transform.added, atoms)
    [*:1][H] C[*:1] ((), (0,))
    [*:1][H] O[*:1] ((), (0,))
    C[*:1] O[*:1] ((0,), (0,))
    """
    smiles = as_list(smiles)  # a Series would look up labels, not positions

    @cache
    def substituents(i: int) -> list[tuple[Substituent, str]]:
        """The substituents of molecule i, each with its context."""
        parent = read_parent(smiles[i], max_atoms)
        return [(substituent, context_of(parent, substituent)) for substituent in substituents_of(parent)]

    @cache
    def canonical(i: int) -> str:
        return canonical_smiles(read_smiles(smiles[i], max_atoms=max_atoms), max_atoms=max_atoms)

    def atoms_in_place_of_hydrogen(i: int, smiles_of_substituent: str, other: int) -> tuple[int, ...] | None:
        """The atoms of the substituent of molecule i that is a hydrogen in molecule `other`."""
        for substituent, context in substituents(i):
            if substituent.smiles == smiles_of_substituent and capped_context(context) == canonical(other):
                return tuple(sorted(substituent.atoms))
        return None

    changed = []
    with rdBase.BlockLogs():
        for pair in pairs:
            i, j, (removed, added, _) = pair
            if removed == HYDROGEN:
                atoms = atoms_in_place_of_hydrogen(j, added, i)
                found = None if atoms is None else ((), atoms)
            elif added == HYDROGEN:
                atoms = atoms_in_place_of_hydrogen(i, removed, j)
                found = None if atoms is None else (atoms, ())
            else:
                by_context = {context: s for s, context in reversed(substituents(j)) if s.smiles == added}
                found = None
                for substituent, context in substituents(i):
                    if substituent.smiles == removed and context in by_context:
                        found = tuple(sorted(substituent.atoms)), tuple(sorted(by_context[context].atoms))
                        break
            if found is None:
                raise ValueError(f"{pair} is no matched pair of {smiles[i]!r} and {smiles[j]!r}")
            changed.append(found)
    return changed
