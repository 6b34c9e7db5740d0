"""The table of a data set, downloaded with a progress bar."""

from pathlib import Path
from typing import TYPE_CHECKING

from molattn.cli.terminal import bar_column, console, print_status

if TYPE_CHECKING:
    from molattn.data import DatasetCard


def fetch_with_progress(name: str, data_dir: str | Path | None, quiet: bool = False) -> "DatasetCard":
    """The card of a data set whose table is available, downloaded with a progress bar if necessary."""
    from rich.progress import DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from molattn.data import fetch_dataset

    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), bar_column(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=err, disable=quiet or not err.is_terminal, transient=True, refresh_per_second=5
    ) as bar:
        task = bar.add_task(name, total=None, visible=False)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=True)

        card, message = fetch_dataset(name, data_dir or "", progress)
    if message and not quiet:
        print_status(message)
    return card
