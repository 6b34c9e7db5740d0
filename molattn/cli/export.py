"""`molattn export`: a model as one file for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Force, Quiet, Run, load_predictor
from molattn.cli.terminal import print_status
from molattn.errors import InputError, UsageError, unknown_choice

SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
"""The suffix of the output by its format."""


def export(
    run: Run,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Output file: .onnx or .pt2. [default: model.onnx or model.pt2 in the run folder]",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="onnx, or torch: a program of torch.export. [default: by the name]", show_default=False
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as one file for other programs: ONNX, or .pt2 of `torch.export`.

    `molattn export runs/esol` writes runs/esol/model.onnx. `molattn predict runs/esol in.csv --engine onnx` then
    predicts without torch, and so does `molattn predict esol.onnx in.csv` with a file that was written elsewhere. It
    takes any number of molecules of any size, and its predictions are in the units of the targets. What the tensors
    mean is in the documentation, "Exported models", and in the metadata of the file.
    """
    chosen = format or ("torch" if output is not None and output.suffix == ".pt2" else "onnx")
    if chosen not in SUFFIXES:
        raise UsageError(unknown_choice("format", chosen, SUFFIXES))
    path = run / f"model{SUFFIXES[chosen]}" if output is None else output
    if path.suffix != SUFFIXES[chosen]:
        raise UsageError(f"a model in the format {chosen} has the suffix {SUFFIXES[chosen]}, not {path.name}")
    if not path.absolute().parent.is_dir():
        from molattn.data.paths import describe_missing_folder  # imported here, because molattn.data imports numpy

        raise InputError(describe_missing_folder(path.absolute().parent))
    if path.exists() and not force:
        raise UsageError(f"{path} exists: give another --output, or --force to replace it")
    load_predictor(run).export(path, chosen)
    if not quiet:
        print_status(f"written to {path}")
