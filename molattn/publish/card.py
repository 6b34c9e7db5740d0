"""The model card, `README.md`: YAML metadata for the hub, and Markdown, both generated from the files of a run folder.

Every number comes from a file of the run; if that is missing, the card has "not measured" or "not recorded" instead.
"""

from pathlib import Path
from typing import Any

from molattn.errors import UsageError, short_repr
from molattn.hub.address import HubAddress
from molattn.publish.limits_sections import domain_section, limits_section, training_details_section
from molattn.publish.markdown import code, escaped, yaml_lines
from molattn.publish.results_sections import (
    data_section,
    faithfulness_section,
    metrics_section,
    split_section,
    targets_section,
    uncertainty_section,
)
from molattn.publish.run_files import RunFiles, damage_as_input_error, read_run
from molattn.publish.training_molecules import training_molecules
from molattn.training.metrics import METRICS

TAGS = ("molattn", "chemistry", "molecules", "smiles", "graph-attention")


def model_card(run: str | Path, address: HubAddress, license: str = "") -> str:
    """Generate the text of the model card of a run.

    Args:
        run: the folder of a finished run, of a model that was saved alone, or of a base model.
        address: address of the model on the hub.
        license: identifier of the licence on the hub, such as "mit"; empty for none.

    Raises:
        InputError: a file of the run is damaged.
        UsageError: the licence has characters that an identifier cannot have.
    """
    if license and not all(c.isalnum() or c in "-._" for c in license):
        raise UsageError(
            f"{short_repr(license)} is not the name of a licence: give an identifier of the hub, such as mit"
        )
    run_files = read_run(Path(run))
    with damage_as_input_error(run_files.folder):
        metadata = ["---", *yaml_lines(_metadata(run_files, address, license)), "---"]
        sections = _base_sections(run_files, address) if run_files.is_base else _sections(run_files, address)
    lines = [*metadata, "", f"# {escaped(address.repository.partition('/')[2])}", "", *sections[0]]
    for title, content in sections[1:]:
        lines += ["", f"## {title}", "", *content]
    return "\n".join(lines) + "\n"


def _sections(run_files: RunFiles, address: HubAddress) -> list[Any]:
    """The lines above the first heading, then (heading, lines) of each section."""
    molecules = run_files.config["molecules"]
    training = training_molecules(run_files.folder, molecules["standardize"], molecules["max_atoms"])
    names = ", ".join(code(t["name"]) for t in run_files.config["targets"][:5])
    more = len(run_files.config["targets"]) - 5
    data = f", trained on {code(run_files.data_name)}" if run_files.data_name else ""
    names += f" and {more} more" if more > 0 else ""
    return [
        [
            f"A model of molattn{data}: it predicts {names} from the SMILES of a molecule, and shows what every atom "
            "attends to."
        ],
        ("Use", _usage(run_files, address)),
        ("What it predicts", targets_section(run_files)),
        ("Metrics", metrics_section(run_files)),
        ("Uncertainty", uncertainty_section(run_files)),
        ("Faithfulness of its explanations", faithfulness_section(run_files)),
        ("Applicability domain", domain_section(run_files)),
        ("Limits", limits_section(run_files, training)),
        ("Data", data_section(run_files)),
        ("Split", split_section(run_files)),
        ("How it was made", training_details_section(run_files)),
    ]


def _base_sections(run_files: RunFiles, address: HubAddress) -> list[Any]:
    """As `_sections`, for a base model."""
    molecules = run_files.base["molecules"]
    base, title = f"hf://{address.repository}", escaped(run_files.base.get("title", "see card.toml"))
    return [
        [f"A base model of molattn, pretrained without labels: {title}."],
        ("Use", ["```bash", "pip install 'molattn[hub]'", f"molattn train my.csv --base {base}", "```"]),
        (
            "Data",
            [
                f"- Molecules: {molecules['count']:,} of {code(molecules['source'])}",
                f"- SHA-256 of them: `{molecules.get('sha256', 'not recorded')}`",
            ],
        ),
        ("Metrics", ["Not measured: a base model makes no predictions before it is fine-tuned."]),
        ("How it was made", ["All settings are in `card.toml`.", "", *training_details_section(run_files)]),
    ]


def _usage(run_files: RunFiles, address: HubAddress) -> list[str]:
    text = f"hf://{address.repository}" + (f"@{address.revision}" if address.revision else "")
    commands = [f"molattn predict {text} in.csv -o out.csv"]
    python = [f'predictor = molattn.load("{text}")']
    if run_files.descriptor_columns:
        python.append('predictor.predict(pandas.read_csv("in.csv"))')
    else:
        commands.insert(0, f"molattn predict {text} --smiles CCO")
        commands.append(f"molattn view {text} --smiles CCO -o page.html")
        python.append('predictor.predict(["CCO", "c1ccccc1"])')
    modules = ["import molattn", *(["import pandas"] if run_files.descriptor_columns else [])]
    return [
        "```bash",
        "pip install 'molattn[hub]'",
        *commands,
        "```",
        "",
        "```python",
        *modules,
        "",
        *python,
        "```",
        "",
        "This address with a commit and the checksum loads this model and no other:",
        f"`hf://{address.repository}@COMMIT#sha256={run_files.config_sha256}`.",
    ]


def _metadata(run_files: RunFiles, address: HubAddress, license: str) -> dict[str, Any]:
    """The metadata for the hub; `model-index` has the test metrics."""
    metadata: dict[str, Any] = {"library_name": "molattn", "pipeline_tag": "graph-ml", "tags": list(TAGS)}
    if license:
        metadata["license"] = license
    results = [] if run_files.is_base else _results(run_files)
    if results:
        metadata["model-index"] = [{"name": address.repository.partition("/")[2], "results": results}]
    return metadata


def _results(run_files: RunFiles) -> list[dict[str, Any]]:
    """The `results` of `model-index`, one for each target with test metrics."""
    metrics = run_files.metrics.get("test", {})
    split = run_files.settings.get("data", {}).get("split", "")
    results = []
    for target, values in metrics.items():
        measured = [
            {"type": name, "name": METRICS[name].label, "value": float(f"{values[name]:.6g}")}
            for name in METRICS
            if values.get(name) is not None
        ]
        if measured:
            data = {"name": run_files.data_name or "unknown", "type": run_files.data_name or "unknown", "split": "test"}
            task = {"type": "graph-ml", "name": f"{target}, {split} split" if split else target}
            results.append({"task": task, "dataset": data, "metrics": measured})
    return results
