"""SMILES in, molecules as complete graphs of small integers out; only this room and the viewer know RDKit.

`read_smiles` is the gate, `molecule_graph` makes one graph, `featurize` makes many and never stops at a bad
row unless told to, `conformer` finds one geometry. Importing this package brings in neither torch nor PyG: `to_pyg`
and `from_pyg` are imported at their first use.
"""

from typing import TYPE_CHECKING

from molattn.chem.atoms import ATOM_FEATURES, AtomFeature, atom_codes
from molattn.chem.bonds import BOND_FEATURES, BOND_SIZE, bond_codes, pack_bond, unpack_bond
from molattn.chem.clusters import butina_clusters
from molattn.chem.conformers import (
    BOND_LENGTH,
    NO_GEOMETRY,
    NOT_OPTIMISED,
    ON_FAILURE,
    Conformer,
    Conformers,
    conformer,
)
from molattn.chem.contributions import (
    CONTRIBUTIONS,
    atom_contributions,
    contributions_table,
    rdkit_version,
)
from molattn.chem.descriptors import (
    FEW_DESCRIPTORS,
    MOLECULE_FEATURIZERS,
    descriptors,
    featurizer_descriptors,
    unknown_descriptors,
)
from molattn.chem.edits import molecules_like
from molattn.chem.features import Feature
from molattn.chem.fingerprints import Fingerprints, morgan_bits
from molattn.chem.functional_groups import FUNCTIONAL_GROUPS, functional_groups
from molattn.chem.grow import grow
from molattn.chem.molblock import smiles_of_molblock
from molattn.chem.molecule import MoleculeGraph, Progress, featurize, molecule_graph
from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, MAX_RINGS, canonical_smiles, read_smiles
from molattn.chem.paths import DISCONNECTED, MAX_PATH, path_lengths
from molattn.chem.scaffold import murcko_scaffold
from molattn.chem.skeletons import inchi_key, skeletons
from molattn.chem.spellings import nci_molecules, random_smiles, stable_smiles
from molattn.chem.standardize import STANDARDIZE, standardized_smiles
from molattn.chem.tokens import TOKENS, SmilesTokens, smiles_tokens, tokenize, tokenize_all

if TYPE_CHECKING:
    from molattn.chem.pyg import from_pyg, to_pyg

    DESCRIPTORS: tuple[str, ...]

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "BOND_LENGTH",
    "BOND_SIZE",
    "CONTRIBUTIONS",
    "DESCRIPTORS",
    "DISCONNECTED",
    "FEW_DESCRIPTORS",
    "FUNCTIONAL_GROUPS",
    "MAX_ATOMS",
    "MAX_LENGTH",
    "MAX_PATH",
    "MAX_RINGS",
    "MOLECULE_FEATURIZERS",
    "NOT_OPTIMISED",
    "NO_GEOMETRY",
    "ON_FAILURE",
    "STANDARDIZE",
    "TOKENS",
    "AtomFeature",
    "Conformer",
    "Conformers",
    "Feature",
    "Fingerprints",
    "MoleculeGraph",
    "Progress",
    "SmilesTokens",
    "atom_codes",
    "atom_contributions",
    "bond_codes",
    "butina_clusters",
    "canonical_smiles",
    "conformer",
    "contributions_table",
    "descriptors",
    "featurize",
    "featurizer_descriptors",
    "from_pyg",
    "functional_groups",
    "grow",
    "inchi_key",
    "molecule_graph",
    "molecules_like",
    "morgan_bits",
    "murcko_scaffold",
    "nci_molecules",
    "pack_bond",
    "path_lengths",
    "random_smiles",
    "rdkit_version",
    "read_smiles",
    "skeletons",
    "smiles_of_molblock",
    "smiles_tokens",
    "stable_smiles",
    "standardized_smiles",
    "to_pyg",
    "tokenize",
    "tokenize_all",
    "unknown_descriptors",
    "unpack_bond",
]


def __getattr__(name: str) -> object:
    """What brings torch, PyG or most of RDKit, at its first use (PEP 562)."""
    if name == "DESCRIPTORS":
        from molattn.chem.descriptors import DESCRIPTORS

        return DESCRIPTORS
    if name in ("to_pyg", "from_pyg"):
        from molattn.chem import pyg

        return getattr(pyg, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
