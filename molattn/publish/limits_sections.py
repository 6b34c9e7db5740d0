"""Sections of a model card about where a model applies, and how it was made."""

from collections.abc import Mapping, Sequence
from typing import Any

from molattn.models.applicability_domain import NUM_NEIGHBOURS
from molattn.models.config import GraphModelConfig
from molattn.publish.markdown import code, escaped, number, table
from molattn.publish.run_facts import RunFacts
from molattn.publish.training_molecules import TrainingMolecules


def domain_section(facts: RunFacts) -> list[str]:
    """The limits beyond which a molecule is unlike the training molecules."""
    domain = facts.config["domain"]
    if domain is None:
        return ["The model keeps no training molecules to compare with: `--applicability` does not work with it."]
    distance, similarity = number(domain["max_distance"]), number(domain["min_similarity"])
    return [
        "`molattn predict --applicability` marks a molecule as unlike the training molecules if its mean distance to "
        f"the {NUM_NEIGHBOURS} nearest of them, between vectors of the model, is over {distance}, or if its largest "
        f"Tanimoto similarity to one (Morgan fingerprints) is below {similarity}. For that, `model.safetensors` has "
        "fingerprints and vectors of training molecules."
    ]


def limits_section(facts: RunFacts, training: TrainingMolecules | None) -> list[str]:
    """What the training molecules were, and what the model cannot represent."""
    return [f"- {text}" for text in [*_training(facts, training), *_representation(facts), *_needs(facts)]]


def _training(facts: RunFacts, found: TrainingMolecules | None) -> list[str]:
    if found is None:
        return [
            "The elements and sizes of the training molecules are not recorded: the run's predictions.csv is missing."
        ]
    examined = "" if found.examined == found.count else f", of which {found.examined:,} were examined"
    elements = ", ".join(f"{escaped(symbol)} {n:,}" for symbol, n in found.elements.items())
    smallest, median, largest = found.sizes
    lines = [
        f"Trained on {found.count:,} molecules{examined}.",
        f"Elements in them, and molecules with each: {elements}. Predictions for other elements are extrapolations.",
        f"Their heavy atoms: {smallest} to {largest}, median {median:g}. Larger molecules are extrapolations.",
    ]
    unseen = f"{found.not_represented:,} of them have a property that the model does not see, such as an isotope."
    return [*lines, unseen] if _reads_graphs(facts) else lines


def _reads_graphs(facts: RunFacts) -> bool:
    return facts.config["model"]["kind"] == GraphModelConfig.kind


def _representation(facts: RunFacts) -> list[str]:
    molecules = facts.config["molecules"]
    standardize = molecules["standardize"]
    lines = [f"Molecules of more than {molecules['max_atoms']:,} atoms are refused."]
    if not _reads_graphs(facts):
        lines.append("It reads the tokens of canonical SMILES, from which it has to infer bonds and rings.")
    elif molecules["conformers"] is None:
        lines.append("It sees no 3D geometry: all conformers of a molecule have one prediction.")
    if standardize:
        lines.append(f"Molecules are brought to the standard form {code(standardize)} first.")
    else:
        lines.append("Molecules are read as written: salts, charges and tautomers are not standardized.")
    if _reads_graphs(facts):
        own = molecules["add_hs"]
        lines.append("Hydrogens are atoms of their own." if own else "Hydrogens are counted at their atoms.")
    return lines


def _needs(facts: RunFacts) -> list[str]:
    """Columns that a table has to have in addition to the SMILES."""
    names = ", ".join(map(code, facts.needed_columns))
    return [f"Every molecule needs these values too, as columns of its table: {names}."] if names else []


def made_section(facts: RunFacts) -> list[str]:
    """The model's settings, and the versions it was trained with; every setting is in `config.toml`."""
    model, environment = facts.config["model"], facts.environment
    training, metrics = facts.settings.get("training", {}), facts.metrics
    computed = sum(d["computed"] for d in facts.config["descriptors"])
    rows = {
        "model": f"{code(model['kind'])}, {model['num_layers']} layers of {model['hidden_dim']} channels, "
        f"{model['num_heads']} heads",
        "attention": code(model["attention"]) if "attention" in model else "",
        "models in the ensemble": f"{1 + facts.config['members']}",
        "computed descriptors": f"{computed}" if computed else "",
        "blended boosted trees": "yes" if facts.config.get("trees") else "",
        "parameters": f"{metrics['parameters']:,}" if "parameters" in metrics else "",
        "loss": code(facts.config["task"]["loss"]),
        "base model": code(training.get("base", "")),
        "epochs": _epochs(metrics),
        "seed": str(environment.get("seed", "")),
        "seconds of training": str(environment.get("training_seconds", "")),
        "molattn": escaped(facts.config["molattn"]),
        **_versions(environment),
    }
    return [*table(["setting", "value"], [[name, value] for name, value in rows.items() if value])]


def _epochs(metrics: Mapping[str, Any]) -> str:
    if "epochs" not in metrics:
        return ""
    return f"{_each(metrics['epochs'])}, of which {_each(metrics['best_epoch'])} is kept"


def _each(value: int | Sequence[int]) -> str:
    """A number, or that of each model of an ensemble."""
    return str(value) if isinstance(value, int) else " / ".join(map(str, value))


def _versions(environment: Mapping[str, Any]) -> dict[str, str]:
    packages = environment.get("packages", {})
    found = {"Python": environment.get("python", ""), **{n: packages.get(n, "") for n in ("torch", "rdkit")}}
    return {name: escaped(version) for name, version in found.items()}
