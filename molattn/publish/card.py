"""The model card, `README.md`: Markdown with the metadata of the hub, written from the files of a run folder.

Every figure comes from a file of the run; where one is missing, the card says that it was not measured or recorded.
"""

from pathlib import Path
from typing import Any

from molattn.errors import UsageError, short_repr
from molattn.hub.address import HubAddress
from molattn.publish.limits_sections import domain_section, limits_section, made_section
from molattn.publish.markdown import code, escaped, yaml_lines
from molattn.publish.results_sections import (
    data_section,
    faithfulness_section,
    metrics_section,
    split_section,
    targets_section,
    uncertainty_section,
)
from molattn.publish.run_facts import RunFacts, damaged_files, read_run
from molattn.publish.training_molecules import training_molecules
from molattn.training.metrics import METRICS

TAGS = ("molattn", "chemistry", "molecules", "smiles", "graph-attention")


def model_card(run: str | Path, address: HubAddress, license: str = "") -> str:
    """The text of the model card of a run.

    Args:
        run: the folder of a finished run, of a model that was saved alone, or of a base model.
        address: where it will be on the hub.
        license: the hub's name of a licence, such as "mit"; empty for none.

    Raises:
        InputError: a file of the run is damaged.
        UsageError: a licence that is not a name.
    """
    if license and not all(c.isalnum() or c in "-._" for c in license):
        raise UsageError(
            f"{short_repr(license)} is not the name of a licence: give one as the hub writes it, such as mit"
        )
    facts = read_run(Path(run))
    with damaged_files(facts.folder):
        metadata = ["---", *yaml_lines(_metadata(facts, address, license)), "---"]
        sections = _base_sections(facts, address) if facts.is_base else _sections(facts, address)
    lines = [*metadata, "", f"# {escaped(address.repository.partition('/')[2])}", "", *sections[0]]
    for title, content in sections[1:]:
        lines += ["", f"## {title}", "", *content]
    return "\n".join(lines) + "\n"


def _sections(facts: RunFacts, address: HubAddress) -> list[Any]:
    molecules = facts.config["molecules"]
    training = training_molecules(facts.folder, molecules["standardize"], molecules["max_atoms"])
    names = ", ".join(code(t["name"]) for t in facts.config["targets"][:5])
    more = len(facts.config["targets"]) - 5
    data = f", trained on {code(facts.data_name)}" if facts.data_name else ""
    what = (
        f"A model of molattn{data}: it predicts {names}{f' and {more} more' if more > 0 else ''} from the SMILES of a "
    )
    return [
        [what + "molecule, and shows what every atom attends to."],
        ("Use", _usage(facts, address)),
        ("What it predicts", targets_section(facts)),
        ("Metrics", metrics_section(facts)),
        ("Uncertainty", uncertainty_section(facts)),
        ("Faithfulness of its explanations", faithfulness_section(facts)),
        ("Applicability domain", domain_section(facts)),
        ("Limits", limits_section(facts, training)),
        ("Data", data_section(facts)),
        ("Split", split_section(facts)),
        ("How it was made", made_section(facts)),
    ]


def _base_sections(facts: RunFacts, address: HubAddress) -> list[Any]:
    molecules = facts.base["molecules"]
    base = f"hf://{address.repository}"
    return [
        [f"A base model of molattn, pretrained without labels: {escaped(facts.base.get('title', 'see card.toml'))}."],
        ("Use", ["```bash", "pip install 'molattn[hub]'", f"molattn train my.csv --base {base}", "```"]),
        (
            "Data",
            [
                f"- Molecules: {molecules['count']:,} of {code(molecules['source'])}",
                f"- SHA-256 of them: `{molecules.get('sha256', 'not recorded')}`",
            ],
        ),
        ("Metrics", ["Not measured: a base model predicts nothing before it is trained further."]),
        ("How it was made", ["All settings are in `card.toml`.", "", *made_section(facts)]),
    ]


def _usage(facts: RunFacts, address: HubAddress) -> list[str]:
    text = f"hf://{address.repository}" + (f"@{address.revision}" if address.revision else "")
    commands = [f"molattn predict {text} in.csv -o out.csv"]
    python = [f'predictor = molattn.load("{text}")']
    if facts.needed_columns:
        python.append('predictor.predict(pandas.read_csv("in.csv"))')
    else:
        commands.insert(0, f"molattn predict {text} --smiles CCO")
        commands.append(f"molattn view {text} --smiles CCO -o page.html")
        python.append('predictor.predict(["CCO", "c1ccccc1"])')
    modules = ["import molattn", *(["import pandas"] if facts.needed_columns else [])]
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
        f"`hf://{address.repository}@COMMIT#sha256={facts.config_sha256}`.",
    ]


def _metadata(facts: RunFacts, address: HubAddress, license: str) -> dict[str, Any]:
    """The metadata of the hub; `model-index` has the test metrics."""
    metadata: dict[str, Any] = {"library_name": "molattn", "pipeline_tag": "graph-ml", "tags": list(TAGS)}
    if license:
        metadata["license"] = license
    results = [] if facts.is_base else _results(facts)
    if results:
        metadata["model-index"] = [{"name": address.repository.partition("/")[2], "results": results}]
    return metadata


def _results(facts: RunFacts) -> list[dict[str, Any]]:
    metrics = facts.metrics.get("test", {})
    split = facts.settings.get("data", {}).get("split", "")
    results = []
    for target, values in metrics.items():
        measured = [
            {"type": name, "name": METRICS[name].label, "value": float(f"{values[name]:.6g}")}
            for name in METRICS
            if values.get(name) is not None
        ]
        if measured:
            data = {"name": facts.data_name or "unknown", "type": facts.data_name or "unknown", "split": "test"}
            task = {"type": "graph-ml", "name": f"{target}, {split} split" if split else target}
            results.append({"task": task, "dataset": data, "metrics": measured})
    return results
