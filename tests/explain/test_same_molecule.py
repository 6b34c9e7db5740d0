"""What is drawn and tabulated is the molecule that was computed on, atom by atom, however it was written."""

import numpy as np
import pytest
import torch

from molattn.chem import ReadOptions, molecule_graph
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs, iter_attention
from molattn.models.scaler import TargetScaler
from molattn.models.smiles_model import SmilesModel
from molattn.viewer import draw_atoms
from molattn.viewer.discs import molecule_from_map
from tests.molecules import SPECIAL
from tests.viewer.svg import discs

WRITTEN = [
    *SPECIAL,
    "OC(=O)c1ccccc1OC(C)=O",
    "[CH3:7][CH2:3][OH:1]",  # numbers of atom maps
    "[2H]C([2H])([13CH3])O",  # isotopes, and hydrogens that stay atoms
    "[H]C([H])([H])O[H]",  # hydrogens that do not
    "[HH]",
    "*C(*)C",
    "C/C=N/[H]",
    "[NH3]->[Cu]",
    "CC(=O)[O-].[Na+].O",
    "C1CC[C@H]2CCCC[C@H]2C1",
    "F[Si-2](F)(F)(F)(F)F",
    "C1=CNC=CC1=O",
]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return GraphModel(GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1, virtual_node=True)).eval()


@pytest.mark.parametrize("standardize", ["", "parent", "tautomer"])
@pytest.mark.parametrize("add_hs", [False, True])
def test_the_map_is_of_the_molecule_that_the_model_read(model, standardize, add_hs):
    artifact = Artifact(
        model, TargetScaler((0.0,), (1.0,)), ("y",), ("",), ReadOptions(add_hs, 100, standardize=standardize)
    )
    for smiles, attention in zip(WRITTEN, Predictor(artifact).attentions(WRITTEN), strict=True):
        read = molecule_graph(smiles, add_hs=add_hs, standardize=standardize)
        again = attention.graph()
        for name in ("symbols", "atom_codes", "bond_codes", "path_lengths"):
            np.testing.assert_array_equal(getattr(again, name), getattr(read, name), err_msg=f"{smiles}: {name}")
        drawn = molecule_from_map(attention)
        assert tuple(atom.GetSymbol() for atom in drawn.GetAtoms()) == attention.symbols
        bonded = {tuple(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx()))) for b in drawn.GetBonds()}
        assert bonded == {(int(i), int(j)) for i, j in np.argwhere(read.path_lengths == 1) if i < j}
        assert attention.weights.shape[-1] == attention.num_atoms + 1


def test_unusual_molecules_are_drawn_with_a_disc_per_atom(model):
    predictor = Predictor(Artifact(model, TargetScaler((0.0,), (1.0,)), ("y",), ("",), ReadOptions(max_atoms=100)))
    for smiles in WRITTEN[-12:]:
        attention = predictor.attention(smiles)
        assert len(discs(draw_atoms(attention, 0))) == attention.num_atoms


def test_a_model_of_smiles_has_maps_of_tokens():
    torch.manual_seed(0)
    smiles_model = SmilesModel(SmilesModelConfig(hidden_dim=16, num_heads=2, num_layers=1)).eval()
    predictor = Predictor(
        Artifact(smiles_model, TargetScaler((0.0,), (1.0,)), ("y",), ("",), ReadOptions(max_atoms=100))
    )
    for attention in predictor.attentions(["OCC", "c1ccccc1[N+](=O)[O-]", "C"]):
        assert attention.position_type == "tokens"
        assert "".join(attention.symbols) == attention.smiles
        np.testing.assert_allclose(attention.weights.sum(-1), 1, rtol=0, atol=1e-6)
        assert attention.prediction["y"] == pytest.approx(predictor.predict(attention.smiles), abs=1e-6)
        assert len(attention.to_frame()) == attention.weights.size


def test_a_model_of_atoms_has_maps_too():
    torch.manual_seed(0)
    atoms_model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1), atom_level=True).eval()
    read = [molecule_graph(smiles) for smiles in ("CCO", "C", "[Na+].[Cl-]")]
    for graph, (outputs, weights) in zip(read, iter_attention(atoms_model, read), strict=True):
        assert outputs.shape == (graph.num_atoms, 1)
        np.testing.assert_allclose(outputs, compute_outputs(atoms_model, [graph]), atol=1e-6)
        assert weights.shape == (1, 2, graph.num_atoms, graph.num_atoms)
