"""Batches fit in memory; molecules that are too large are reported, and the others are predicted."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from molattn.chem import molecule_graph
from molattn.data.store.batches import Batch, MoleculeBatch
from molattn.data.store.padding import MAX_PAIRS, batches_by_size
from molattn.errors import SmilesError
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.batching import is_out_of_memory
from molattn.models.predict import compute_outputs
from tests.molecules import esol

SMILES = [*esol(40)[0], "C" * 60, "CO", "C" * 50]
GRAPHS = [molecule_graph(s) for s in SMILES]
LONG = {40, 42}


@given(st.lists(st.integers(1, 400), max_size=300), st.integers(1, 40), st.integers(1, 10**5))
def test_batches_contain_each_molecule_once_within_the_limits(sizes: list[int], batch_size: int, pairs: int) -> None:
    batches = batches_by_size(sizes, batch_size, pairs)
    assert sorted(i for batch in batches for i in batch.tolist()) == list(range(len(sizes)))
    in_order = [sizes[i] for batch in batches for i in batch.tolist()]
    assert in_order == sorted(in_order)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len(batch) == 1 or len(batch) * sizes[batch[-1]] ** 2 <= pairs


def no_more_than(pairs: int, error: BaseException) -> Callable[[torch.nn.Module, tuple[Batch]], None]:
    """A hook that raises `error` for batches above `pairs`."""

    def hook(_: torch.nn.Module, inputs: tuple[Batch]) -> None:
        (batch,) = inputs
        assert isinstance(batch, MoleculeBatch)
        if batch.bond_codes.numel() > pairs:
            raise error

    return hook


ERRORS = [
    MemoryError("no memory is left for attention"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    torch.OutOfMemoryError("CUDA out of memory"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("pairs", [2000, 400])
def test_running_out_of_memory_does_not_affect_other_molecules(
    artifact: Artifact, error: Exception, pairs: int
) -> None:
    assert is_out_of_memory(error)
    expected = compute_outputs(artifact.model, GRAPHS)
    large = {i for i, graph in enumerate(GRAPHS) if graph.num_atoms**2 > pairs}
    handle = artifact.model.register_forward_pre_hook(no_more_than(pairs, error))
    try:
        failures: dict[int, str] = {}
        found = compute_outputs(artifact.model, GRAPHS, failures=failures)
        rows = list(Predictor(artifact).predict_rows(SMILES))
        with pytest.raises(SmilesError, match="there is not enough memory for its 50 atoms"):
            compute_outputs(artifact.model, [GRAPHS[0], GRAPHS[42]])
    finally:
        handle.remove()
    assert failures.keys() == large >= LONG
    assert all("not enough memory" in reason for reason in failures.values())
    rest = [i for i in range(len(GRAPHS)) if i not in large]
    np.testing.assert_allclose(found[rest], expected[rest], atol=1e-6)
    assert np.isnan(found[list(large)]).all()
    assert {i for i, row in enumerate(rows) if row.error} == large
    assert all(row.values is None for row in rows if row.error)
    assert rows[40].error.startswith("there is not enough memory for its 60 atoms")


def test_other_errors_are_raised(artifact: Artifact) -> None:
    handle = artifact.model.register_forward_pre_hook(no_more_than(0, RuntimeError("shapes differ")))
    try:
        with pytest.raises(RuntimeError, match="shapes differ"):
            compute_outputs(artifact.model, GRAPHS, failures={})
    finally:
        handle.remove()


def test_the_largest_molecules_have_their_own_batches() -> None:
    assert [len(batch) for batch in batches_by_size([1000, 1000, 2, 2], 512)] == [2, 1, 1]
    assert MAX_PAIRS < 1000**2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the addresses of a process, as Linux can")
def test_a_molecule_too_large_for_the_machine_is_an_error_in_its_row(artifact: Artifact, tmp_path: Path) -> None:
    save_artifact(tmp_path / "model", artifact)
    code = f"""
import re, resource
import molattn
predictor = molattn.load({str(tmp_path / "model")!r})
large = "C" * 1000
assert not next(predictor.predict_rows([large])).error
del large
# What is there now, and as much again as 200 atoms need: not the 64 MB of one tensor for 1,000.
now = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (now + 40 * 2**20, resource.RLIM_INFINITY))
rows = list(predictor.predict_rows(["CCO", "C" * 1000, "CC(=O)O"]))
print([bool(row.error) for row in rows], rows[1].error)
"""
    root = Path(__file__).parents[2]
    # In torch's operations, which hold the edges of all pairs: compiled blocks need a tenth of that.
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "MOLATTN_COMPILE": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.startswith("[False, True, False] there is not enough memory for its 1000 atoms"), done
