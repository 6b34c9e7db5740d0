"""TreeSHAP: the contributions of features to boosted trees, and through counted substructures those of atoms."""

import numpy as np

from molattn.chem import feature_columns, morgan_environments
from molattn.explain.terms import Terms
from molattn.models.base import Molecule
from molattn.models.blended_trees import BlendedTrees

TREE_SHAP = "tree-shap"
TREE_SHAP_TITLE = "the contribution of the counted substructures that the atom is in"

MORGAN = "morgan_count"
OTHER_TERMS = {"avalon_count": "Avalon counts", "erg": "pharmacophore pairs", "rdkit_fast": "descriptors"}
ABSENT = "absent substructures"


def tree_shap(blended: BlendedTrees, molecule: Molecule, target: int, class_index: int | None = None) -> Terms:
    """TreeSHAP values of the trees of one target, those of Morgan substructures mapped to atoms.

    f(x) = mean + sum_k shap_k;   value_i = sum_k shap_k / c_k sum_e [i in e] / |e|

    k runs over the columns of Morgan counts that are not 0, and e over the c_k substructures that are counted in column
    k: each has an equal share of its column, and each of its |e| atoms an equal share of it. Counts of 0 have a
    separate term, as have the other fingerprints and the descriptors, which do not belong to atoms.

    Args:
        blended: the trees of a model.
        molecule: as the model reads it; hydrogens that are atoms have the value 0.
        target: index of the target.
        class_index: the class of a target with several; None for a number. The trees of two classes have one
            output, the log-odds of the second: those of the first are its negative.

    Raises:
        UsageError: LightGBM, which computes TreeSHAP values, is not installed.

    Source: Lundberg et al. (2020), Nat. Mach. Intell. 2, 56, doi:10.1038/s42256-019-0138-9.
    """
    by_output = blended.trees[target].shap_values(blended.features([molecule]).astype(np.float64))[0]
    if class_index is None or len(by_output) > 1:
        shap = by_output[class_index or 0]
    else:
        shap = by_output[0] if class_index == 1 else -by_output[0]
    columns = feature_columns(blended.featurizers)
    others = {OTHER_TERMS[name]: float(shap[c].sum()) for name, c in columns.items() if name != MORGAN}
    values = np.zeros(len(molecule.labels))
    if MORGAN in columns:
        column_values = shap[columns[MORGAN]]
        present = morgan_environments(molecule.encoded_smiles)
        for column, environments in present.items():
            for atoms in environments:
                values[list(atoms)] += column_values[column] / len(environments) / len(atoms)
        absent = np.ones(len(column_values), dtype=bool)
        absent[list(present)] = False
        others = {ABSENT: float(column_values[absent].sum()), **others}
    return Terms(values, float(shap[-1]), others, adds_up=True)
