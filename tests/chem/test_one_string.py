"""A single string where a list is needed is an error, since it would be read letter by letter."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from molattn import chem
from molattn.chem.substructures import substructure_matches

OF_SMILES: dict[str, Callable[[Any], Any]] = {
    "Fingerprints": chem.Fingerprints,
    "changed_atoms": partial(chem.changed_atoms, pairs=[]),
    "feature_vectors": partial(chem.feature_vectors, featurizers=["erg"]),
    "grow_molecules": partial(chem.grow_molecules, count=1, seed=0),
    "mutate_molecules": partial(chem.mutate_molecules, count=1, seed=0, max_length=50),
    "substructure_matches": partial(substructure_matches, patterns={"carbon": "C"}),
} | {
    name: getattr(chem, name)
    for name in (
        *("butina_clusters", "featurize", "matched_pairs", "morgan_bits", "morgan_counts", "structural_alerts"),
        *("synthetic_accessibility", "tokenize_all"),
    )
}


@pytest.mark.parametrize("name", OF_SMILES)
def test_one_smiles_is_no_list_of_its_letters(name: str) -> None:
    with pytest.raises(TypeError, match=r"^pass a list of SMILES, such as \['CCO'\], not one string$"):
        OF_SMILES[name]("CCO")
    OF_SMILES[name](["CCO"])
    OF_SMILES[name](())


@pytest.mark.parametrize(
    ("function", "what", "name"),
    [
        (partial(chem.feature_vectors, ["CCO"]), "featurizers", "erg"),
        (chem.feature_columns, "featurizers", "erg"),
        (chem.featurizer_descriptors, "featurizers", "rdkit_2d"),
        (partial(inspect.unwrap(chem.descriptors), "CCO"), "descriptors", "TPSA"),  # annotations are not checked
        (chem.unknown_descriptors, "descriptors", "TPSA"),
        (lambda kinds: chem.small_edits("CCO", kinds=kinds), "kinds", "CH3/H"),
    ],
)
def test_one_name_is_no_list_of_its_letters(function: Callable[[Any], Any], what: str, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^pass a list of {what}, such as \['{name}'\], not one string$"):
        function(name)
    function((name,))
