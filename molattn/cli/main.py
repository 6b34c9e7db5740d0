"""The `molattn` command: its list of commands, its errors and its exit codes."""

import ctypes
import errno
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from molattn import __version__
from molattn.cli.attention import attention
from molattn.cli.datasets import datasets
from molattn.cli.doctor import doctor
from molattn.cli.embed import embed
from molattn.cli.evaluate import evaluate
from molattn.cli.explain import explain
from molattn.cli.faithfulness import faithfulness
from molattn.cli.heads import heads
from molattn.cli.predict import predict
from molattn.cli.presets import presets
from molattn.cli.pretrain import pretrain
from molattn.cli.terminal import hush, prepare, printable, say, tell, warn
from molattn.cli.train import train
from molattn.cli.tune import tune
from molattn.cli.view import view
from molattn.errors import InputError, MolattnError, MolattnWarning, short_repr

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full, for this user",
    errno.EFBIG: "a file grew larger than it may here",
}

_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
_REFUSED += (errno.EIO, errno.EBADF, errno.EMFILE, errno.ENFILE, errno.ENXIO, errno.ESTALE)
"""What is the matter with a file or a stream that was named, and not with molattn."""


class _Commands(TyperGroup):
    """What is wrong with an argument is said with the argument in it: as text."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _printable():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _printable():
            return super().invoke(ctx)


@contextmanager
def _printable() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if isinstance(said := getattr(error, "message", None), str):
            error.message = printable(said)  # pyright: ignore[reportAttributeAccessIssue]
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
app.command(no_args_is_help=True)(predict)
app.command(no_args_is_help=True)(embed)
app.command(no_args_is_help=True)(evaluate)
app.command(no_args_is_help=True)(explain)
app.command(no_args_is_help=True)(attention)
app.command(no_args_is_help=True)(faithfulness)
app.command(no_args_is_help=True)(heads)
app.command(no_args_is_help=True)(view)
app.command(no_args_is_help=True)(tune)
app.command()(pretrain)
app.command()(presets)
app.command()(doctor)
app.add_typer(datasets, name="datasets")


def _version(asked: bool) -> None:
    if asked:
        say(f"molattn {__version__}")
        raise typer.Exit


@app.callback()
def _molattn(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error. May stand anywhere.")] = False,
) -> None:
    """Graph attention for chemistry: learn a property from SMILES, predict it, see what atoms attend to.

    Exit codes: 0 done, 1 internal error, 2 usage, 3 bad input data, 4 rows failed under --strict, 5 a missing extra,
    6 a process that others wait for has ended.
    """


def _keep_memory() -> None:
    """Tell glibc's allocator not to give memory back after every batch: to get it again, page by page, takes longer
    than what is done in it."""
    mmap_threshold, trim_threshold = -3, -1
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 2**25)
    mallopt(trim_threshold, 2**27)


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Threads of the maths that spin while they wait crawl when anything else wants the cores. Read by torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN and torch each keep what they prepared for 1,024 shapes of matrices. Every batch brings new ones, and a
    # long table would fill hundreds of megabytes with what is never asked for again.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    prepare()
    _keep_memory()
    debug = "--debug" in sys.argv[1:]
    # `--debug` may stand after the command too, where people put it once something went wrong.
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    if not debug:
        warnings.showwarning = _show_warning
    if not {"-q", "--quiet"}.intersection(arguments):
        _show_log()
    try:
        _run(arguments)
    except MolattnError as error:
        _fail(f"error: {error}", error.exit_code, debug)
    except KeyboardInterrupt:
        _fail("stopped", 130, debug)
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; leave quietly.
        hush()
        sys.exit(0)
    except Exception as error:
        if said := _outside(error):
            _fail(f"error: {said}", InputError.exit_code, debug)
        _fail(
            f"internal error: {type(error).__name__}: {error}",
            1,
            debug,
            "This is a fault of molattn; --debug shows where.",
        )


def _run(arguments: list[str]) -> None:
    """The command, to the last byte of its output; it ends by SystemExit or another error."""
    try:
        app(arguments)
    except SystemExit as stop:
        # That is how the libraries that print say that nobody reads on.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        sys.stdout.flush()
        raise


def _outside(error: Exception) -> str:
    """What is the matter outside of molattn, in a sentence; empty for anything else."""
    if isinstance(error, UnicodeEncodeError) and any("\ud800" <= c <= "\udfff" for c in error.object):
        text = error.object[max(0, error.start - 40) : error.end + 20]
        return f"{short_repr(text, 80)} is not UTF-8 text, which is what files hold: give another name or value"
    if not isinstance(error, OSError):
        return ""
    if error.errno in _FULL:
        return f"{_FULL[error.errno]}: make room and run it again; what was there before is whole"
    if error.errno == errno.EBADF and error.filename is None:
        return "standard output cannot be written to: open it, or give --output"
    if error.errno in _REFUSED and error.filename is not None:
        return f"{error.filename}: {error.strerror}: see that it can be read and written, or give another path"
    return ""


def _fail(text: str, code: int, debug: bool, next_line: str = "") -> None:
    if debug:
        traceback.print_exc()
    tell(text)
    if next_line:
        tell(next_line)
    # Python ends with another code where the last of its output goes nowhere.
    hush()
    sys.exit(code)


class _OnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell(record.getMessage())


def _show_log() -> None:
    """What the library says of its own work, such as that it builds something, in a line."""
    log = logging.getLogger("molattn")
    if not log.handlers:
        log.addHandler(_OnStderr())
        log.setLevel(logging.INFO)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """molattn's own warnings as one line; the libraries' are for developers, who have --debug."""
    if issubclass(category, MolattnWarning):
        warn(message)
