"""Options that several commands share, and fast loading of a model."""

import gc
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.errors import UsageError, short_repr

if TYPE_CHECKING:
    from molattn.inference import OnnxPredictor, Predictor


Run = Annotated[
    Path, typer.Argument(help="The folder of a trained run, or hf://user/model on the hub.", show_default=False)
]
MoleculeTable = Annotated[
    Path,
    typer.Argument(
        help="A table of molecules: .csv, .tsv, .smi, .sdf, .parquet, .xlsx; - for standard input.",
        show_default=False,
    ),
]
Smiles = Annotated[
    list[str] | None, typer.Option("--smiles", "-s", help="A SMILES; may be repeated.", show_default=False)
]
Shard = Annotated[str | None, typer.Option(help="i/n: only the i-th of n shards of the rows.", show_default=False)]
NumWorkers = Annotated[int, typer.Option("--num-workers", "-n", min=0, help="Processes that read molecules.")]
Target = Annotated[
    str | None,
    typer.Option("--target", help="Target to explain; required if the model has several.", show_default=False),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an unfinished output.")]
Engine = Annotated[
    str,
    typer.Option(help="local; ray: on the CPUs of a Ray cluster or of this machine; onnx: `molattn export`, no torch."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row or a SMILES fails.")]
EscapeFormulas = Annotated[
    bool, typer.Option("--escape-formulas", help="Put ' before cells that a spreadsheet would read as a formula.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file.")]
Accelerator = Annotated[
    str, typer.Option(help="cpu, gpu, or auto: a GPU if there is one; or a device, such as cuda:1.")
]
Precision = Annotated[str, typer.Option(help="32-true, or bf16-mixed: bfloat16 with three significant digits.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and warnings.")]


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """i and n of the option --shard, "i/n"; None if it was not given."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"--shard is i/n, the i-th of n shards, from 1/n to n/n, not {short_repr(text)}")
    return int(found[1]), int(found[2])


def load_predictor(run: Path, accelerator: str = "cpu", precision: str = "32-true") -> "Predictor":
    """`molattn.load`, with the objects that it imports excluded from garbage collection.

    Importing torch creates half a million objects that live until the command ends: traversing them, during the import
    and again at exit, takes a quarter of the time of the import itself. Garbage collection is unchanged if torch is
    imported already, as in another program.

    Raises:
        InputError, UsageError: as `molattn.load`; or torch is not installed.
    """
    torch_is_new = "torch" not in sys.modules
    if torch_is_new:
        gc.disable()
    try:
        from molattn import inference

        return inference.load(run, accelerator, precision)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(
            "torch is not installed: molattn predict --engine onnx needs none, see molattn export"
        ) from None
    finally:
        if torch_is_new:
            gc.freeze()
            gc.enable()


def load_engine(run: Path, engine: str, accelerator: str, precision: str) -> "Predictor | OnnxPredictor":
    """The predictor of a run, or of an ONNX file, by an engine that `molattn.inference.options.engine_of` returned.

    Raises:
        InputError, UsageError: as `molattn.load` and `OnnxPredictor`.
    """
    if engine != "onnx":
        return load_predictor(run, accelerator, precision)
    from molattn.inference import OnnxPredictor

    return OnnxPredictor(run)
