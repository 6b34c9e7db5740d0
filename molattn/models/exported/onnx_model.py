"""A model in an ONNX file, which ONNX Runtime computes; without torch."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import ReadOptions
from molattn.data.schema import ValidationError
from molattn.data.store.molecule_store import select_molecules
from molattn.data.store.padding import pad_graphs, pad_tokens
from molattn.errors import InputError, MissingExtra, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_settings import MEMBERS_KEY, check_featurizer, read_parts
from molattn.models.batching import run_in_batches
from molattn.models.config import ModelConfig
from molattn.models.config_file import model_config_of, parse_config
from molattn.models.exported.metadata import CONFIG_KEY, EMBEDDING, FORMAT_VERSION, read_arrays, read_description
from molattn.models.molecule import Molecule
from molattn.models.predictions import Predictions
from molattn.models.readers import READERS
from molattn.models.tasks import task_from_dict
from molattn.models.uncertainty import DROPOUT, combine_members, record_failures
from molattn.plugins import load_plugins

MAX_PAIRS = 2**13
"""Maximum pairs of atoms or tokens in a batch, padding included. The graph writes each intermediate result to memory:
measured, 2**12 is as fast, 2**16 a quarter slower."""

THREADS_VARIABLE = "OMP_NUM_THREADS"
"""The environment variable with the number of threads, which torch reads as well."""


def open_session(model: str | bytes) -> Any:
    """A session of ONNX Runtime on the CPU, from a path or from the content of a file.

    Raises:
        MissingExtra: onnxruntime is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("onnxruntime", "onnx", "a prediction in ONNX") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.enable_cpu_mem_arena = False  # as fast, and the memory of a large molecule is freed
    if (threads := os.environ.get(THREADS_VARIABLE, "")).isdecimal():
        options.intra_op_num_threads = int(threads)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True)
class OnnxNetwork:
    """The graph in place of the torch module of an `Artifact`: the outputs of all its models.

    Attributes:
        session: of ONNX Runtime.
        config: the model's configuration.
        atom_level: whether its targets are atom-level.
    """

    session: Any
    config: ModelConfig
    atom_level: bool
    precision: str = "32-true"

    def reader(self, options: ReadOptions) -> Callable[[object], Any]:
        """As `MoleculeModel.reader`."""
        return READERS[self.config.kind](options)

    def slow_reason(self) -> str:
        """See `MoleculeModel.slow_reason`: empty, since ONNX Runtime has no slower variant."""
        return ""

    def run(
        self,
        outputs: Sequence[str],
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None,
        failures: dict[int, str] | None,
    ) -> list[np.ndarray]:
        """Each of the named outputs of the graph for all molecules, (n, width), float64: see `run_in_batches`.

        For atom-level targets (N, width). The "outputs" of several models are concatenated.
        """
        reads_tokens = self.config.kind == "smiles-transformer"
        shapes = {o.name: o.shape for o in self.session.get_outputs()}
        widths = [shapes[o][-1] if o == EMBEDDING else shapes[o][0] * shapes[o][-1] for o in outputs]

        def run_batch(rows: np.ndarray) -> np.ndarray:
            chosen: Any = select_molecules(molecules, rows)
            inputs = pad_tokens(chosen) if reads_tokens else pad_graphs(chosen)
            if descriptors is not None:
                inputs["descriptors"] = descriptors[rows].astype(np.float32)
            found = self.session.run(list(outputs), inputs)
            return np.concatenate([rows_of(y, o, inputs) for y, o in zip(found, outputs, strict=True)], 1)

        def rows_of(y: np.ndarray, output: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
            if output == EMBEDDING:
                return y
            if self.atom_level:
                y = y[:, inputs["mask"]]
            return y.swapaxes(0, 1).reshape(y.shape[1], -1)

        numbers = run_in_batches(
            run_batch,
            sum(widths),
            molecules,
            atom_level=self.atom_level,
            position_type="tokens" if reads_tokens else "atoms",
            max_pairs=MAX_PAIRS,
            failures=failures,
        )
        return np.split(numbers, np.cumsum(widths)[:-1], 1)


class OnnxArtifact(Artifact):
    """An `Artifact` whose models are replaced by one ONNX graph of all of them, an `OnnxNetwork`."""

    @property
    def embedding_dim(self) -> int:
        """The length of an embedding, descriptors included."""
        network: Any = self.model
        return next(o.shape[-1] for o in network.session.get_outputs() if o.name == EMBEDDING)

    def predict_attention(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty_method: str = "",
        failures: dict[int, str] | None = None,
        with_distances: bool = False,
    ) -> Predictions:
        """As `Artifact.predict_attention`."""
        network: Any = self.model
        domain = self.domain if with_distances else None
        names = ["outputs"] if domain is None else ["outputs", EMBEDDING]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # overflows are reported in `failures`
            outputs, *embeddings = network.run(names, molecules, descriptors, failures)
            members = [self.task.decode(output, self.scaler) for output in np.split(outputs, len(self.models), 1)]
            found = combine_members(members, self.task, uncertainty_method or self.uncertainty_method)
            if domain is not None:
                found = replace(found, distance=domain.distances(*embeddings))
            if failures is not None:
                record_failures(found, molecules, self.task.atom_level, failures)
            return found

    def embed(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        failures: dict[int, str] | None = None,
    ) -> np.ndarray:
        """As `Artifact.embed`."""
        network: Any = self.model
        (embeddings,) = network.run([EMBEDDING], molecules, descriptors, failures)
        return embeddings

    def resolve_uncertainty(self, requested: str) -> str:
        """As `Artifact.resolve_uncertainty`.

        Raises:
            UsageError: also for "dropout".
        """
        if requested == DROPOUT:
            raise UsageError("a model in ONNX has no dropout: predict with the run itself")
        return super().resolve_uncertainty(requested)


def load_onnx(path: str | Path) -> tuple[OnnxArtifact, str]:
    """Read a file that `molattn export` wrote.

    Returns:
        The model, and the checksum of the `config.json` of the run that it was exported from.

    Raises:
        InputError: there is no such file; it is damaged, not written by `molattn export`, or by a newer one; or it
            reads molecules in another way than this molattn.
        MissingExtra: onnxruntime is not installed.
        UsageError: a plugin cannot be loaded.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}: write it with molattn export")
    load_plugins()
    try:
        session = open_session(str(path))
    except MissingExtra:
        raise
    except Exception as error:  # the error classes of ONNX Runtime have no common base class
        raise InputError(
            f"{path} is not a model in ONNX that can be read: write it again with molattn export"
        ) from error
    try:
        return _artifact(session, session.get_modelmeta().custom_metadata_map, path)
    except ValidationError as error:
        raise InputError(f"{path} is damaged, or molattn export did not write it: {error}") from error
    except UsageError as error:
        raise InputError(f"{path} requires what is not available: {error}") from error
    except (ValueError, KeyError, TypeError, LookupError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}): write it again with molattn export") from error


def _artifact(session: Any, metadata: Mapping[str, str], path: Path) -> tuple[OnnxArtifact, str]:
    about = read_description(metadata)
    if about["format"] > FORMAT_VERSION:
        raise InputError(f"{path} was written by a later version of molattn: upgrade molattn")
    config = parse_config(metadata[CONFIG_KEY].encode(), path)
    check_featurizer(config, path)
    task = task_from_dict(config["task"])
    network: Any = OnnxNetwork(session, model_config_of(config), task.atom_level)
    others = (network,) * config[MEMBERS_KEY]
    artifact = OnnxArtifact(network, other_models=others, **read_parts(config, read_arrays(metadata), task))
    return artifact, about["config_sha256"]
