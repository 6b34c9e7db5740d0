"""Mol blocks with numbers that would wrap in RDKit."""

import pytest

from molattn.chem.sdf import read_molblock, smiles_from_molblock
from molattn.errors import SmilesError

V2000 = "title\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 C   0  0\n{}M  END"
V3000 = (
    "title\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\nM  V30 COUNTS 1 0 0 0 0\n"
    "M  V30 BEGIN ATOM\nM  V30 1 C 0 0 0 0{}\nM  V30 END ATOM\nM  V30 END CTAB\nM  END"
)


@pytest.mark.parametrize(
    ("block", "smiles"),
    [
        (V2000.format(""), "C"),
        (V2000.format("M  CHG  1   1   2\n"), "[CH2+2]"),
        (V2000.format("M  CHG  1   1  -1\nM  ISO  1   1  13\n"), "[13CH3-]"),
        (V3000.format(""), "C"),
        (V3000.format(" CHG=2"), "[CH2+2]"),
        (V3000.format(" CHG=-1 -\nM  V30 MASS=13"), "[13CH3-]"),
        (V3000.format(" MASS=65535"), "[65535CH4]"),
    ],
)
def test_numbers_in_range_are_read(block: str, smiles: str) -> None:
    assert smiles_from_molblock(block) == read_molblock(block)[0] == smiles


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (V2000.format("M  CHG  1   1 257\n"), "CHG 257, over the limit of 127"),
        (V2000.format("M  CHG  1   1-255\n"), "CHG -255"),
        (V2000.format("M  CHG  2   1   1   1 257\n"), "CHG 257"),
        (V2000.format("M  CHG  1   1   1\nM  CHG  1   1 300\n"), "CHG 300"),
        (V3000.format(" CHG=257"), "CHG 257"),
        (V3000.format(" chg=-255"), "CHG -255"),
        (V3000.format(" MASS=65549"), "MASS 65,549, over the limit of 65,535"),
        (V3000.format(" CHG=1 MASS=-\nM  V30 65549"), "MASS 65,549"),
        (V3000.format(f" MASS={'9' * 5_000}"), "over the limit of 65,535"),
        (V3000.format("").replace("COUNTS 1", f"COUNTS {'9' * 5_000}"), "atoms, over the limit of 1,000"),
    ],
)
def test_numbers_that_would_wrap_are_rejected(block: str, reason: str) -> None:
    for read in (smiles_from_molblock, read_molblock):
        with pytest.raises(SmilesError, match=reason):
            read(block)
