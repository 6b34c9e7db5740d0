"""Molecules from SMILES: graphs of integer codes, tokens, conformers, descriptors and fingerprints, by RDKit.

`read_smiles` parses and validates a SMILES; `molecule_graph` makes its graph; `featurize` makes the graphs of many
SMILES and returns the errors of invalid ones; `conformer` embeds a molecule in 3D. Importing this package imports
neither torch nor PyG: `to_pyg` and `from_pyg` are imported at first use. Only this package and the viewer import RDKit.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from molattn.chem.atoms import ATOM_FEATURES, AtomFeature, atom_codes
from molattn.chem.bonds import BOND_FEATURES, BOND_SIZE, bond_codes, pack_bond, unpack_bond
from molattn.chem.codes import DISCONNECTED, MAX_PATH, path_lengths
from molattn.chem.conformers import (
    BOND_LENGTH,
    NO_GEOMETRY,
    NOT_OPTIMIZED,
    ON_FAILURE,
    Conformer,
    ConformerOptions,
    conformer,
)
from molattn.chem.contributions import CONTRIBUTIONS, atom_contributions, contributions_table
from molattn.chem.descriptors import (
    FAST_DESCRIPTORS,
    FEW_DESCRIPTORS,
    MOLECULE_FEATURIZERS,
    descriptors,
    featurizer_descriptors,
    rdkit_version,
    unknown_descriptors,
)
from molattn.chem.feature_vectors import FEATURE_LENGTHS, feature_columns, feature_vectors, morgan_environments
from molattn.chem.features import Feature
from molattn.chem.fingerprints import Fingerprints, butina_clusters, morgan_bits, morgan_counts
from molattn.chem.fragments import Fragments
from molattn.chem.generate import grow_molecules, mutate_molecules, nci_molecules, random_smiles, round_trip_smiles
from molattn.chem.molecule import DEFAULT_READ_OPTIONS, MoleculeGraph, Progress, ReadOptions, featurize, molecule_graph
from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, MAX_RINGS, canonical_smiles, is_mol, read_smiles, smiles_from_mol
from molattn.chem.sdf import smiles_from_molblock
from molattn.chem.standardize import STANDARDIZE, inchi_key, inchikey_skeletons, standardized_smiles
from molattn.chem.substructures import FUNCTIONAL_GROUPS, functional_groups, murcko_scaffold
from molattn.chem.tokens import TOKENS, SmilesTokens, smiles_tokens, tokenize, tokenize_all

if TYPE_CHECKING:
    from molattn.chem.pair_atoms import changed_atoms
    from molattn.chem.pairs import Effect, MatchedPair, Transform, matched_pairs, measured_effects
    from molattn.chem.pyg import from_pyg, to_pyg
    from molattn.chem.single_edits import SmallEdit, small_edits
    from molattn.chem.suitability import structural_alerts, synthetic_accessibility
    from molattn.chem.variants import Variant, matched_pair_variants, substituent_scan

    DESCRIPTORS: tuple[str, ...]
    """The names of RDKit's descriptors and fragment counts (`fr_...`), without Ipc, which grows without bounds."""

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "BOND_LENGTH",
    "BOND_SIZE",
    "CONTRIBUTIONS",
    "DEFAULT_READ_OPTIONS",
    "DESCRIPTORS",
    "DISCONNECTED",
    "FAST_DESCRIPTORS",
    "FEATURE_LENGTHS",
    "FEW_DESCRIPTORS",
    "FUNCTIONAL_GROUPS",
    "MAX_ATOMS",
    "MAX_LENGTH",
    "MAX_PATH",
    "MAX_RINGS",
    "MOLECULE_FEATURIZERS",
    "NOT_OPTIMIZED",
    "NO_GEOMETRY",
    "ON_FAILURE",
    "STANDARDIZE",
    "TOKENS",
    "AtomFeature",
    "Conformer",
    "ConformerOptions",
    "Effect",
    "Feature",
    "Fingerprints",
    "Fragments",
    "MatchedPair",
    "MoleculeGraph",
    "Progress",
    "ReadOptions",
    "SmallEdit",
    "SmilesTokens",
    "Transform",
    "Variant",
    "atom_codes",
    "atom_contributions",
    "bond_codes",
    "butina_clusters",
    "canonical_smiles",
    "changed_atoms",
    "conformer",
    "contributions_table",
    "descriptors",
    "feature_columns",
    "feature_vectors",
    "featurize",
    "featurizer_descriptors",
    "from_pyg",
    "functional_groups",
    "grow_molecules",
    "inchi_key",
    "inchikey_skeletons",
    "is_mol",
    "matched_pair_variants",
    "matched_pairs",
    "measured_effects",
    "molecule_graph",
    "morgan_bits",
    "morgan_counts",
    "morgan_environments",
    "murcko_scaffold",
    "mutate_molecules",
    "nci_molecules",
    "pack_bond",
    "path_lengths",
    "random_smiles",
    "rdkit_version",
    "read_smiles",
    "round_trip_smiles",
    "small_edits",
    "smiles_from_mol",
    "smiles_from_molblock",
    "smiles_tokens",
    "standardized_smiles",
    "structural_alerts",
    "substituent_scan",
    "synthetic_accessibility",
    "to_pyg",
    "tokenize",
    "tokenize_all",
    "unknown_descriptors",
    "unpack_bond",
]

_LAZY = {
    name: module
    for module, names in {
        "pair_atoms": ("changed_atoms",),
        "pairs": ("Effect", "MatchedPair", "Transform", "matched_pairs", "measured_effects"),
        "pyg": ("from_pyg", "to_pyg"),
        "single_edits": ("SmallEdit", "small_edits"),
        "suitability": ("structural_alerts", "synthetic_accessibility"),
        "variants": ("Variant", "matched_pair_variants", "substituent_scan"),
    }.items()
    for name in names
}


def __getattr__(name: str) -> object:
    """Import what needs torch, PyG or most of RDKit at its first use (PEP 562)."""
    if name == "DESCRIPTORS":
        from molattn.chem.descriptors import DESCRIPTORS

        return DESCRIPTORS
    if name in _LAZY:
        return getattr(import_module(f"molattn.chem.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
