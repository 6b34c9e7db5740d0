"""An exported model predicts what the model predicts: every kind of model, batches of any size, padded or not."""

import json
from collections import ChainMap
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from molattn import load
from molattn.attention import NORMALIZERS, SCORES, SCORES_WITH_WEIGHTS
from molattn.chem import ConformerOptions, ReadOptions
from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.graph import READOUTS
from molattn.graph.blocks import BLOCKS
from molattn.inference import OnnxPredictor, PredictionOptions, Predictor
from molattn.inference.options import DEFAULT_OPTIONS
from molattn.inference.rows import RowPrediction
from molattn.models.artifact import Artifact
from molattn.models.blended_trees import BlendedTrees
from molattn.models.calibration import Calibration
from molattn.models.config import GraphModelConfig
from molattn.models.encodings import EDGE_ENCODINGS
from molattn.models.exported.write import MIN_TORCH
from molattn.models.presets import PRESETS
from molattn.models.scaler import TargetScaler
from molattn.models.target_transform import TargetTransform
from molattn.models.tasks import Binary, Multiclass, Regression
from tests.assertions import assert_same_predictions
from tests.exports import needs_export
from tests.models.forms import FORMS, GRAPH, TOKENS, _artifact
from tests.models.forms import SCORES as CALIBRATION

pytestmark = needs_export

SMILES = [
    "CCO",
    "C",
    "c1ccccc1",  # its atoms are alike: ties of hard attention
    "C1CC",
    "C[N+](C)(C)CC.[Cl-]",
    "FC(F)(F)c1ccc(cc1)C(=O)[O-].[Na+]",
    "C[C@H](N)C(=O)O",
    "C12C3C4C1C5C2C3C45",
    "CCCCCCCCCCCCCCCCCCCCCCCCCCCCCC",
]
TOLERANCE = 1e-5
THREE = Multiclass(classes=(("a", "b"), ("u", "v", "w")))
MORE_FORMS: dict[str, Callable[[], Artifact]] = {
    "classes of an ensemble": lambda: _artifact("pq", task=THREE, size=2),
    "dirichlet": lambda: _artifact("pq", task=replace(THREE, loss="dirichlet")),
    "evidential": lambda: _artifact(
        "yz",
        task=Regression("evidential"),
        calibration=Calibration("zscaling", "evidential-total", (deepcopy(CALIBRATION), deepcopy(CALIBRATION))),
    ),
    "distances and a transform": lambda: replace(
        FORMS["distances"](), scaler=TargetScaler((-3.0,), (2.0,), (TargetTransform("log10"),))
    ),
    "mve of an ensemble": lambda: _artifact("yz", task=Regression("mve"), size=3),
    "classes of atoms": lambda: _artifact("yz", task=Binary(atom_level=True), size=2),
    "atoms and a virtual node": lambda: _artifact(
        "q", config=replace(GRAPH, virtual_node=True), task=Regression(atom_level=True)
    ),
    "tokens and hydrogens": lambda: _artifact(config=TOKENS, read_options=ReadOptions(add_hs=True)),
}


def exported(artifact: Artifact, folder: Path) -> tuple[Predictor, OnnxPredictor]:
    """The predictor, its weights away from the initial ones, which are zero in places; and the exported one."""
    torch.manual_seed(1)
    with torch.no_grad():
        for model in artifact.models:
            for x in model.parameters():
                x.add_(0.3 * torch.randn_like(x))
    predictor = Predictor(artifact)
    predictor.export(folder / "model.onnx")
    return predictor, OnnxPredictor(folder / "model.onnx")


def numbers(row: RowPrediction) -> list[Any]:
    return [] if row.values is None else [*row.values, *row.extra_values]


def assert_same(
    predictor: Predictor,
    onnx: OnnxPredictor,
    smiles: list[str] = SMILES,
    options: PredictionOptions = DEFAULT_OPTIONS,
) -> None:
    """Rows in the same order, with the same errors, warnings and columns; numbers within the tolerance."""
    z = np.linspace(0.0, 1.0, len(smiles))[:, None] if predictor.descriptors else None
    assert onnx.extra_value_columns(options) == predictor.extra_value_columns(options)
    expected = list(predictor.predict_rows(smiles, descriptors=z, options=options))
    found = list(onnx.predict_rows(smiles, descriptors=z, options=options))
    for a, b in zip(found, expected, strict=True):
        assert (a.smiles, a.error, a.warnings) == (b.smiles, b.error, b.warnings)
        for x, y in zip(numbers(a), numbers(b), strict=True):
            if isinstance(y, str) or (isinstance(y, tuple) and isinstance(y[0], str)):
                assert x == y
            else:
                assert_same_predictions(x, y, TOLERANCE)


def feed(artifact: Artifact, smiles: list[str], padding: int = 0) -> dict[str, np.ndarray]:
    """The inputs of a session, with more padding than the molecules need; descriptors are random."""
    molecules = [artifact.model.reader(artifact.read_options)(text) for text in smiles]
    k = 0 if artifact.descriptors is None else len(artifact.descriptors.names)
    z = np.random.default_rng(0).normal(size=(len(smiles), k)).astype(np.float32) if k else None
    batch = vars(artifact.model.collate(molecules, None, z))
    arrays = {name: x.numpy() for name, x in batch.items() if x is not None}
    for name in arrays.keys() - {"descriptors"}:
        sizes = [(0, 0)] + [(0, padding)] * (1 if name in ("atom_codes", "mask", "codes") else 2)
        arrays[name] = np.pad(arrays[name], sizes + [(0, 0)] * (arrays[name].ndim - len(sizes)))
    return arrays


def assert_decoded(predictor: Predictor, onnx: OnnxPredictor, smiles: list[str], padding: int) -> None:
    """The outputs for other programs are those that `predict` writes."""
    artifact: Artifact = predictor._artifact
    session = onnxruntime.InferenceSession(str(onnx.path))
    arrays = feed(artifact, smiles, padding)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, arrays), strict=True))
    molecules = [artifact.model.reader(artifact.read_options)(text) for text in smiles]
    expected = artifact.apply_calibration(artifact.predict(molecules, arrays.get("descriptors")))
    decoded = {"prediction": expected.values, "distribution": expected.distribution, "std": expected.std}
    for name, wanted in decoded.items():
        if wanted is None or not wanted.size:
            assert name not in found
            continue
        x = found[name][arrays["mask"]] if artifact.task.atom_level else found[name]
        assert_same_predictions(x, wanted, TOLERANCE)
    if not artifact.task.atom_level:
        embedded = artifact.embed(molecules, arrays.get("descriptors"))
        # A sum over atoms cancels in some entries: the rounding is that of the vector, not of the entry.
        scale = np.maximum(1, np.abs(embedded).max(axis=-1, keepdims=True))
        assert_same_predictions(found["embedding"] / scale, embedded / scale, TOLERANCE)


def check(artifact: Artifact, folder: Path) -> None:
    predictor, onnx = exported(artifact, folder)
    assert (onnx.targets, onnx.units, onnx.task) == (predictor.targets, predictor.units, predictor.task)
    assert (onnx.extra_columns, onnx.descriptors) == (predictor.extra_columns, predictor.descriptors)
    assert onnx.read_options == predictor.read_options
    assert_same(predictor, onnx)
    readable = [text for text in SMILES if text != "C1CC"]
    for smiles, padding in ((readable[:1], 0), (readable[1:2], 3), (readable, 0), (readable, 7)):
        assert_decoded(predictor, onnx, smiles, padding)
    if artifact.calibration is not None:
        assert_same(predictor, onnx, options=PredictionOptions(level=0.5))
    if artifact.domain is not None:
        assert_same(predictor, onnx, options=PredictionOptions(applicability=True))


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, OnnxPredictor]:
    config = GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=2)
    return exported(_artifact("yz", config=config), tmp_path_factory.mktemp("default"))


@pytest.mark.parametrize("name", ["ensemble", "transform"])
def test_models_of_these_forms_predict_the_same(name: str, tmp_path: Path) -> None:
    check(FORMS[name](), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FORMS, *MORE_FORMS])
def test_models_of_every_form_predict_the_same(name: str, tmp_path: Path) -> None:
    check({**FORMS, **MORE_FORMS}[name](), tmp_path)


def settings_of(**changes: Any) -> GraphModelConfig:
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    return GraphModelConfig(**{"hidden_dim": 16, "num_layers": 1, "num_heads": 8} | changes)


EDGES = [*([name] for name in EDGE_ENCODINGS), []]
NORMALIZED = [
    *({"normalizer": name} for name in NORMALIZERS),
    *({"temperature": t} for t in (0.0, 0.5, 1e9)),
]
SCORED = [{"score": name} for name in (*SCORES, *SCORES_WITH_WEIGHTS) if name != "location"]
POOLED = [{"readout": name, "global_dim": 8, "virtual_node": True} for name in READOUTS]
JOINED = [{"join": name} for name in ("concat", "mean", "max")]
NEIGHBOURS = [{"neighbours": name} for name in ("all", "bonded")]
CONFIGS: dict[str, dict[str, Any]] = {
    f"preset {name}": {"num_layers": 2} | preset.settings.get("model", {}) for name, preset in PRESETS.items()
}
# Every choice of every setting, several at once, because each export takes seconds.
for edges, *others in zip(EDGES, *map(cycle, (NORMALIZED, SCORED, POOLED, JOINED, NEIGHBOURS)), strict=False):
    changes = {"edges": edges} | dict(ChainMap(*others))
    name = ", ".join(str(changes[key]) for key in changes if key not in ("global_dim", "virtual_node"))
    CONFIGS[name] = changes


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_models_of_every_setting_predict_the_same(name: str, tmp_path: Path) -> None:
    config = settings_of(**CONFIGS[name])
    options = ReadOptions(conformers=ConformerOptions() if config.needs_3d else None)
    check(_artifact(config=config, read_options=options), tmp_path)


def test_the_settings_have_every_choice() -> None:
    configs = [settings_of(**config) for config in CONFIGS.values()]
    for name, choices in {
        "attention": BLOCKS,
        "normalizer": NORMALIZERS,
        "readout": READOUTS,
        "score": {*SCORES, *SCORES_WITH_WEIGHTS} - {"location"},
        "join": ("concat", "mean", "max"),
        "neighbours": ("all", "bonded"),
    }.items():
        assert {getattr(config, name) for config in configs} >= set(choices)
    assert {edge for config in configs for edge in config.edges} >= set(EDGE_ENCODINGS)


def test_batches_of_any_size(default: tuple[Predictor, OnnxPredictor]) -> None:
    for n in range(1, len(SMILES) + 1):
        assert_same(*default, smiles=SMILES[:n])
    assert_same(*default, smiles=SMILES * 30)
    assert list(default[1].predict_rows([])) == []


def test_a_molecule_has_the_same_prediction_in_any_batch(default: tuple[Predictor, OnnxPredictor]) -> None:
    predictor, onnx = default
    for smiles, padding in ((SMILES[:3], 0), (SMILES[:3], 1), (SMILES[:3] + SMILES[4:], 20)):
        assert_decoded(predictor, onnx, smiles, padding)


def test_arrays_tables_and_embeddings(default: tuple[Predictor, OnnxPredictor], tmp_path: Path) -> None:
    predictor, onnx = default
    with pytest.warns(MolattnWarning, match="1 of 9"):
        expected = predictor.predict(SMILES)
    with pytest.warns(MolattnWarning, match="1 of 9"):
        assert_same_predictions(onnx.predict(SMILES), expected, TOLERANCE)
    with pytest.raises(InputError, match="C1CC"):
        onnx.predict(SMILES, on_error="raise")
    assert onnx.predict("CCO").shape == (2,)
    assert_same_predictions(onnx.embed("CCO"), predictor.embed("CCO"), TOLERANCE)
    table = tmp_path / "in.csv"
    table.write_text("\n".join(["smiles,note", *(f'{text},"a, b"' for text in SMILES)]) + "\n")
    texts = []
    for p, name in ((predictor, "torch.csv"), (onnx, "onnx.csv")):
        with pytest.warns(MolattnWarning, match="1 of 9"):
            counts = p.predict_table(table, tmp_path / name)
        assert (counts.rows, counts.failed) == (9, 1)
        texts.append((tmp_path / name).read_text().splitlines())
    for found, wanted in zip(*texts, strict=True):
        a, b = found.split(","), wanted.split(",")
        assert [a[0], *a[5:]] == [b[0], *b[5:]]
    with pytest.raises(UsageError, match="OnnxPredictor"):
        predictor.predict_table(table, tmp_path / "no.csv", engine="onnx")


def test_the_metadata_say_what_the_tensors_are(default: tuple[Predictor, OnnxPredictor]) -> None:
    session = onnxruntime.InferenceSession(str(default[1].path))
    metadata = session.get_modelmeta().custom_metadata_map
    about, config = json.loads(metadata["molattn"]), json.loads(metadata["molattn.config"])
    types = {"uint8": "tensor(uint8)", "bool": "tensor(bool)", "float32": "tensor(float)"}
    found = {i.name: (i.type, i.shape) for i in session.get_inputs()}
    assert found == {name: (types[x["dtype"]], x["shape"]) for name, x in about["inputs"].items()}
    outputs = {o.name: (o.type, o.shape) for o in session.get_outputs()}
    assert outputs == {
        "prediction": ("tensor(double)", ["molecules", 2]),
        "outputs": ("tensor(double)", [1, "molecules", 2]),
        "embedding": ("tensor(double)", ["molecules", 16]),
    }
    assert about["outputs"] == {"prediction": ["y_pred", "z_pred"]}
    assert [target["name"] for target in config["targets"]] == ["y", "z"]
    assert config["vocabulary"]["atoms"]["element"][6] == "C"


def test_the_file_contains_no_path_of_this_machine(default: tuple[Predictor, OnnxPredictor]) -> None:
    data = default[1].path.read_bytes()
    assert str(Path.cwd()).encode() not in data
    assert b".py" not in data


def test_a_program_of_torch_gives_the_same(default: tuple[Predictor, OnnxPredictor], tmp_path: Path) -> None:
    predictor, _ = default
    predictor.export(tmp_path / "model.pt2", "torch")
    metadata = {"molattn": "", "molattn.config": "", "molattn.arrays": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=metadata)
    assert json.loads(metadata["molattn"])["outputs"] == {"prediction": ["y_pred", "z_pred"]}
    for smiles in (["C"], ["CCO"], [text for text in SMILES if text != "C1CC"] * 9):
        arrays = feed(predictor._artifact, smiles)
        found = program.module()(**{name: torch.from_numpy(x) for name, x in arrays.items()})
        assert_same_predictions(found["prediction"].numpy(), predictor.predict(smiles), TOLERANCE)


def test_what_cannot_be_exported_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = BlendedTrees(("morgan_count",), (), ())
    path = tmp_path / "model.onnx"
    with pytest.raises(UsageError, match="its boosted trees read fingerprints"):
        Predictor(replace(_artifact(), trees=trees)).export(path)
    with pytest.raises(UsageError, match="passes with dropout"):
        Predictor(replace(_artifact(), uncertainty_method="dropout")).export(path)
    with pytest.raises(UsageError, match="unknown format 'keras'"):
        Predictor(_artifact()).export(path, "keras")
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(UsageError, match=r"needs torch 2\.13 or later, and this is 2\.9\.1"):
        Predictor(_artifact()).export(path)
    monkeypatch.setattr(torch, "__version__", ".".join(map(str, MIN_TORCH)))
    monkeypatch.setattr("molattn.models.exported.write.trace", lambda _: 1 / 0)
    with pytest.raises(UsageError, match="torch cannot export this model, .*: division by zero"):
        Predictor(_artifact()).export(path)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_differs_from_the_model_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, other = _artifact(), _artifact(config=replace(GRAPH, num_layers=2))
    from molattn.models.exported import program, write

    monkeypatch.setattr(write, "trace", lambda _: program.trace(other))
    with pytest.raises(UsageError, match="the exported graph differs from the model"):
        Predictor(artifact).export(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_exported_models(default: tuple[Predictor, OnnxPredictor], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(InputError, match="there is no file"):
        OnnxPredictor(path)
    path.write_bytes(b"no model")
    with pytest.raises(InputError, match="is not a model in ONNX that can be read"):
        OnnxPredictor(path)
    with pytest.raises(UsageError, match="OnnxPredictor"):
        load(path)

    def changed(key: str, old: str, new: str) -> Path:
        model = onnx.load(default[1].path)
        for entry in model.metadata_props:
            if entry.key == key:
                assert old in entry.value
                entry.value = entry.value.replace(old, new)
        onnx.save(model, path)
        return path

    with pytest.raises(InputError, match="written by a later version of molattn"):
        OnnxPredictor(changed("molattn", '"format": 1', '"format": 2'))
    with pytest.raises(InputError, match="does not match the checksum"):
        OnnxPredictor(changed("molattn.config", '"unit": ""', '"unit": "m"'))
    for key in ("molattn", "molattn.config", "molattn.arrays"):
        with pytest.raises(InputError, match="is damaged"):
            OnnxPredictor(changed(key, "{", "["))
    model = onnx.load(default[1].path)
    del model.metadata_props[:]
    onnx.save(model, path)
    with pytest.raises(InputError, match="has no metadata of molattn"):
        OnnxPredictor(path)


def test_dropout_needs_the_run(default: tuple[Predictor, OnnxPredictor]) -> None:
    with pytest.raises(UsageError, match="has no dropout"):
        list(default[1].predict_rows(["C"], options=PredictionOptions(uncertainty_method="dropout")))


def test_molecules_that_do_not_fit_into_memory(default: tuple[Predictor, OnnxPredictor]) -> None:
    onnx, long = default[1], SMILES[-1]
    network: Any = onnx._artifact.model
    session = network.session

    class Small:
        get_outputs = session.get_outputs

        @staticmethod
        def run(names: list[str], inputs: dict[str, np.ndarray]) -> Any:
            if inputs["mask"].shape[1] > 20:
                raise RuntimeError("Failed to allocate memory for requested buffer of size 100")
            return session.run(names, inputs)

    object.__setattr__(network, "session", Small)
    try:
        rows = list(onnx.predict_rows(["CCO", long, "CC"]))
    finally:
        object.__setattr__(network, "session", session)
    assert [row.error == "" for row in rows] == [True, False, True]
    assert "not enough memory for its 30 atoms" in rows[1].error
