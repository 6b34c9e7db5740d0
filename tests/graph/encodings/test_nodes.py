"""Degrees, compared with the degree feature of the atoms."""

import torch

from molattn.chem import ATOM_FEATURES
from molattn.graph import DegreeEncoding
from tests.assertions import assert_identical
from tests.graph.encodings.batches import SMILES, batch_of
from tests.graph.graphs import double

BATCH = batch_of(*SMILES, "CS(C)(C)(C)(C)C")
DEGREE = [f.name for f in ATOM_FEATURES].index("degree")


def test_degrees_are_those_of_the_atoms():
    encoding = double(DegreeEncoding(4, max_degree=6))
    degrees = BATCH.atom_codes[..., DEGREE].long()  # labels "0", "1", ..., "6+", so that the code is the degree
    assert degrees.max() == 6 and (degrees[BATCH.mask] == 0).any()
    assert_identical(encoding(BATCH)[BATCH.mask], encoding.degree.weight[degrees[BATCH.mask]])


def test_degrees_above_max_degree_share_one_row():
    encoding = double(DegreeEncoding(4, max_degree=2))
    x = encoding(batch_of("CC(C)(C)C"))[0]
    assert_identical(x, encoding.degree.weight[torch.tensor([1, 2, 1, 1, 1])])
