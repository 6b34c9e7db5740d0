"""Errors on a terminal: one line and an exit code; warnings and log records as lines."""

import errno
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from molattn.cli.terminal import discard_output, print_status, warn
from molattn.errors import DISK_FULL, InputError, MolattnError, MolattnWarning, short_repr

_FILE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
_FILE_ERRORS += (errno.EIO, errno.EBADF, errno.EMFILE, errno.ENFILE, errno.ENXIO, errno.ESTALE)
"""Errors of a file or stream, not bugs in molattn."""


def describe_environment_error(error: Exception) -> str:
    """A sentence about an error of a file, a disk or a stream; empty for any other error, which is a bug in molattn."""
    if isinstance(error, UnicodeEncodeError) and any("\ud800" <= c <= "\udfff" for c in error.object):
        text = error.object[max(0, error.start - 40) : error.end + 20]
        return f"{short_repr(text, 80)} cannot be encoded as UTF-8: give another name or value"
    if not isinstance(error, OSError):
        return ""
    if error.errno in DISK_FULL:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{DISK_FULL[error.errno]}: free some space and run it again; files from before are unchanged"
    if error.errno == errno.EBADF and error.filename is None:
        return "standard output cannot be written to: open it, or give --output"
    if error.errno in _FILE_ERRORS and error.filename is not None:
        return f"{error.filename}: {error.strerror}: check its permissions, or give another path"
    return ""


def exit_with_error(text: str, code: int, debug: bool, next_line: str = "") -> None:
    """Print an error on standard error, with `debug` after its traceback, and exit with `code`."""
    if debug:
        traceback.print_exc()
    print_status(text)
    if next_line:
        print_status(next_line)
    # Python would exit with another code if the rest of its output cannot be written.
    discard_output()
    sys.exit(code)


@contextmanager
def errors_as_exit_codes(debug: bool) -> Iterator[None]:
    """Turn every exception into one line on standard error and an exit code; with `debug`, a traceback too."""
    try:
        yield
    except MolattnError as error:
        exit_with_error(f"error: {error}", error.exit_code, debug)
    except KeyboardInterrupt:
        exit_with_error("stopped", 130, debug)
    except BrokenPipeError:
        # The process that reads the output has closed it, as `head` does: exit without a message.
        discard_output()
        sys.exit(0)
    except Exception as error:
        if text := describe_environment_error(error):
            exit_with_error(f"error: {text}", InputError.exit_code, debug)
        text = f"internal error: {type(error).__name__}: {error}"
        exit_with_error(text, 1, debug, "This is a bug in molattn; --debug shows the traceback.")


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print_status(record.getMessage())


def show_log(verbose: bool = False) -> None:
    """Print the log of the library, for example that it compiles something, on standard error.

    Args:
        verbose: also debug messages, for example what was read from a cache.
    """
    log = logging.getLogger("molattn")
    if not log.handlers:
        log.addHandler(_StderrHandler())
    log.setLevel(logging.DEBUG if verbose else logging.INFO)


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """For `warnings.showwarning`: molattn's own warnings as one line; those of libraries only with --debug."""
    if issubclass(category, MolattnWarning):
        warn(message)
