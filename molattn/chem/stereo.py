"""Stereochemistry as CIP labels: R, S, r, s for atoms, E, Z for double bonds.

RDKit's CW and CCW tags refer to the order of the neighbours, and so change with the numbering of the atoms; CIP
labels do not. They come from RDKit's newer labeler, whose rules are those of Hanson et al., J. Chem. Inf. Model. 2018,
58, 1755 (https://doi.org/10.1021/acs.jcim.8b00324).

Stereochemistry that RDKit does not represent is lost: it drops the chirality of allenes when it parses a SMILES.
"""

from typing import NamedTuple

from rdkit import Chem, rdBase
from rdkit.Chem import rdCIPLabeler

from molattn.chem.features import UNKNOWN, get_atoms, get_bonds, output_order

MAX_ITERATIONS = 100_000
"""Largest number of comparisons by the labeler. A protein needs about 600, isomers of rings with aromatic groups up to
40,000, in 5 ms; some cages would exhaust the memory."""

_TETRAHEDRAL = (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW)
_CIP = "_CIPCode"


class StereoLabels(NamedTuple):
    """The CIP labels of one molecule, only for atoms and bonds with stereochemistry."""

    atoms: dict[int, str]
    """From atom index to R, S, r, s or unknown."""

    bonds: dict[int, str]
    """From bond index to E, Z or unknown."""

    warnings: tuple[str, ...]
    """A sentence for each unknown label."""


def stereo_labels(mol: Chem.Mol, *, max_iterations: int = MAX_ITERATIONS) -> StereoLabels:
    """The CIP labels of all stereocentres and stereo double bonds; `mol` itself is not changed.

    The number of comparisons that the labeler needs depends, by a few percent, on the order of the atoms. If it exceeds
    the limit, it runs again in the canonical order with twice the limit, so that all SMILES of a molecule get the same
    labels. If that fails as well, all labels are unknown: a partial result would depend on the order. Centres that are
    not tetrahedral (square planar, octahedral ...) have no CIP label, and are unknown.
    """
    atoms = [a.GetIdx() for a in get_atoms(mol) if a.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED]
    bonds = [b.GetIdx() for b in get_bonds(mol) if b.GetStereo() != Chem.BondStereo.STEREONONE]
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
        # A tetrahedral atom without a label is not a stereocentre by the CIP rules.
    for k in bonds:
        bond = labelled.GetBondWithIdx(k)
        if bond.HasProp(_CIP):
            # Lower case marks pseudoasymmetry: the substituents differ only in stereochemistry.
            bond_labels[k] = bond.GetProp(_CIP).upper()
    return StereoLabels(atom_labels, bond_labels, tuple(warnings))


def _labelled(mol: Chem.Mol, max_iterations: int) -> Chem.Mol | None:
    """`mol` with its labels; None if the labeler reaches the limit."""
    _clear_labels(mol)
    try:
        with rdBase.BlockLogs():
            rdCIPLabeler.AssignCIPLabels(mol, maxRecursiveIterations=max_iterations)
    except RuntimeError:
        return None
    return mol


def _labelled_in_canonical_order(mol: Chem.Mol, max_iterations: int) -> Chem.Mol | None:
    """A copy of `mol` with the labels of the molecule parsed from its canonical SMILES."""
    canonical, order = canonical_form(mol)
    if canonical is None or _labelled(canonical, max_iterations) is None:
        return None
    labelled = Chem.Mol(mol)
    _clear_labels(labelled)
    for atom in get_atoms(canonical):
        if atom.HasProp(_CIP):
            labelled.GetAtomWithIdx(order[atom.GetIdx()]).SetProp(_CIP, atom.GetProp(_CIP))
    for bond in get_bonds(canonical):
        if bond.HasProp(_CIP):
            ends = order[bond.GetBeginAtomIdx()], order[bond.GetEndAtomIdx()]
            labelled.GetBondBetweenAtoms(*ends).SetProp(_CIP, bond.GetProp(_CIP))
    return labelled


def canonical_form(mol: Chem.Mol) -> tuple[Chem.Mol | None, list[int]]:
    """The molecule parsed from the canonical SMILES of `mol`, and for each of its atoms the index in `mol`.

    None instead of the molecule for one of the few SMILES that RDKit does not parse to the same atoms.
    """
    text = Chem.MolToSmiles(mol)
    order = output_order(mol)
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = parameters.allowCXSMILES = parameters.parseName = False
    with rdBase.BlockLogs():
        canonical = Chem.MolFromSmiles(text, parameters)
    return (canonical if canonical is not None and canonical.GetNumAtoms() == len(order) else None), order


def _clear_labels(mol: Chem.Mol) -> None:
    """Remove the labels that parsing sets by the older algorithm, which differ."""
    for atom in get_atoms(mol):
        atom.ClearProp(_CIP)
    for bond in get_bonds(mol):
        bond.ClearProp(_CIP)
