"""AttentiveFP of PyG, trained on a table; run it with the interpreter of its own environment.

    python benchmarks/peers.py pyg      # prints that interpreter
    FOLDER/pyg/bin/python benchmarks/attentivefp.py table.csv -o predictions.csv

The table has columns smiles, y and split (train, val, test). The model and its sizes are those of PyG's example on
ESOL (hidden 200, two layers, two time steps, dropout 0.2, Adam at 10^-2.5, weight decay 1e-5, batches of 200), the 39
features of an atom and 10 of a bond those of Xiong et al. (2020), table 1. The epoch with the best validation loss
is kept. Writes the table with a column y_pred, and prints a line of JSON: the seconds of each epoch, loading included.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from rdkit import Chem, rdBase
from tables import read_rows, write_predictions
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn.models import AttentiveFP

ELEMENTS = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Te", "I", "At")
HYBRIDIZATIONS = tuple(getattr(Chem.HybridizationType, name) for name in ("SP", "SP2", "SP3", "SP3D", "SP3D2"))
BONDS = tuple(getattr(Chem.BondType, name) for name in ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"))
STEREO = tuple(getattr(Chem.BondStereo, name) for name in ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE"))


def one_hot(value: object, values: tuple) -> list[float]:
    """The one-hot code of a value; zeros for a value that is not among `values`."""
    return [float(value == v) for v in values]


def molecule_data(smiles: str, y: float) -> Data:
    """One molecule with its target."""
    mol = Chem.MolFromSmiles(smiles)
    x = []
    for atom in mol.GetAtoms():
        element, orbitals = one_hot(atom.GetSymbol(), ELEMENTS), one_hot(atom.GetHybridization(), HYBRIDIZATIONS)
        x.append(
            [
                *element,
                float(not any(element)),
                *one_hot(atom.GetDegree(), tuple(range(6))),
                float(atom.GetFormalCharge()),
                float(atom.GetNumRadicalElectrons()),
                *orbitals,
                float(not any(orbitals)),
                float(atom.GetIsAromatic()),
                *one_hot(atom.GetTotalNumHs(), tuple(range(5))),
                float(atom.HasProp("_ChiralityPossible")),
                *one_hot(atom.GetProp("_CIPCode") if atom.HasProp("_CIPCode") else "", ("R", "S")),
            ]
        )
    ends, features = [], []
    for bond in mol.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        ends += [(i, j), (j, i)]
        features += [
            [
                *one_hot(bond.GetBondType(), BONDS),
                float(bond.GetIsConjugated()),
                float(bond.IsInRing()),
                *one_hot(bond.GetStereo(), STEREO),
            ]
        ] * 2
    return Data(
        x=torch.tensor(x),
        edge_index=torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T.contiguous(),
        edge_attr=torch.tensor(features, dtype=torch.float).reshape(-1, 10),
        y=torch.tensor([[y]]),
    )


def main() -> None:
    """Train, and write the predictions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    rows = read_rows(options.table)
    with rdBase.BlockLogs():
        graphs = [molecule_data(row["smiles"], float(row["y"])) for row in rows]
    train_graphs, val_graphs = (
        [g for g, row in zip(graphs, rows, strict=True) if row["split"] == split] for split in ("train", "val")
    )
    train = DataLoader(train_graphs, batch_size=200, shuffle=True)
    val = DataLoader(val_graphs, batch_size=200)
    model = AttentiveFP(39, 200, 1, edge_dim=10, num_layers=2, num_timesteps=2, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=10**-2.5, weight_decay=1e-5)
    loss_of = F.mse_loss if options.task == "regression" else F.binary_cross_entropy_with_logits
    best_loss, best_state, seconds = float("inf"), model.state_dict(), []
    for _ in range(options.epochs):
        start = time.perf_counter()
        model.train()
        for batch in train:
            optimizer.zero_grad()
            loss = loss_of(model(batch.x, batch.edge_index, batch.edge_attr, batch.batch), batch.y)
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - start)
        model.eval()
        with torch.no_grad():
            losses = [loss_of(model(b.x, b.edge_index, b.edge_attr, b.batch), b.y).item() * b.num_graphs for b in val]
        if sum(losses) < best_loss:
            best_loss, best_state = sum(losses), {name: p.clone() for name, p in model.state_dict().items()}
    model.load_state_dict(best_state)
    model.eval()
    with torch.no_grad():
        predictions = torch.cat(
            [model(b.x, b.edge_index, b.edge_attr, b.batch) for b in DataLoader(graphs, batch_size=200)]
        )
    if options.task == "binary":
        predictions = predictions.sigmoid()
    write_predictions(options.output, rows, predictions[:, 0].tolist())
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"molecules": len(train_graphs), "seconds_per_epoch": seconds, "parameters": parameters}))


if __name__ == "__main__":
    main()
