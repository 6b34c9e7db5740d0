"""The `molattn` command: its subcommands, and the way it starts and exits."""

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from molattn import __version__
from molattn.cli.check import check
from molattn.cli.datasets import datasets
from molattn.cli.doctor import doctor
from molattn.cli.errors import errors_as_exit_codes, show_log, show_warning
from molattn.cli.evaluate import evaluate
from molattn.cli.explain import explain
from molattn.cli.faithfulness import faithfulness
from molattn.cli.heads import heads
from molattn.cli.predict import predict
from molattn.cli.presets import presets
from molattn.cli.pretrain import pretrain
from molattn.cli.tables import attention, embed
from molattn.cli.terminal import prepare_streams, print_line, printable
from molattn.cli.train import train
from molattn.cli.train_options import list_plugins
from molattn.cli.tune import tune
from molattn.cli.view import view
from molattn.plugins import load_plugins


class _Commands(TyperGroup):
    """The subcommands; errors that quote an argument are made printable."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _printable_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _printable_errors():
            return super().invoke(ctx)


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = printable(message)  # pyright: ignore[reportAttributeAccessIssue]
        raise


app = typer.Typer(
    name="molattn",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    epilog="Start with: molattn train --dataset esol",
)
app.command(
    no_args_is_help=True,
    epilog="--help-all shows more options: weights, groups, descriptors, folds, losses, metrics, --resume. "
    "--set reaches every setting of a run's config.toml: training.loss=huber, data.conformers=true, ...",
)(train)
for _command in (check, predict, embed, evaluate, explain, attention, faithfulness, heads, view, tune):
    app.command(no_args_is_help=True)(_command)
app.command()(pretrain)
app.command()(presets)
app.command()(doctor)
app.add_typer(datasets, name="datasets")


def _version(requested: bool) -> None:
    if requested:
        print_line(f"molattn {__version__}")
        raise typer.Exit


@app.callback()
def _molattn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error. May stand anywhere.")] = False,
) -> None:
    """Graph attention for chemistry: learn a property from SMILES, predict it, see what atoms attend to.

    Exit codes: 0 done, 1 internal error or failed check, 2 usage, 3 bad input data, 4 rows failed under --strict,
    5 a missing extra, 6 a process that others wait for has ended.
    """


def _keep_memory() -> None:
    """Configure glibc's allocator to keep memory between batches: returning it and faulting its pages in again takes
    longer than the computation."""
    mmap_threshold, trim_threshold = -3, -1
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 2**25)
    mallopt(trim_threshold, 2**27)


def main() -> None:
    """Run the command line and exit with its code."""
    # Waiting OpenMP threads that spin are very slow when another process needs the cores. Read by torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN and torch each cache primitives for 1,024 matrix shapes. Every batch brings new shapes, so that a long
    # table would fill hundreds of megabytes with entries that are never used again.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    prepare_streams()
    _keep_memory()
    # `--debug` is also accepted after the subcommand, where users add it after an error.
    debug, arguments = "--debug" in sys.argv[1:], [a for a in sys.argv[1:] if a != "--debug"]
    if not debug:
        warnings.showwarning = show_warning
    if not {"-q", "--quiet"}.intersection(arguments):
        show_log()
    with errors_as_exit_codes(debug):
        if load_plugins():
            list_plugins()
        _run(arguments)


def _run(arguments: list[str]) -> None:
    """Run the command and flush its output; ends with SystemExit or another error."""
    try:
        app(arguments)
    except SystemExit as stop:
        # Libraries that print turn a closed pipe into SystemExit.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        sys.stdout.flush()
        raise
