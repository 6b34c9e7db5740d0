"""Verification of tables by checksums: those in cards, and the pins of tables that molattn downloaded or computed."""

import json
from dataclasses import dataclass
from pathlib import Path

from molattn.data.datasets.cards import DatasetCard, file_stem
from molattn.data.files import file_sha256
from molattn.errors import InputError


@dataclass(frozen=True)
class Pin:
    """The source and the checksum of a table that molattn downloaded or computed, in `NAME.pin.json` next to the table.

    Attributes:
        source: the URL of the download, the path of a file or folder that was found, or the program that computed the
            table.
        source_sha256: the checksum of the public file; empty for a computed table or extracted ones.
        table_sha256: the checksum of the table.
        rows: its number of rows, without the header.

    >>> import json
    >>> from molattn.data import Pin
    >>> text = '{"source": "RDKit 2025.09.1", "source_sha256": "", "table_sha256": "8d96cc", "rows": 4999}'
    >>> Pin(**json.loads(text)).rows
    4999
    """

    source: str
    source_sha256: str
    table_sha256: str
    rows: int


def pin_path(card: DatasetCard) -> Path:
    """The path of the pin, next to the table."""
    return card.folder / f"{file_stem(card.name)}.pin.json"


def read_pin(card: DatasetCard) -> Pin | None:
    """The pin of the table in `card.folder`; None if there is none.

    Raises InputError if it cannot be read.
    """
    path = pin_path(card)
    try:
        return Pin(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: remove it together with {card.file}") from error


def verify(card: DatasetCard) -> None:
    """Check that a table is, byte for byte, the one that its card describes.

    A table with a pin is compared with the checksum in the pin, another one with that in its card: see `Pin`. A table
    without any checksum is accepted.

    Args:
        card: the card, with the folder of the table.

    Raises:
        InputError: the table or its pin cannot be read, or the sha256 of the table differs.

    >>> from dataclasses import replace
    >>> from molattn.data import load_card, verify
    >>> from molattn.errors import InputError
    >>> card = load_card("esol")
    >>> verify(card)  # no error
    >>> try:
    ...     verify(replace(card, sha256="0" * 64))
    ... except InputError:
    ...     print("the table is another one")
    the table is another one
    """
    try:
        found = file_sha256(card.path)
    except OSError as error:
        raise InputError(f"{card.path}: cannot be read ({error.strerror}): reinstall molattn") from error
    pin = read_pin(card)
    expected, described_by = (pin.table_sha256, pin_path(card).name) if pin is not None else (card.sha256, "the card")
    if expected and found != expected:
        bundled = card.download is None and not card.computed
        advice = (
            "restore the original, or reinstall molattn"
            if bundled
            else "remove it, and it is downloaded or computed again"
        )
        raise InputError(
            f"{card.path}: sha256 is {found}, that in {described_by} is {expected}: "
            f"the file was changed or damaged; {advice}"
        )
