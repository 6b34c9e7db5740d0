"""The files of a run folder that a model card is generated from."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from molattn.data import DatasetCard, dataset_names, load_card
from molattn.data.files import file_sha256
from molattn.data.schema import parse_json
from molattn.errors import InputError
from molattn.explain.faithfulness_file import FILE as FAITHFULNESS_FILE
from molattn.explain.faithfulness_file import FaithfulnessSummaries, read_summaries
from molattn.models.config_file import CONFIG_JSON, read_config_file
from molattn.training.bases import CARD
from molattn.training.run_config import read_config
from molattn.training.run_status import CONFIG_FILE, METRICS_FILE, model_folder

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class RunFiles:
    """The parsed files of a run folder; a missing file is empty.

    Attributes:
        folder: the folder of the run.
        model: the folder of the model, within the folder of the run.
        config: `config.json` of the model.
        config_sha256: the SHA-256 of `config.json`.
        metrics: `metrics.json`.
        report: `data_report.json`.
        environment: `env.json`.
        settings: `config.toml`.
        faithfulness: one-line summaries of `faithfulness.json`, by target and method; empty if the file was
            written for another model.
        base: `card.toml` of a base model; empty for other models.
    """

    folder: Path
    model: Path
    config: Fields
    config_sha256: str
    metrics: Fields
    report: Fields
    environment: Fields
    settings: Fields
    faithfulness: FaithfulnessSummaries
    base: Fields

    @property
    def data_name(self) -> str:
        """The name of the data set, or of the table's file; empty if it is not recorded."""
        name = self.settings.get("data", {}).get("dataset", "")
        return name if name in dataset_names() else Path(name).name

    @property
    def dataset_card(self) -> DatasetCard | None:
        """The card of the data set; None for a table without a card."""
        return load_card(self.data_name) if self.data_name in dataset_names() else None

    @property
    def descriptor_columns(self) -> list[str]:
        """The descriptors that are columns of the table, not computed from the SMILES."""
        return [d["name"] for d in self.config["descriptors"] if not d["computed"]]

    @property
    def is_base(self) -> bool:
        """Whether it is a base model, which makes no predictions before it is fine-tuned."""
        return bool(self.base)


def read_run(run: Path) -> RunFiles:
    """Read the files of a run, of a model that was saved alone, or of a base model.

    Raises:
        InputError: a file is damaged.
    """
    model = model_folder(run)
    return RunFiles(
        folder=run,
        model=model,
        config=read_config_file(model),
        config_sha256=file_sha256(model / CONFIG_JSON),
        metrics=_read_json(run / METRICS_FILE),
        report=_read_json(run / "data_report.json"),
        environment=_read_json(run / "env.json"),
        settings=read_config(run / CONFIG_FILE) if (run / CONFIG_FILE).is_file() else {},
        faithfulness=read_summaries(run, model) if (run / FAITHFULNESS_FILE).is_file() else {},
        base=_read_toml(run / CARD),
    )


@contextmanager
def damage_as_input_error(run: Path) -> Iterator[None]:
    """Raise errors in the block that are due to the content of a run's files as InputError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"a file of {run} is damaged, no model card can be written from it ({type(error).__name__}: {error}); copy "
            "the folder again, or give a card of your own"
        ) from error


def _read_json(path: Path) -> Fields:
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): copy it again") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged, it holds no JSON object: copy it again")
    return content


def _read_toml(path: Path) -> Fields:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): copy it again") from error
