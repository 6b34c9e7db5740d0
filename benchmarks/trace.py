"""The operations of a training step and of a prediction of the default model, and the implementation of each.

    python benchmarks/trace.py
    python benchmarks/trace.py --page docs/core.md

With the default backends, and with the reference (`molattn.attention.backend("reference")`). The page also has the
table of all operations, and that of `attention_settings.py` if its results are given.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from report import describe_machine, load_results, machine, markdown

from molattn.attention import OPERATIONS, backend, record_backends
from molattn.chem import molecule_graph
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "CCO", "c1ccccc1")
PAGE = """# One core, several backends

Made by `python benchmarks/trace.py --page docs/core.md`.

Every attention layer of molattn calls `molattn.attention.attend`: for molecules (the edge update of the block), PyG
graphs (`TensorDotConv`) and sequences (`MultiHeadAttention`, the recurrent decoders). One table decides which
implementation runs; override it with `with molattn.attention.backend("reference"):`, or `MOLATTN_BACKEND=reference` for
a whole process. The reference computes score, normalizer and weighted sum as in the equations; the others give the same
numbers up to rounding (`tests/models/test_one_core.py` tests this for every preset and kind of model).

## The operations

Each call uses the first implementation that is allowed and supports its arguments. `compiled` is C of
`molattn/kernels/csrc`, for float32 on the CPU; `chunked` is torch's operations with a gradient by hand; `fused` is
torch's `scaled_dot_product_attention`.

{operations}

A block of the default model is fused with its neighbours into the operation "blocks", where nothing in it was changed;
`molattn train` and a long `molattn predict` say in a line why, where that is not so, and `molattn doctor` says what is
compiled.

## Operations in one step of the default model

Three molecules ({smiles}), forward and backward in training, and a prediction.

{trace}

Recorded with `record_backends`; with the reference, the stack calls its four blocks, each with one attention.
"""
SETTINGS = """
## Score, normalizer and join

Each is a setting of `molattn train` (`--set model.score=additive`), an argument of `AttentionEdgeUpdate` and, but for
the join, of `TensorDotConv`. Trained from scratch on ESOL, `python benchmarks/attention_settings.py`:

{settings}

{where}
"""


def count_calls(work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """How often each operation is run by each implementation."""
    with record_backends() as calls:
        work()
    return Counter((call.operation, call.backend) for call in calls)


def main() -> None:
    """Record the calls, print the table, and write the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="the Markdown file to write")
    parser.add_argument("--settings", type=Path, default=Path("attention_settings.json"))
    options = parser.parse_args()
    torch.manual_seed(0)
    model = GraphModel(GraphModelConfig())
    batch = model.collate([molecule_graph(smiles) for smiles in SMILES])

    def step() -> None:
        model.train()(batch).sum().backward()

    def predict() -> None:
        with torch.inference_mode():
            model.eval()(batch)

    rows = []
    for mode, work in (("training step", step), ("prediction", predict)):
        for backends, context in (("default", nullcontext()), ("reference", backend("reference"))):
            with context:
                counts = count_calls(work)
            calls = ", ".join(f"{name} {count} x {implementation}" for (name, implementation), count in counts.items())
            rows.append([mode, backends, calls])
    trace = markdown(["", "backends", "operations, how often, by which implementation"], rows)
    operations = markdown(
        ["operation", "implementations, in order"],
        [[name, ", ".join(operation.implementations)] for name, operation in OPERATIONS.items()],
    )
    print(trace)
    if options.page:
        page = PAGE.format(operations=operations, trace=trace, smiles=", ".join(f"`{s}`" for s in SMILES))
        if results := load_results(options.settings):
            table = markdown(
                ["attention", "test RMSE on random0"], [[n, f"{r['rmse']:.3f}"] for n, r in results.items()]
            )
            page += SETTINGS.format(settings=table, where=describe_machine(machine()))
        options.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
