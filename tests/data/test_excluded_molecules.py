"""The molecules of the evaluation data sets are found by their hashes, for any SMILES of them."""

import pytest

from molattn.chem import inchikey_skeletons, random_smiles, read_smiles
from molattn.data import column, datasets_dir, load_card, read_table
from molattn.data.datasets.excluded_molecules import (
    HASH_DIGITS,
    HASH_FILE,
    TEST_HASH_FILE,
    ExcludedMolecules,
    evaluation_molecules,
    molecule_hash,
    read_hashes,
)
from molattn.errors import SmilesError

# A few of each of the other sets, in other spellings than theirs.
OTHERS = {
    "freesolv": ["C(F)(F)(F)F", "N#CC", "c1(ccccc1)C(C)(C)C"],
    "lipophilicity": ["O=C(O)c1ccccc1Nc1c(C)c(C)ccc1"],
    "bbbp": ["CN1C(=O)CN=C(c2ccccc2)c2c1ccc(Cl)c2", "n1(C)c(=O)c2n(C)cnc2n(C)c1=O"],
    "tox21": ["Clc1ccc(cc1)C(c1ccc(Cl)cc1)C(Cl)(Cl)Cl", "OC(=O)c1ccccc1O"],
    "the tests of TDC": ["Oc1ccc2[nH]cc(CCN)c2c1", "Cc1ccc(cc1)OC(CCNC)c1ccccc1"],
    "the tests of MoleculeACE": ["O=C(C)c1ccc(cc1)OCCCc1c[nH]cn1"],
}


def test_all_molecules_of_esol_are_excluded() -> None:
    card = load_card("esol")
    found = evaluation_molecules()
    missing = [s for s in column(read_table(card.path), card.smiles_column) if s not in found]
    assert not missing


@pytest.mark.parametrize("name", OTHERS)
def test_molecules_of_the_other_data_sets_are_excluded(name: str) -> None:
    for smiles in OTHERS[name]:
        assert smiles in evaluation_molecules(), smiles
        assert random_smiles(read_smiles(smiles), 7) in evaluation_molecules()


def test_other_molecules_are_not_excluded() -> None:
    for smiles in ("CC1CC(C)(CCCl)OC1CBr", "FC1CC1CCNCCOCC1CC1Br", "CCCCOCCSCCNC(C)CCl"):
        assert smiles not in evaluation_molecules()


def test_the_files_are_sorted_and_hold_no_molecule_twice() -> None:
    found: list[str] = []
    for name, least in ((HASH_FILE, 13_000), (TEST_HASH_FILE, 84_000)):
        path = datasets_dir() / name
        lines = read_hashes(path)
        assert lines == sorted(set(lines))
        assert len(lines) > least
        assert all(line.isascii() for line in path.read_text().splitlines())
        assert {len(line) for line in lines} == {HASH_DIGITS}
        found += lines
    assert len(found) == len(set(found)) == len(evaluation_molecules())


def test_a_line_that_is_not_a_hash_raises(tmp_path) -> None:
    (tmp_path / "hashes.txt").write_text("# what they are\n0123456789ab\nCCO\n")
    with pytest.raises(ValueError, match="'CCO' is not a hash"):
        read_hashes(tmp_path / "hashes.txt")


def test_salts_and_stereoisomers_are_one_molecule() -> None:
    mine = ExcludedMolecules.from_smiles(["C[C@H](N)C(=O)O", "no molecule", "CCCCBr"])
    assert len(mine) == 2
    assert "C[C@@H](N)C(=O)O" in mine
    assert "C[C@@H]([NH3+])C(=O)O.[Cl-]" in mine
    assert "CCCCCBr" not in mine
    assert "CCCCCBr" in mine | ExcludedMolecules({molecule_hash(inchikey_skeletons("CCCCCBr")[0])})


def test_a_molecule_without_inchi_is_excluded_and_an_invalid_smiles_raises() -> None:
    assert "*CCCC" in ExcludedMolecules(())
    with pytest.raises(SmilesError):
        "C1CC" in ExcludedMolecules(())  # noqa: B015
