"""Sections of a model card: applicability domain, limits, and details of the training."""

from collections.abc import Mapping, Sequence
from typing import Any

from molattn.models.applicability_domain import NUM_NEIGHBOURS
from molattn.models.config import GraphModelConfig
from molattn.publish.markdown import code, escaped, number, table
from molattn.publish.run_files import RunFiles
from molattn.publish.training_molecules import TrainingMolecules


def domain_section(run_files: RunFiles) -> list[str]:
    """The thresholds beyond which a molecule is outside of the applicability domain."""
    domain = run_files.config["domain"]
    if domain is None:
        return ["The model has no data of training molecules to compare with: `--applicability` does not work with it."]
    distance, similarity = number(domain["max_distance"]), number(domain["min_similarity"])
    return [
        "`molattn predict --applicability` marks a molecule as unlike the training molecules if its mean distance to "
        f"the {NUM_NEIGHBOURS} nearest of them, between vectors of the model, is over {distance}, or if its largest "
        f"Tanimoto similarity to one (Morgan fingerprints) is below {similarity}. For that, `model.safetensors` has "
        "fingerprints and vectors of training molecules."
    ]


def limits_section(run_files: RunFiles, training: TrainingMolecules | None) -> list[str]:
    """Elements and sizes of the training molecules, the representation of molecules, and required columns."""
    lines = [*_training(run_files, training), *_representation(run_files), *_required_columns(run_files)]
    return [f"- {text}" for text in lines]


def _training(run_files: RunFiles, training: TrainingMolecules | None) -> list[str]:
    if training is None:
        return [
            "The elements and sizes of the training molecules are not recorded: the run's predictions.csv is missing."
        ]
    examined = "" if training.examined == training.count else f", of which {training.examined:,} were examined"
    elements = ", ".join(f"{escaped(symbol)} {n:,}" for symbol, n in training.elements.items())
    smallest, median, largest = training.sizes
    lines = [
        f"Trained on {training.count:,} molecules{examined}.",
        f"Number of molecules with each element: {elements}. Predictions for other elements are extrapolations.",
        f"Heavy atoms per molecule: {smallest} to {largest}, median {median:g}. Predictions for larger molecules are "
        "extrapolations.",
    ]
    not_represented = (
        f"{training.not_represented:,} of them have a property that is not part of the input, such as an isotope."
    )
    return [*lines, not_represented] if _is_graph_model(run_files) else lines


def _is_graph_model(run_files: RunFiles) -> bool:
    return run_files.config["model"]["kind"] == GraphModelConfig.kind


def _representation(run_files: RunFiles) -> list[str]:
    molecules = run_files.config["molecules"]
    standardize = molecules["standardize"]
    lines = [f"Molecules of more than {molecules['max_atoms']:,} atoms are rejected."]
    if not _is_graph_model(run_files):
        lines.append("Its input is the tokens of canonical SMILES, from which it has to infer bonds and rings.")
    elif molecules["conformers"] is None:
        lines.append("3D geometry is not part of the input: all conformers of a molecule have the same prediction.")
    if standardize:
        lines.append(f"Molecules are standardized first: {code(standardize)}.")
    else:
        lines.append("Molecules are not standardized: salts, charges and tautomers are as in the SMILES.")
    if _is_graph_model(run_files):
        explicit = molecules["add_hs"]
        lines.append(
            "Hydrogens are explicit atoms." if explicit else "Hydrogens are implicit, as counts of heavy atoms."
        )
    return lines


def _required_columns(run_files: RunFiles) -> list[str]:
    """Columns that a table must have in addition to the SMILES."""
    names = ", ".join(map(code, run_files.descriptor_columns))
    return [f"Tables must have these columns in addition to the SMILES: {names}."] if names else []


def training_details_section(run_files: RunFiles) -> list[str]:
    """The main settings of the model, and the versions of packages in training; all settings are in `config.toml`."""
    model, environment = run_files.config["model"], run_files.environment
    training, metrics = run_files.settings.get("training", {}), run_files.metrics
    computed = sum(d["computed"] for d in run_files.config["descriptors"])
    rows = {
        "model": f"{code(model['kind'])}, {model['num_layers']} layers of {model['hidden_dim']} channels, "
        f"{model['num_heads']} heads",
        "attention": code(model["attention"]) if "attention" in model else "",
        "models in the ensemble": f"{1 + run_files.config['members']}",
        "computed descriptors": f"{computed}" if computed else "",
        "blended boosted trees": "yes" if run_files.config.get("trees") else "",
        "parameters": f"{metrics['parameters']:,}" if "parameters" in metrics else "",
        "loss": code(run_files.config["task"]["loss"]),
        "base model": code(training.get("base", "")),
        "epochs": _epochs(metrics),
        "seed": str(environment.get("seed", "")),
        "seconds of training": str(environment.get("training_seconds", "")),
        "molattn": escaped(run_files.config["molattn"]),
        **_versions(environment),
    }
    return [*table(["setting", "value"], [[name, value] for name, value in rows.items() if value])]


def _epochs(metrics: Mapping[str, Any]) -> str:
    if "epochs" not in metrics:
        return ""
    return f"{_each(metrics['epochs'])}, the model is that of epoch {_each(metrics['best_epoch'])}"


def _each(value: int | Sequence[int]) -> str:
    """A number as text, or the numbers of the models of an ensemble, separated by slashes."""
    return str(value) if isinstance(value, int) else " / ".join(map(str, value))


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    packages = environment.get("packages", {})
    found = {"Python": environment.get("python", ""), **{n: packages.get(n, "") for n in ("torch", "rdkit")}}
    return {name: escaped(version) for name, version in found.items()}
