"""Synthetic accessibility and structural alerts, compared with direct calls of RDKit."""

import runpy
from pathlib import Path

import pytest
from rdkit import Chem, RDConfig
from rdkit.Chem.FilterCatalog import FilterCatalog, FilterCatalogParams

from molattn.chem import structural_alerts, suitability, synthetic_accessibility
from molattn.errors import SmilesError
from tests.molecules import SPECIAL, esol


def test_scores_are_those_of_rdkit_s_program() -> None:
    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    smiles = esol(40)[0]
    calculate = runpy.run_path(str(path))["calculateScore"]
    assert synthetic_accessibility(smiles) == pytest.approx([calculate(Chem.MolFromSmiles(s)) for s in smiles])


def test_special_molecules_have_a_score_or_none() -> None:
    assert len(synthetic_accessibility(SPECIAL)) == len(structural_alerts(SPECIAL)) == len(SPECIAL)


def test_without_the_program_there_is_no_score(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(RDConfig, "RDContribDir", str(tmp_path))
    suitability._scorer.cache_clear()
    try:
        assert synthetic_accessibility(["CCO"]) == [None]
    finally:
        suitability._scorer.cache_clear()


def test_alerts_are_those_of_both_catalogs() -> None:
    parameters = [FilterCatalogParams(getattr(FilterCatalogParams.FilterCatalogs, n)) for n in ("BRENK", "PAINS")]
    catalogs = [FilterCatalog(p) for p in parameters]
    smiles = [*esol(40)[0], "O=C1C=CC(=O)C=C1", "c1ccc(N=Nc2ccccc2)cc1"]
    found = structural_alerts(smiles)
    for text, names in zip(smiles, found, strict=True):
        mol = Chem.MolFromSmiles(text)
        assert set(names) == {m.GetDescription() for catalog in catalogs for m in catalog.GetMatches(mol)}
    assert any(found)


def test_invalid_smiles_are_refused() -> None:
    for function in (synthetic_accessibility, structural_alerts):
        with pytest.raises(SmilesError):
            function(["C1CC"])
