"""Stereochemistry as CIP labels: R, S, r, s for atoms, E, Z for double bonds.

The CW and CCW tags of RDKit say nothing by themselves: they refer to the order of the neighbours, and so
change with the numbering of the atoms. CIP labels belong to the molecule. They come from RDKit's newer
labeler, whose rules are those of Hanson et al., J. Chem. Inf. Model. 2018, 58, 1755
(https://doi.org/10.1021/acs.jcim.8b00324).

What RDKit does not represent is not seen here either: the chirality of allenes is dropped when the SMILES is
parsed.
"""

from typing import NamedTuple

from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler

from molattn.chem.features import UNKNOWN
from molattn.chem.parts import atoms_of, bonds_of

MAX_ITERATIONS = 10_000
"""Comparisons the labeler may make: a protein needs about 600, a hostile cage would take all memory."""

_TETRAHEDRAL = (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
_CIP = "_CIPCode"


class StereoLabels(NamedTuple):
    """The labels of one molecule; whatever has no stereochemistry is left out."""

    atoms: dict[int, str]
    """Atom index to R, S, r, s or unknown."""

    bonds: dict[int, str]
    """Bond index to E, Z or unknown."""

    warnings: tuple[str, ...]
    """One sentence for each thing that is unknown."""


def stereo_labels(mol: Chem.Mol, *, max_iterations: int = MAX_ITERATIONS) -> StereoLabels:
    """The CIP labels of all stereocentres and stereo double bonds; `mol` itself is not changed.

    How many comparisons the labeler needs depends, by a few percent, on the order of the atoms. Where it needs too
    many it starts again in the canonical order, with twice as many, so that all spellings of a molecule have the same
    labels. Where it gives up there too, everything that carries stereochemistry is unknown: half a set of labels would
    depend on where it started. Centres that are not tetrahedral (square planar, octahedral ...) have no such label:
    unknown.
    """
    atoms = [a.GetIdx() for a in atoms_of(mol) if a.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED]
    bonds = [b.GetIdx() for b in bonds_of(mol) if b.GetStereo() != Chem.BondStereo.STEREONONE]
    if not atoms and not bonds:
        return StereoLabels({}, {}, ())
    labelled = _labelled(Chem.Mol(mol), max_iterations) or _labelled_in_canonical_order(mol, 2 * max_iterations)
    if labelled is None:
        unknown = f"stereochemistry: no CIP labels within {2 * max_iterations:,} comparisons, coded as unknown"
        return StereoLabels(dict.fromkeys(atoms, UNKNOWN), dict.fromkeys(bonds, UNKNOWN), (unknown,))

    atom_labels, bond_labels, warnings = {}, {}, []
    for i in atoms:
        atom = labelled.GetAtomWithIdx(i)
        if atom.HasProp(_CIP):
            atom_labels[i] = atom.GetProp(_CIP)
        elif atom.GetChiralTag() not in _TETRAHEDRAL:
            atom_labels[i] = UNKNOWN
            warnings.append(f"atom {i} ({atom.GetSymbol()}): its geometry has no CIP label, coded as unknown")
        # A tetrahedral tag without a label is one that the full rules see through: not a stereocentre.
    for k in bonds:
        bond = labelled.GetBondWithIdx(k)
        if bond.HasProp(_CIP):
            # Lower case means that only stereochemistry further away tells the sides apart.
            bond_labels[k] = bond.GetProp(_CIP).upper()
    return StereoLabels(atom_labels, bond_labels, tuple(warnings))


def _labelled(mol: Chem.Mol, max_iterations: int) -> Chem.Mol | None:
    """`mol` with its labels; None where the labeler gives up."""
    _clear(mol)
    try:
        with rdBase.BlockLogs():
            rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=max_iterations)
    except RuntimeError:
        return None
    return mol


def _labelled_in_canonical_order(mol: Chem.Mol, max_iterations: int) -> Chem.Mol | None:
    """A copy of `mol` with the labels that its canonical SMILES, read again, is given."""
    text = Chem.MolToSmiles(mol)
    order = list(mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"])
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    with rdBase.BlockLogs():
        canonical = Chem.MolFromSmiles(text, parameters)
    if canonical is None or canonical.GetNumAtoms() != len(order):
        return None
    found = _labelled(canonical, max_iterations)
    if found is None:
        return None
    labelled = Chem.Mol(mol)
    _clear(labelled)
    for atom in atoms_of(found):
        if atom.HasProp(_CIP):
            labelled.GetAtomWithIdx(order[atom.GetIdx()]).SetProp(_CIP, atom.GetProp(_CIP))
    for bond in bonds_of(found):
        if bond.HasProp(_CIP):
            ends = order[bond.GetBeginAtomIdx()], order[bond.GetEndAtomIdx()]
            labelled.GetBondBetweenAtoms(*ends).SetProp(_CIP, bond.GetProp(_CIP))
    return labelled


def _clear(mol: Chem.Mol) -> None:
    """Parsing leaves labels of the older algorithm behind, which differ."""
    for atom in atoms_of(mol):
        atom.ClearProp(_CIP)
    for bond in bonds_of(mol):
        bond.ClearProp(_CIP)
