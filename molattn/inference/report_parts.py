"""What the model of a run adds to its report: intervals, out-of-domain flags, heads, and attributions of errors."""

import numpy as np

from molattn.errors import InputError, SmilesError, UsageError
from molattn.explain import Attribution, HeadSummary
from molattn.inference.attention_table import summarize_smiles
from molattn.inference.options import PredictionOptions
from molattn.inference.predictor import Predictor, load
from molattn.training.run_status import model_folder
from molattn.viewer.report.error_sections import NUM_WORST
from molattn.viewer.report.errors_by_molecule import worst_errors
from molattn.viewer.report.model_parts import ATTRIBUTIONS, DOMAIN, HEADS, INTERVALS, Missing, ModelParts
from molattn.viewer.report.payload import compared_rows
from molattn.viewer.report.run_files import RunFiles

LEVEL = 0.9
"""The level of the intervals, or sets of classes, of a report."""

MAX_HEAD_MOLECULES = 500
"""Largest number of molecules that the summary of heads is computed from."""

_MISSING_TEXT = {
    INTERVALS: "Intervals are missing",
    DOMAIN: "Out-of-domain flags are missing",
    HEADS: "The summary of heads is missing",
    ATTRIBUTIONS: "The contributions of atoms are missing",
}


def measure_parts(run: RunFiles) -> ModelParts:
    """What the model in the folder of a run adds to its report; for what it cannot add, why."""
    if not (model_folder(run.folder) / "config.json").is_file():
        return _without_model("the folder has no model")
    try:
        predictor = load(run.folder)
    except InputError as error:
        return _without_model(str(error))
    if predictor.descriptors:
        reason = "the model reads descriptors of a table, which the run folder does not keep"
        command = f"molattn predict {run.quoted_folder} TABLE --interval {LEVEL} --applicability -o out.csv"
        return _without_model(reason, command, f"molattn heads {run.quoted_folder} TABLE")
    missing: dict[str, Missing] = {}
    intervals, sets, domain = _intervals_and_domain(predictor, run, missing)
    heads = _heads(predictor, run, missing)
    return ModelParts(LEVEL, intervals, sets, domain, heads, _attributions(predictor, run, missing), missing)


def _without_model(reason: str, command: str = "", heads_command: str = "") -> ModelParts:
    commands = {HEADS: heads_command, INTERVALS: command}
    return ModelParts(
        missing={part: Missing(f"{text}: {reason}.", commands.get(part, "")) for part, text in _MISSING_TEXT.items()}
    )


def _supported_options(predictor: Predictor, run: RunFiles, missing: dict[str, Missing]) -> PredictionOptions:
    """The options of intervals and of the applicability domain that the model supports."""
    supported = {}
    for part, options in (
        (INTERVALS, PredictionOptions(level=LEVEL)),
        (DOMAIN, PredictionOptions(applicability=True)),
    ):
        try:
            predictor.extra_value_columns(options)
            supported[part] = True
        except UsageError as error:
            command = f"molattn train --config {run.folder / 'config.toml'} --calibration-size 0.1"
            missing[part] = Missing(f"{_MISSING_TEXT[part]}: {error}.", command if part == INTERVALS else "")
    return PredictionOptions(LEVEL if INTERVALS in supported else None, applicability=DOMAIN in supported)


def _intervals_and_domain(
    predictor: Predictor, run: RunFiles, missing: dict[str, Missing]
) -> tuple[dict[str, np.ndarray], dict[str, list[tuple[str, ...] | None]], list[str]]:
    """The intervals or sets of each target, and the out-of-domain flags; empty for what the model does not support."""
    options = _supported_options(predictor, run, missing)
    if options.level is None and not options.applicability:
        return {}, {}, []
    names = [column.name for column in predictor.extra_value_columns(options)]
    values = [row.extra_values for row in predictor.predict_rows(run.smiles, options=options)]

    def column(name: str, default: object) -> list:
        index = names.index(name)
        return [v[index] if v else default for v in values]

    intervals, sets = {}, {}
    for values_of_target in run.targets:
        target = values_of_target.name
        if f"{target}_lower" in names:
            ends = [np.array(column(f"{target}_{end}", np.nan), dtype=float) for end in ("lower", "upper")]
            intervals[target] = values_of_target.transformed_ends(np.stack(ends, 1))
        elif f"{target}_set" in names:
            sets[target] = column(f"{target}_set", None)
    return intervals, sets, column("out_of_domain", "") if options.applicability else []


def _heads(predictor: Predictor, run: RunFiles, missing: dict[str, Missing]) -> HeadSummary | None:
    rows, _ = compared_rows(run.splits)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MAX_HEAD_MOLECULES)).astype(int))]
    smiles = [run.smiles[i] for i in rows]
    try:
        return summarize_smiles(predictor, smiles, [f"row {run.rows[i]}" for i in rows])[0]
    except UsageError as error:
        missing[HEADS] = Missing(f"{_MISSING_TEXT[HEADS]}: {error}.")
        return None


def _attributions(
    predictor: Predictor, run: RunFiles, missing: dict[str, Missing]
) -> dict[str, dict[int, Attribution]]:
    """By target and index, the attributions of the molecules with the largest errors."""
    rows, _ = compared_rows(run.splits)
    found: dict[str, dict[int, Attribution]] = {}
    for target in run.targets:
        worst = worst_errors(target, rows, NUM_WORST).tolist()
        try:
            results = list(predictor.attribution_rows([run.smiles[i] for i in worst], target=target.name))
        except UsageError as error:
            missing[ATTRIBUTIONS] = Missing(f"{_MISSING_TEXT[ATTRIBUTIONS]}: {error}.")
            return {}
        pairs = zip(worst, results, strict=True)
        found[target.name] = {i: result for i, result in pairs if not isinstance(result, SmilesError)}
    return found
