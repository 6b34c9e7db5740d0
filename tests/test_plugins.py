"""Plugins: one module adds to every table, and the command line uses it."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from molattn.plugins import REGISTRIES, VARIABLE
from tests.molecules import esol

PLUGIN = '''
import torch
from molattn.attention.heads import JOINS
from molattn.attention.normalize import NORMALIZERS
from molattn.attention.score import SCORES
from molattn.cli.main import app
from molattn.cli.terminal import print_line
from molattn.data.splits.splitters import SPLITS, random_split
from molattn.graph.encodings import Encoding
from molattn.graph.blocks import BLOCKS
from molattn.graph.aggregate import READOUTS
from molattn.models.encodings import EDGE_ENCODINGS, NODE_ENCODINGS
from molattn.models.losses import Loss, register_loss
from molattn.models.presets import PRESETS, Preset
from molattn.training.loggers import LOGGERS, Logger
from molattn.training.callbacks import CALLBACKS, Callback
from molattn.training.metrics import METRICS, Metric


class Close(Encoding):
    """1 / (1 + path length), in each channel."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, molecules):
        return (1 / (1 + molecules.path_lengths.float())).unsqueeze(-1).expand(*molecules.path_lengths.shape, self.dim)


class Ones(Encoding):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.weight = torch.nn.Parameter(torch.ones(dim))

    def forward(self, molecules):
        return self.weight.expand(*molecules.mask.shape, self.dim)


register_loss(
    Loss("log-cosh", ("regression",), "log-cosh, standardized", lambda o, z, _: torch.cosh(o - z).log())
)
SCORES["half_dot"] = lambda q, k, layout: layout.pairwise_dot(q / 2, k)
NORMALIZERS["sharp"] = lambda logits, layout: layout.softmax(2 * logits)
JOINS["mine"] = JOINS["concat"]
BLOCKS["mine"] = BLOCKS["molattn"]
READOUTS["mine"] = READOUTS["sum"]
EDGE_ENCODINGS["close"] = lambda config: Close(config.edge_dim)
NODE_ENCODINGS["ones"] = lambda config: Ones(config.hidden_dim)
class Shout(Callback):
    def on_epoch_end(self, learner, record):
        print_line(f"EPOCH {record.epoch}")


CALLBACKS["shout"] = lambda config: Shout()


class Printed(Logger):
    def log_metrics(self, metrics, epoch):
        print_line(f"LOGGED {epoch}")


LOGGERS["printed"] = Printed
METRICS["largest-error"] = Metric("largest error", ("regression",), False, lambda y, p: float(abs(y - p).max()))
SPLITS["mine"] = lambda keys, sizes, seed, *, groups: random_split(keys, sizes, seed + 1, groups)
PRESETS["tiny"] = Preset("a small one", "mine", "", {"model": {"hidden_dim": 16, "num_layers": 1}})


@app.command()
def greet(name: str) -> None:
    """Greet someone."""
    print_line(f"hello {name}")
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    (tmp_path / "mine.py").write_text(PLUGIN)
    return tmp_path


def _molattn(folder: Path, *arguments: str, plugins: str = "mine.py", code: int = 0) -> str:
    environment = {**os.environ, VARIABLE: plugins}
    command = [sys.executable, "-m", "molattn", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.finished_runs
@pytest.mark.slow
def test_a_plugin_adds_to_every_table_and_the_command_line_uses_it(folder: Path) -> None:
    help_text = " ".join(_molattn(folder, "train", "--help-all").replace("│", "").split())
    for name in ("mine", "tiny", "log-cosh", "largest-error", "shout", "printed"):
        assert f"By plugins: {name}." in help_text
    settings = ("model.score=half_dot", "model.normalizer=sharp", "model.join=mine", "model.readout=mine")
    encodings = ('model.edges=["bond", "path", "close"]', 'model.nodes=["ones"]')
    options = [word for setting in (*settings, *encodings) for word in ("--set", setting)]
    how = ("--loss-function", "log-cosh", "--metric", "largest-error", "--split", "mine", "--preset", "tiny")
    how = (*how, "--callbacks", "shout", "--logger", "printed")
    shown = _molattn(folder, "train", "table.csv", *how, *options, "--epochs", "2", "-o", "run")
    assert "largest error" in shown and "EPOCH 2" in shown and "LOGGED 2" in shown
    assert (folder / "run/plots/learning_curve.png").is_file()
    assert "CCO" in _molattn(folder, "predict", "run", "--smiles", "CCO")
    assert "largest error" in _molattn(folder, "evaluate", "run", "table.csv", "--metric", "largest-error")
    _molattn(folder, "explain", "run", "--smiles", "CCO", "-o", "picture.png")
    assert (folder / "picture.png").is_file()
    _molattn(
        folder, "train", "table.csv", "--preset", "tiny", "--set", "model.attention=mine", "--epochs", "1", "-o", "b"
    )
    assert "greet" in _molattn(folder, "--help")
    assert "tiny" in _molattn(folder, "presets")
    doctor = _molattn(folder, "doctor")
    assert all(f"{table} " in doctor for table in REGISTRIES)
    assert "install the plugin that defines it" in _molattn(
        folder, "predict", "run", "--smiles", "C", plugins="", code=3
    )


def test_the_documentation_lists_every_table_and_its_example_runs(folder: Path) -> None:
    text = (Path(__file__).parents[1] / "docs/extending.md").read_text()
    listed = dict(re.findall(r"^\| ([a-z ]+) \| (`.*`) in `", text, re.MULTILINE))
    files = {what: re.findall(rf"^\| {what} \|.*? in `(\S+)`", text, re.MULTILINE)[0] for what in REGISTRIES}
    for what, places in REGISTRIES.items():
        for place in places:
            module, _, name = place.partition(":")
            assert f"`{name}`" in listed[what] or what == "loss"
            assert importlib.import_module(module).__file__ == str(Path(__file__).parents[1] / files[what])
    (folder / "log_cosh.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    shown = _molattn(folder, "doctor", plugins="log_cosh.py")
    assert "log_cosh.py: loss log-cosh" in shown


def test_a_plugin_that_cannot_be_loaded_is_named(folder: Path) -> None:
    (folder / "bad.py").write_text("1 / 0")
    error = _molattn(folder, "train", "table.csv", plugins="mine.py, bad.py", code=2)
    assert "the plugin 'bad.py' cannot be loaded, ZeroDivisionError" in error
    assert "taken out of MOLATTN_PLUGINS" in error
    assert "there is no file" in _molattn(folder, "doctor", plugins="missing.py", code=2)


def test_a_package_is_a_plugin_by_its_entry_point(folder: Path) -> None:
    package = folder / "mine-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[molattn.plugins]\nmine = mine\n")
    assert _molattn(folder, "greet", "Ada", plugins="") == "hello Ada\n"


ANSWERS = """
import warnings
warnings.simplefilter("always")
from molattn.errors import UsageError
from molattn.plugins import describe_plugins
for _ in range(2):
    try:
        print(describe_plugins())
    except UsageError as error:
        print(str(error)[:40])
import statistics
print(statistics.mean([1, 3]))
"""


def _answers(folder: Path, plugins: str) -> str:
    environment = {**os.environ, VARIABLE: plugins, "HOME": str(folder)}
    command = [sys.executable, "-c", ANSWERS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=True)
    return done.stdout + done.stderr


def test_a_plugin_file_hides_no_module_of_its_name(folder: Path) -> None:
    (folder / "statistics.py").write_text("from molattn.attention.heads import JOINS\nJOINS['mine'] = JOINS['concat']")
    (folder / "elsewhere").mkdir()
    (folder / "statistics.py").rename(folder / "elsewhere" / "statistics.py")
    shown = _answers(folder, "~/elsewhere/statistics.py")
    assert "statistics.py: join mine" in shown
    assert "\n2\n" in shown


def test_a_plugin_listed_with_a_broken_one_is_imported_once(folder: Path) -> None:
    (folder / "bad.py").write_text("1 / 0")
    (folder / "once.py").write_text("print('imported')\nfrom molattn.attention.heads import JOINS\nJOINS['a'] = None")
    shown = _answers(folder, "once.py,bad.py")
    assert shown.count("imported") == 1
    assert shown.count("the plugin 'bad.py' cannot be loaded") == 2


def test_a_plugin_that_replaces_an_entry_is_named(folder: Path) -> None:
    (folder / "other.py").write_text("from molattn.attention.heads import JOINS\nJOINS['mean'] = JOINS['max']")
    assert "the plugin 'other.py' replaces the join mean; it can be taken out of MOLATTN_PLUGINS" in _answers(
        folder, "other.py"
    )
