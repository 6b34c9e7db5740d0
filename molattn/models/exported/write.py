"""The export of a model as one file: an ONNX graph, or a program of `torch.export`."""

import hashlib
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molattn import __version__
from molattn.data.files import atomic_write
from molattn.errors import MissingExtra, UsageError, unknown_choice
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import model_files
from molattn.models.exported.decode import undecoded_reason
from molattn.models.exported.metadata import file_metadata, input_shapes, output_names
from molattn.models.exported.program import PROGRAMS, example_batch, trace

FORMATS = ("onnx", "torch")
"""What a model is exported to: ONNX, or the .pt2 of `torch.export`."""

MIN_TORCH = (2, 13)
"""The torch whose exporter is tested."""

OPSET = 20
"""The version of ONNX's operators, the first with GELU."""

TOLERANCE = 1e-4
"""The largest difference of an exported graph from its model, relative to 1 plus the raw output."""


def export_artifact(artifact: Artifact, path: str | Path, format: str = "onnx", config_sha256: str = "") -> None:
    """Write a model as one file; an existing file is replaced atomically.

    Args:
        artifact: the model, on the CPU.
        path: the file.
        format: one of `FORMATS`.
        config_sha256: the checksum of the `config.json` that the model was read from; its own when empty.

    Raises:
        UsageError: an unknown format, a torch that is too old, or a model that cannot be exported.
        MissingExtra: onnx or onnxscript is not installed, and the format is "onnx".
        OSError: the file cannot be written.
    """
    _check(artifact, format)
    config, _ = model_files(artifact)
    metadata = file_metadata(artifact, config, config_sha256 or hashlib.sha256(config).hexdigest(), torch.__version__)
    with _quiet(), torch.no_grad():
        try:
            program = trace(artifact)
            model = None if format == "torch" else _to_onnx(artifact, program, metadata)
        except ImportError as error:
            raise UsageError(f"torch {torch.__version__} needs a newer onnxscript: {error}; upgrade it") from error
        except Exception as error:  # the exporters raise errors of many classes
            why = str(error).strip().partition("\n")[0]
            raise UsageError(f"torch cannot export this model, a part of it depends on values: {why}") from error
    if model is not None:
        data = model.SerializeToString()
        _check_outputs(artifact, data)
        with atomic_write(Path(path)) as file:
            file.write(data)
        return
    with atomic_write(Path(path)) as file:
        torch.export.save(program, file, extra_files=metadata)


def unsupported_reason(artifact: Artifact) -> str:
    """Why a model cannot be exported; empty if it can."""
    if artifact.trees is not None:
        return "its boosted trees read fingerprints, which only molattn computes: train without --with-trees"
    if artifact.model.config.kind not in PROGRAMS:
        return f"it is of the kind {artifact.model.config.kind}"
    return undecoded_reason(artifact)


def _check(artifact: Artifact, format: str) -> None:
    """Raise UsageError or MissingExtra for what cannot be exported, before the export starts."""
    if format not in FORMATS:
        raise UsageError(unknown_choice("format", format, FORMATS))
    if reason := unsupported_reason(artifact):
        raise UsageError(f"this model cannot be exported: {reason}")
    version = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
    if version < MIN_TORCH:
        needed = ".".join(map(str, MIN_TORCH))
        raise UsageError(f"the export needs torch {needed} or later, and this is {torch.__version__}: upgrade torch")
    for package in ("onnx", "onnxscript") if format == "onnx" else ():
        if find_spec(package) is None:
            raise MissingExtra(package, "onnx", "the export to ONNX")


def _to_onnx(artifact: Artifact, program: torch.export.ExportedProgram, metadata: dict[str, str]) -> Any:
    """The graph as an `onnx.ModelProto`."""
    names = output_names(artifact)
    found = torch.onnx.export(
        program,
        dynamo=True,
        opset_version=OPSET,
        output_names=[f"output.{name}" for name in names],
        verbose=False,
        custom_translation_table={torch.ops.aten.gelu.default: _gelu_translation()},
    )
    assert found is not None
    model = found.model_proto
    graph = model.graph
    model.producer_name, model.producer_version, model.doc_string = "molattn", __version__, "Predictions of molattn."
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    # The exporter writes the source file and line of each operation there.
    for part in (*graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer, graph):
        del part.metadata_props[:]
        part.doc_string = ""
    # The exporter may have given these names to other values.
    _rename_values(graph, {name: f"{name}.inner" for name in names} | {f"output.{name}": name for name in names})
    dims = _dimension_names(artifact, graph.input)
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_param = dims[dim.dim_param]
    return model


def _rename_values(graph: Any, names: dict[str, str]) -> None:
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
    for value in (*graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)


def _gelu_translation() -> Any:
    """GELU in float32, also where the model has it in float64: ONNX Runtime has no float64 kernel of it."""
    from onnxscript import opset20

    op: Any = opset20

    def gelu(self: Any, approximate: str = "none") -> Any:
        return op.CastLike(op.Gelu(op.Cast(self, to=1), approximate=approximate), self)

    return gelu


def _dimension_names(artifact: Artifact, inputs: Any) -> dict[str, str]:
    """The names "molecules", "atoms" and "tokens", by the names that the exporter gave to these dimensions."""
    shapes = input_shapes(artifact)
    found = {}
    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        found |= {d.dim_param: size for d, size in zip(dims, shapes[value.name], strict=True) if d.dim_param}
    return found


def _check_outputs(artifact: Artifact, data: bytes) -> None:
    """Raise UsageError if the graph differs from the model, as a part of a plugin may be exported incorrectly.

    Does nothing if ONNX Runtime is not installed.
    """
    if find_spec("onnxruntime") is None:
        return
    from molattn.models.exported.onnx_model import open_session

    batch = example_batch(artifact)
    session = open_session(data)
    (found,) = session.run(["outputs"], {name: getattr(batch, name).numpy() for name in input_shapes(artifact)})
    with torch.inference_mode():
        expected = np.stack([model(batch).numpy() for model in artifact.models])
    if artifact.task.atom_level:
        found = found[:, batch.mask.numpy()]
    difference = float((np.abs(found - expected) / (1 + np.abs(expected))).max())
    if not difference <= TOLERANCE:
        raise UsageError(f"the exported graph differs from the model by {difference:.1g}: it was not written")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings and log messages of the exporter in the block: they do not concern the user."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
