"""The `molattn` command: its subcommands, start and exit."""

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from molattn import __version__
from molattn.cli.attention import attention
from molattn.cli.benchmark import benchmark
from molattn.cli.check import check
from molattn.cli.datasets import datasets
from molattn.cli.doctor import doctor
from molattn.cli.embed import embed
from molattn.cli.environment import keep_memory, set_environment
from molattn.cli.errors import errors_as_exit_codes, show_log, show_warning
from molattn.cli.evaluate import evaluate
from molattn.cli.explain import explain
from molattn.cli.export import export
from molattn.cli.faithfulness import faithfulness
from molattn.cli.heads import heads
from molattn.cli.multi_value_options import MultiValueCommand
from molattn.cli.predict import predict
from molattn.cli.presets import presets
from molattn.cli.pretrain import pretrain
from molattn.cli.push import push
from molattn.cli.report import report
from molattn.cli.select import select
from molattn.cli.terminal import prepare_streams, print_line, printable
from molattn.cli.train import train
from molattn.cli.train_options import list_plugins
from molattn.cli.tune import tune
from molattn.cli.view import view
from molattn.cli.whatif import whatif
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
    cls=MultiValueCommand,
    no_args_is_help=True,
    epilog="More options with --help-all: losses, weights, groups, descriptors, calibration, devices.",
)(train)
app.command(cls=MultiValueCommand, no_args_is_help=True)(check)
app.command(no_args_is_help=True)(predict)
app.command(no_args_is_help=True)(embed)
app.command(no_args_is_help=True)(select)
app.command(no_args_is_help=True)(whatif)
app.command(cls=MultiValueCommand, no_args_is_help=True)(evaluate)
app.command(no_args_is_help=True)(explain)
app.command(no_args_is_help=True)(attention)
app.command(no_args_is_help=True)(faithfulness)
app.command(no_args_is_help=True)(heads)
app.command(no_args_is_help=True)(view)
app.command(no_args_is_help=True)(report)
app.command(no_args_is_help=True)(export)
app.command(cls=MultiValueCommand, no_args_is_help=True)(tune)
app.command()(pretrain)
app.command(cls=MultiValueCommand, no_args_is_help=True)(benchmark)
app.command(no_args_is_help=True)(push)
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")] = False,
) -> None:
    """Graph attention for chemistry: train models on SMILES, predict properties, see what atoms attend to.

    Exit codes: 0 done, 1 internal error, 2 usage, 3 bad input data, 4 rows failed under --strict,
    5 a missing extra, 6 a worker process died.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    prepare_streams()
    keep_memory()
    # `--debug` is also accepted after the subcommand, where users add it after an error.
    debug, arguments = "--debug" in sys.argv[1:], [a for a in sys.argv[1:] if a != "--debug"]
    quiet = _has_flag(arguments, "--quiet")
    set_environment(progress_bars=not quiet and sys.stderr.isatty())
    if not debug:
        warnings.showwarning = show_warning
    if not quiet:
        show_log(verbose=_has_flag(arguments, "--verbose"))
    with errors_as_exit_codes(debug):
        if load_plugins():
            list_plugins()
        _run(arguments)


def _has_flag(arguments: list[str], name: str) -> bool:
    """Whether a flag is given, by its name or by its letter, which may stand with others, as in -fq or -qn4."""
    return any(a == name or re.match(f"-[hqv]*{name[2]}", a) for a in arguments)


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
