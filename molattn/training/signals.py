"""SIGTERM during a training: the process cleans up and ends. Importing this module does not import torch."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise SystemExit in the block, with a shell's exit code 143, so that cleanup code runs.

    Does nothing if the caller has a handler of its own, or outside the main thread.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminated(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def end_on_sigterm(grace_period: float) -> Iterator[None]:
    """End this process, with a shell's exit code 143, if it is still in the block `grace_period` seconds after SIGTERM.

    Python runs signal handlers in the main thread, between bytecode instructions: not while that thread waits inside
    torch for a rank that does not respond. Does nothing outside the main thread, and on Windows before Python 3.12.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(os, "set_blocking"):
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    in_block = True

    def wait_for_sigterm() -> None:
        while number := os.read(read_end, 1):
            if number[0] == signal.SIGTERM:
                time.sleep(grace_period)
                if in_block:
                    os._exit(128 + signal.SIGTERM)
        os.close(read_end)

    # The number of a signal that has a handler is written here at once, even if the main thread is blocked.
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=wait_for_sigterm, daemon=True).start()
    try:
        yield
    finally:
        in_block = False
        signal.set_wakeup_fd(before)
        os.close(write_end)
