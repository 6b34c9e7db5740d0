"""The page on exported models: its code encodes molecules as molattn does, and its lists are those of the code."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molattn.chem import ATOM_FEATURES, BOND_FEATURES, molecule_graph
from molattn.models.exported.metadata import _DTYPES
from molattn.models.exported.program import GraphProgram, TokenProgram
from tests.molecules import esol

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "exported_models.md").read_text(encoding="utf-8")

SMILES = [
    *esol(150)[0],
    *("C[C@H](O)F", "F/C=C/F", "F/C=C\\F", "O[C@H](/C=C/C)/C=C\\C", "C[C@@H]1CC[C@H](C)CC1"),  # stereochemistry
    *("[NH3]->[Cu]", "*CC", "[2H]C", "[CH3]", "F[P](F)(F)(F)F", "[Fe+5]", "Cl[Pt@SP1](Cl)(N)N"),  # rare atoms and bonds
    *("C12C3C4C1C5C2C3C45", "C1CCCCCCCC1", "[Na+].[Cl-]", "C" * 260),  # rings, fragments and long paths
]


@pytest.fixture(scope="module")
def encode() -> Any:
    """The function of the page."""
    names: dict[str, Any] = {}
    block = next(text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def encode" in text)
    exec(block, names)
    return names["encode"]


@pytest.mark.parametrize("smiles", SMILES)
def test_the_code_of_the_page_encodes_as_molattn_does(encode: Any, smiles: str) -> None:
    graph, found = molecule_graph(smiles), encode(smiles)
    for name in ("atom_codes", "bond_codes", "path_lengths"):
        np.testing.assert_array_equal(found[name], getattr(graph, name))
        assert found[name].dtype == np.uint8
    assert found["mask"].all()


def rows(after: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    lines = PAGE[PAGE.index(after) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| ---"))
    found = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def test_the_tables_have_every_input_and_every_label() -> None:
    inputs = {row[0].strip("`"): row[1] for row in rows("## Inputs")}
    assert inputs == _DTYPES
    program_inputs = [*GraphProgram.forward.__annotations__, *TokenProgram.forward.__annotations__]
    assert set(inputs) == set(program_inputs) - {"return"}
    atoms = rows("### Atoms")
    columns = [row[0] for row in atoms]
    assert columns == ["0", "1", "2", "3", "4", "5", "6 to 10", "11", "12", "13"]
    assert len(ATOM_FEATURES) == 14
    labels = {f.name: f.labels for f in ATOM_FEATURES}
    assert atoms[4][2].split(", ") == list(labels["hybridization"])
    assert atoms[9][2].split(", ") == list(labels["cip"])
    assert labels["charge"] == ("unknown", *(f"{c:+d}" if c else "0" for c in range(-4, 5)))
    for row, feature in zip(rows("### Bonds"), BOND_FEATURES, strict=True):
        assert row[2].split(", ") == list(feature.labels)
