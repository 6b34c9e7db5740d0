"""`molattn explain`: how much each atom contributes to a prediction."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Accelerator, Force, Quiet, Run, Strict, Target, load_predictor
from molattn.cli.terminal import print_line, print_status, warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError

if TYPE_CHECKING:
    from molattn.explain import Attribution
    from molattn.inference import Predictor

# As in molattn.explain.methods, which is not imported for the help screen.
_METHODS = (
    "fragment-shapley",
    "additive",
    "occlusion",
    "integrated-gradients",
    "cam",
    "grad-attention",
    "rollout",
    "attention",
    "tree-shap",
)
_PICTURES, _FORMATS = (".svg", ".png"), (".svg", ".png", ".csv", ".html")


def explain(
    run: Run,
    smiles: Annotated[list[str], typer.Option("--smiles", "-s", help="A SMILES; may be repeated.", show_default=False)],
    method: Annotated[
        str | None,
        typer.Option("--method", help=f"{', '.join(_METHODS)}. [default: fragment-shapley]", show_default=False),
    ] = None,
    target: Target = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file: .svg, .png, .csv or .html. [default: print]", show_default=False
        ),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Show how much each atom contributes to a prediction.

    `molattn explain runs/esol --smiles CCO -o ethanol.svg` draws a picture. For several SMILES there is a picture for
    each, with its number from 0 in the name, or one .csv or .html for all. The default method is
    `fragment-shapley`: how the prediction changes as the atom joins a growing fragment of the molecule; positive values
    raise it. A model of conformers, of hydrogens or of descriptor columns has `additive` or `occlusion` instead.
    `grad-attention`, `rollout` and `attention` have no sign. `molattn faithfulness RUN` measures the methods for a
    model, and every picture shows the result.

    For classes the score (logit) is explained, for a binary target the log-odds, log(p / (1 - p)). The probability, as
    `molattn predict` prints it, is shown next to it.
    """
    paths = _paths(output, len(smiles), force)

    predictor = load_predictor(run, accelerator)
    attributions = _attributions(predictor, smiles, method, target, strict)
    readable = [a for a in attributions if a is not None]
    if len(predictor.members) > 1 and not quiet:
        print_status(
            f"the first of the {len(predictor.members)} models of the ensemble is explained, with its own prediction; "
            "molattn predict prints their mean"
        )
    if output is None:
        _print(readable)
        return
    suffix = output.suffix.lower()
    if suffix in _PICTURES:
        paths = [path for path, attribution in zip(paths, attributions, strict=True) if attribution is not None]
        for path, attribution in zip(paths, readable, strict=True):
            attribution.draw().save(path)
    elif suffix == ".csv":
        from molattn.cli.attribution_table import attribution_table
        from molattn.data.files import write_text

        write_text(output, attribution_table(attributions))
    else:
        from molattn.viewer.web import write_page

        # A page with attention in the first tab and attributions in the second; repeated molecules appear once.
        unique = list({a.smiles: a for a in readable}.values())
        write_page(output, [predictor.attention(a.smiles) for a in unique], unique)
    if not quiet:
        first = readable[0]
        print_status(f"{first.method}; faithfulness: {first.faithfulness}; written to {', '.join(map(str, paths))}")


def _paths(output: Path | None, count: int, force: bool) -> list[Path]:
    """The files to write: one, or one picture for each SMILES."""
    if output is None:
        return []
    if output.suffix.lower() not in _FORMATS:
        raise UsageError(f"{output.name}: attributions are written as {', '.join(_FORMATS)}")
    numbered = output.suffix.lower() in _PICTURES and count > 1
    paths = [output.with_stem(f"{output.stem}-{i}") for i in range(count)] if numbered else [output]
    from molattn.inference.table_job import check_output

    for path in paths:
        check_output(path, force)
    return paths


def _attributions(
    predictor: "Predictor", smiles: Sequence[str], method: str | None, target: str | None, strict: bool
) -> list["Attribution | None"]:
    """One attribution for each SMILES, in order; None, with a warning, for one that cannot be read."""
    attributions: list[Attribution | None] = []
    for i, result in enumerate(predictor.attribution_rows(smiles, method, target)):
        if isinstance(result, SmilesError):
            message = f"--smiles number {i}, {result}"
            if strict:
                raise RowsFailed(f"{message}; --strict stops at the first SMILES that cannot be read")
            if len(smiles) == 1:
                raise result
            warn(message)
        attributions.append(None if isinstance(result, SmilesError) else result)
    if all(a is None for a in attributions):
        raise InputError(f"none of the {len(smiles)} SMILES can be read")
    return attributions


def _print(attributions: Sequence["Attribution"]) -> None:
    from molattn.explain.attribute import method_title

    for i, a in enumerate(attributions):
        if i:
            print_line()
        print_line(a.smiles)
        print_line(a.equation)
        unit = f", in {a.unit}" if a.unit and a.has_unit else ""
        print_line(f"{a.method}, {method_title(a.method)}{unit}; faithfulness: {a.faithfulness}")
        terms = [*zip(a.labels, a.values, strict=True), *a.other_terms.items()]
        width = max(len(label) for label, _ in terms)
        for label, value in terms:
            print_line(f"  {label.ljust(width)}  {value:{'+' if a.signed else ''}.3f}")
