"""The part of a `Predictor` that needs torch: the device, saving, upload, and lists of molecules read together."""

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from molattn.chem import NO_GEOMETRY, Progress
from molattn.data.files import file_sha256
from molattn.errors import MolattnWarning, SmilesError, short_repr
from molattn.inference.base_predictor import BasePredictor
from molattn.models.artifact_file import save_artifact
from molattn.models.base import MoleculeModel
from molattn.models.descriptor_stream import DescriptorStream
from molattn.models.device import check_precision, resolve_device
from molattn.models.molecule import Molecule
from molattn.training.run_status import run_of_model

if TYPE_CHECKING:
    from molattn.publish.push import PushedModel

P = TypeVar("P", bound="TorchPredictor")


class TorchPredictor(BasePredictor):
    """The part of a `Predictor` that needs torch."""

    @property
    def model(self) -> MoleculeModel:
        """The model itself, a torch module in evaluation mode, with raw outputs: standardized values, logits, ...

        For an ensemble, its first model; see `members`.
        """
        return self._artifact.model

    @property
    def device(self) -> torch.device:
        """The device that it predicts on."""
        return self.model.head.weight.device

    @property
    def accelerator(self) -> str:
        """The type of `device`."""
        return self.device.type

    def to(self: P, device: str | torch.device, precision: str = "32-true") -> P:
        """Move the model to a device, in place, as `torch.nn.Module.to` does; returns the predictor itself.

        Args:
            device: "cpu"; "gpu" or one of torch's names, such as "cuda:1"; "auto" for a GPU if there is one.
            precision: "32-true", float32; or "bf16-mixed", automatic mixed precision with bfloat16 of predictions and
                embeddings, with some three significant digits. Attention maps and attributions have float32 always.

        Raises:
            UsageError: there is no such device, on this machine or at all; an unknown precision.

        >>> from molattn import MolAttentionRegressor
        >>> smiles, boiling_points = ["CO", "CCO", "CCCO", "CCCCO"], [65, 78, 97, 118]
        >>> model = MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, boiling_points)
        >>> model.predictor_.to("auto").predict("CCO").shape
        ()
        """
        check_precision(precision)
        resolved = resolve_device(device)
        for model in self._artifact.models:
            model.to(resolved)
            model.precision = precision
        return self

    def save(self, folder: str | Path) -> None:
        """Write the model as `model.safetensors` and `config.json`, which `load` and the commands read.

        Args:
            folder: created if it does not exist; a model in it is replaced atomically.

        Raises:
            OSError: the folder or a file cannot be written.
        """
        save_artifact(folder, self._artifact)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        revision: str = "",
        commit_message: str = "",
        license: str = "",
        card: str | Path | None = None,
        dry_run: bool = False,
    ) -> "PushedModel":
        """Upload the model to the Hugging Face Hub: `molattn.push` of the run that it was loaded from.

        A model that is not from a run on this machine is uploaded alone, and its card says what is not recorded.

        Args:
            repo_id: "user/model", or hf://user/model.
            private, revision, commit_message, license, card, dry_run: as for `molattn.push`.

        Raises:
            InputError, UsageError, MissingExtra: as for `molattn.push`.
        """
        # Imported here, because predictions do not need it.
        from molattn.publish.push import push

        options = {"private": private, "revision": revision, "commit_message": commit_message, "license": license}
        with tempfile.TemporaryDirectory() as temporary:
            if self.folder is None or self.address:
                self.save(temporary)
                run = Path(temporary)
            else:
                run = run_of_model(self.folder)
            return push(run, repo_id, card=card, dry_run=dry_run, **options)

    def config_sha256(self) -> str:
        """SHA-256 of the model's `config.json`, which holds the checksum of its weights."""
        if self.folder is not None:
            return file_sha256(self.folder / "config.json")
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return file_sha256(Path(folder) / "config.json")

    def _read_list(self, smiles: list[object], descriptors: Any) -> list[tuple[Molecule, np.ndarray | None]]:
        """Molecules with their descriptors; raises SmilesError at the first bad one, warns of missing 3D geometries."""
        found = []
        stream = DescriptorStream(self._artifact.descriptors, descriptors)
        for row in stream.join(smiles, self._read_molecules(smiles)):
            if isinstance(row.molecule, SmilesError):
                raise row.molecule
            for warning in row.molecule.warnings:
                if warning.startswith(NO_GEOMETRY):
                    warnings.warn(MolattnWarning(f"{short_repr(row.smiles)}: {warning}"), stacklevel=4)
            found.append((row.molecule, row.descriptors))
        stream.check_end()
        return found

    def _read_molecules(
        self, smiles: Iterable[object], num_workers: int = 0, progress: Progress | None = None
    ) -> Sequence[Molecule | SmilesError]:
        """The molecules, read as in training."""
        return self.model.read(smiles, self.read_options, num_workers, progress)
