"""The CPU time of the parts of a training epoch of the default model on ESOL.

    python benchmarks/epoch.py
    python benchmarks/epoch.py --passes 20

Each part is timed separately for all batches of an epoch; the result is the minimum of several passes. The training
loop and the validation are not included: `benchmarks/training.py` measures complete epochs.
"""

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path

import torch
from commands import DATASETS
from report import describe_machine, machine, markdown, save_results
from tables import read_rows
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

from molattn.chem import MoleculeGraph, featurize
from molattn.data.store.batches import BucketBatchSampler
from molattn.graph import run_blocks
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.training.config import TrainingConfig
from molattn.training.flat_parameters import ExponentialMovingAverage, FlatParameters


def min_seconds(passes: int, work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of several passes."""
    seconds = []
    for _ in range(passes):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    """Time the parts, print the table and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=Path("epoch.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = read_rows(DATASETS / "splits" / "esol-random0.csv")
    featurized = featurize([row["smiles"] for row in rows if row["split"] == "train"])
    molecules = [molecule for molecule in featurized if isinstance(molecule, MoleculeGraph)]
    settings = TrainingConfig()
    model = GraphModel(GraphModelConfig()).train()
    order = list(BucketBatchSampler([m.num_atoms for m in molecules], settings.batch_size, 0))
    targets = [torch.randn(len(rows), 1) for rows in order]

    def collated() -> list:
        return [model.collate([molecules[i] for i in rows]) for rows in order]

    batches = collated()
    assert model.edges is not None
    edge_embedding_of = model.edges.edge_embedding
    graphs, edges = [model._embed_nodes(batch) for batch in batches], [edge_embedding_of(batch) for batch in batches]
    flat = FlatParameters(model)
    average = ExponentialMovingAverage(model, settings.ema)
    average.attach(model, flat.flat)
    optimizer = torch.optim.AdamW(flat.flat, lr=settings.learning_rate, fused=True)

    def embedded() -> list:
        return [(model._embed_nodes(batch), edge_embedding_of(batch)) for batch in batches]

    def blocks() -> None:
        for graph, edge_embedding in zip(graphs, edges, strict=True):
            run_blocks(model.blocks, graph, edge_embedding)

    def losses(backward: bool) -> None:
        for batch, y in zip(batches, targets, strict=True):
            loss = mse_loss(model(batch).float(), y)
            if backward:
                loss.backward()

    def each_step(work: Callable[[], object]) -> Callable[[], object]:
        return lambda: [work() for _ in order]

    flat.zero_grad()
    losses(backward=True)
    gc.collect()
    gc.freeze()
    embedding, forward = min_seconds(options.passes, embedded), min_seconds(options.passes, blocks)
    without_backward, with_backward = (min_seconds(options.passes, lambda b=b: losses(b)) for b in (False, True))
    parts = {
        "batches": min_seconds(options.passes, collated),
        "embedding of atoms, rows of the tables of edges": embedding,
        "blocks, forward": forward,
        "readout, head, loss": max(0.0, without_backward - embedding - forward),
        "backward": with_backward - without_backward,
        "gradients to zero": min_seconds(options.passes, each_step(flat.zero_grad)),
        "clipping": min_seconds(options.passes, each_step(lambda: clip_grad_norm_(flat.flat, settings.grad_clip))),
        "AdamW": min_seconds(options.passes, each_step(optimizer.step)),
        "running average of the weights": min_seconds(options.passes, each_step(average.update)),
    }
    parts["all parts"] = sum(parts.values())
    where = machine(("torch", "rdkit"))
    save_results(options.output, "epoch", vars(options), parts, where)
    print(markdown(["part", "ms"], [[name, f"{1000 * seconds:.1f}"] for name, seconds in parts.items()]))
    padded = sum(batch.mask.numel() for batch in batches)
    atoms = sum(m.num_atoms for m in molecules)
    print(f"\n{len(molecules)} molecules in {len(order)} batches; {atoms / padded:.2f} of the rows are atoms.")
    print(describe_machine(where))


if __name__ == "__main__":
    main()
