"""Synthetic accessibility scores and structural alerts of molecules, for the choice of candidates to synthesize."""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rdkit import RDConfig, rdBase
from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.parse import MAX_ATOMS, read_smiles
from molattn.errors import as_list

ALERT_CATALOGS = ("BRENK", "PAINS")
"""The catalogs of RDKit that `structural_alerts` searches."""


def synthetic_accessibility(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> list[float | None]:
    """The synthetic accessibility score of molecules, from 1, easy to make, to 10, hard.

    The score is that of `sascorer` in RDKit's Contrib folder: how common the fragments of a molecule are, with
    penalties for size, stereocenters and unusual rings. It considers neither reactions nor building blocks.

    Args:
        smiles: n molecules.
        max_atoms: largest number of atoms.

    Returns:
        n scores; None if RDKit fails, or was installed without its Contrib folder.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        TypeError: `smiles` is a single string.

    Source: Ertl and Schuffenhauer, J. Cheminform. 2009, 1, 8 (https://doi.org/10.1186/1758-2946-1-8).

    >>> from molattn.chem import synthetic_accessibility
    >>> easy, hard = synthetic_accessibility(["CC(=O)Nc1ccc(O)cc1", "C1C2CC3CC1CC(C2)C34OCCO4"])
    >>> 1 <= easy < hard <= 10
    True
    """
    scorer = _scorer()
    scores: list[float | None] = []
    for text in as_list(smiles):
        mol = read_smiles(text, max_atoms=max_atoms)
        try:
            scores.append(None if scorer is None else float(scorer.calculateScore(mol)))
        except (*RDKIT_ERRORS, ZeroDivisionError):
            scores.append(None)
    return scores


def structural_alerts(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> list[tuple[str, ...]]:
    """The structural alerts of molecules: the names of the patterns of `ALERT_CATALOGS` that they match.

    An alert is a warning, not a reason for exclusion: many drugs have one.

    Args:
        smiles: n molecules.
        max_atoms: largest number of atoms.

    Returns:
        For each molecule the names, in alphabetical order.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        TypeError: `smiles` is a single string.

    Sources: Brenk et al., ChemMedChem 2008, 3, 435 (https://doi.org/10.1002/cmdc.200700139); Baell and Holloway,
    J. Med. Chem. 2010, 53, 2719 (https://doi.org/10.1021/jm901137j).

    >>> from molattn.chem import structural_alerts
    >>> structural_alerts(["CC(=O)Oc1ccccc1C(=O)O", "CCO"])
    [('phenol_ester',), ()]
    """
    catalog = _catalog()
    with rdBase.BlockLogs():
        return [
            tuple(sorted({entry.GetDescription() for entry in catalog.GetMatches(read_smiles(s, max_atoms=max_atoms))}))
            for s in as_list(smiles)
        ]


@cache
def _catalog() -> FilterCatalog:
    parameters = FilterCatalogParams()
    for name in ALERT_CATALOGS:
        parameters.AddCatalog(getattr(FilterCatalogParams.FilterCatalogs, name))
    return FilterCatalog(parameters)


@cache
def _scorer() -> Any:
    """RDKit's `sascorer`, which is not in a package; None if RDKit was installed without it."""
    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("molattn_sascorer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
