"""A process forked after torch has started threads predicts like its parent and does not hang."""

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys, time
import torch
from molattn.chem import molecule_graph
from molattn.models.predict import compute_outputs
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel

torch.set_num_threads(2)
model = GraphModel(GraphModelConfig()).eval()
molecules = [molecule_graph("CCOc1ccccc1" * 4)] * 60
expected = compute_outputs(model, molecules)
torch.randn(4_000_000).sin().sum()  # by as many threads as there are
child = os.fork()
if not child:
    torch.randn(4_000_000).sin().sum()
    apart = abs(compute_outputs(model, molecules) - expected).max()
    os._exit(0 if apart < 1e-5 else 7)
for _ in range(900):
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        sys.exit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, 9)
sys.exit(9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_threads_does_not_hang():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
