"""`molattn explain`: how much each atom contributed to a prediction."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Force, Quiet, Run, Target, load_predictor
from molattn.cli.terminal import print_line, print_status, warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError

if TYPE_CHECKING:
    from molattn.explain import Attribution
    from molattn.inference import Predictor

# As in molattn.explain.methods, which is not imported for the help screen.
_METHODS = ("additive", "occlusion", "integrated-gradients", "cam", "grad-attention", "rollout", "attention")
_PICTURES, _FORMATS = (".svg", ".png"), (".svg", ".png", ".csv", ".html")


def explain(
    run: Run,
    smiles: Annotated[list[str], typer.Option("--smiles", "-s", help="A SMILES; may be repeated.", show_default=False)],
    method: Annotated[
        str | None,
        typer.Option(
            "--method", help=f"{', '.join(_METHODS)}. [default: the first that the model offers]", show_default=False
        ),
    ] = None,
    target: Target = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where it goes: .svg, .png, .csv or .html. [default: print it]", show_default=False
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a SMILES that cannot be read.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Say how much each atom contributed to a prediction.

    `molattn explain runs/esol --smiles CCO -o ethanol.svg` draws it. Of several SMILES a picture is written for each,
    with its number from 0 in the name; .csv and .html take all into one file. The methods are listed the most faithful
    first; `molattn faithfulness RUN` measures them for a model, and every picture says what was found.

    Of a class the score that becomes its probability is explained: the log-odds of a binary target, log(p / (1 - p)).
    The probability, which `molattn predict` prints, stands beside it.
    """
    paths = _paths(output, len(smiles), force)

    predictor = load_predictor(run)
    found = _attributions(predictor, smiles, method, target, strict)
    if len(predictor.members) > 1 and not quiet:
        print_status(
            f"the first of the {len(predictor.members)} models of the ensemble is explained, with its own prediction; "
            "molattn predict prints their mean"
        )
    if output is None:
        _print([a for a in found if a is not None])
        return
    suffix = output.suffix.lower()
    if suffix in _PICTURES:
        for path, attribution in zip(paths, found, strict=True):
            if attribution is not None:
                attribution.draw().save(path)
        written = [str(p) for p, a in zip(paths, found, strict=True) if a is not None]
    elif suffix == ".csv":
        from molattn.cli.attribution_table import attribution_table
        from molattn.data.files import write_text

        write_text(output, attribution_table(found))
        written = [str(output)]
    else:
        _page(predictor, [a for a in found if a is not None], output)
        written = [str(output)]
    if not quiet:
        first = next(a for a in found if a is not None)
        print_status(f"{first.method}; faithfulness: {first.faithfulness}; written to {', '.join(written)}")


def _paths(output: Path | None, count: int, force: bool) -> list[Path]:
    """The files to write: one, or one picture for each SMILES."""
    if output is None:
        return []
    if output.suffix.lower() not in _FORMATS:
        raise UsageError(f"{output.name}: attributions are written as {', '.join(_FORMATS)}; name the file so")
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
    found: list[Attribution | None] = []
    for i, text in enumerate(smiles):
        try:
            found.append(predictor.attributions(text, method, target))
        except SmilesError as error:
            message = f"--smiles number {i}, {error}"
            if strict:
                raise RowsFailed(f"{message}; --strict stops at the first SMILES that cannot be read") from error
            if len(smiles) == 1:
                raise
            warn(message)
            found.append(None)
    if not any(a is not None for a in found):
        raise InputError(f"none of the {len(smiles)} SMILES can be read")
    return found


def _print(found: Sequence["Attribution"]) -> None:
    for number, a in enumerate(found):
        if number:
            print_line()
        print_line(a.smiles)
        print_line(a.equation)
        print_line(f"{a.method}{f', in {a.unit}' if a.unit and a.in_units else ''}; faithfulness: {a.faithfulness}")
        shares = [*zip(a.labels, a.values, strict=True), *a.other_terms.items()]
        width = max(len(label) for label, _ in shares)
        for label, value in shares:
            print_line(f"  {label.ljust(width)}  {value:+.3f}")


def _page(predictor: "Predictor", found: Sequence["Attribution"], output: Path) -> None:
    """Write a page with attention in the first tab and attributions in the second; repeated molecules appear once."""
    from molattn.viewer.web import write_page

    each = list({a.smiles: a for a in found}.values())
    write_page(output, [predictor.attention(a.smiles) for a in each], each)
