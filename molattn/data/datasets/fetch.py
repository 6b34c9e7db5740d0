"""Get the table of a data set: from a folder, or else by a download or a computation, in one process at a time."""

import hashlib
import http.client
import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from molattn.data.datasets.cards import DatasetCard, Download, dataset_names, file_stem, load_card
from molattn.data.datasets.folders import DATA_VARIABLE, cache_dir, data_dirs
from molattn.data.datasets.pins import Pin, pin_path, read_pin, verify
from molattn.data.datasets.public_files import (
    DOWNLOADS,
    find_extracted_tables,
    find_public_file,
    read_public_file,
    select_columns,
)
from molattn.data.files import atomic_write, file_sha256, write_text
from molattn.data.locks import wait_for_lock
from molattn.data.tables.table import read_table, write_table
from molattn.errors import InputError, UsageError, short_repr

DownloadProgress = Callable[[int, int], None]
"""Called with the bytes downloaded and the total; the total is 0 if the server does not report it."""

MAX_BYTES = 4 * 1024**3
"""The largest file that is downloaded."""

_CHUNK_BYTES = 1 << 16
_TIMEOUT = 30.0  # seconds without new data


class UnreachableError(InputError):
    """A server cannot be reached, such as without a network."""


def download(url: str, path: Path, sha256: str = "", progress: DownloadProgress | None = None) -> str:
    """Download `url` to `path`, and return the SHA-256 of its bytes.

    `path` is replaced only by a complete file, of the length that the server reported and with the expected SHA-256, if
    any; after an error `path` is unchanged and there is no temporary file.

    Args:
        url: with the scheme https; http only for this machine (127.0.0.1).
        path: its folder is created.
        sha256: the expected checksum; empty to accept any.
        progress: called during the download.

    Raises:
        UnreachableError: the server does not respond.
        InputError: it responds with an error, fewer bytes than it reported, or a file with another checksum.
    """
    _check_scheme(url)
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _SafeRedirects()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, done = hashlib.sha256(), 0
    try:
        with opener.open(url, timeout=_TIMEOUT) as response, atomic_write(path) as file:
            reported = response.headers.get("Content-Length") or ""
            length = int(reported) if reported.isdecimal() else 0
            while chunk := response.read(_CHUNK_BYTES):
                done += len(chunk)
                if done > MAX_BYTES:
                    raise InputError(f"{url} is larger than {MAX_BYTES:,} bytes: it is not downloaded")
                digest.update(chunk)
                file.write(chunk)
                if progress is not None:
                    progress(done, length)
            if length and done != length:
                raise InputError(f"{url} was interrupted after {done:,} of {length:,} bytes: try again")
            checksum = digest.hexdigest()
            if sha256 and checksum != sha256:
                raise InputError(
                    f"{url} is not the expected file: its sha256 is {checksum}, {sha256} is expected; "
                    "its publisher changed it, or it was damaged in transit; it is not stored"
                )
    except urllib.error.HTTPError as error:
        raise InputError(f"{url} cannot be downloaded: the server responds with {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise InputError(f"{url} cannot be downloaded: its certificate is not trusted ({reason.reason})") from error
        raise UnreachableError(f"{url} cannot be reached ({reason})") from error
    except http.client.HTTPException as error:
        raise InputError(f"{url} was interrupted after {done:,} bytes: try again") from error
    return checksum


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to URLs that `_check_scheme` accepts."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    """Raise InputError for a URL without TLS that is not on this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise InputError(f"{short_repr(url)} is not downloaded: its scheme must be https")


def find_dataset(card: DatasetCard, data_dir: str | Path = "") -> DatasetCard | None:
    """Search the table of a card and verify it; returns the card with the folder of the table, None without a table.

    Args:
        card: the card, such as from `load_card`.
        data_dir: the folder that is searched first; the others are those of `data_dirs`.

    Raises:
        InputError: the first table that is found is not the one that the card describes: see `verify`.

    >>> from molattn.data import datasets_dir, find_dataset, load_card
    >>> find_dataset(load_card("esol"), datasets_dir()).path == datasets_dir() / "esol.csv"
    True
    """
    for folder in data_dirs(data_dir):
        found = replace(card, folder=folder)
        if found.path.is_file():
            verify(found)
            return found
    return None


def fetch_dataset(
    name: str, data_dir: str | Path = "", progress: DownloadProgress | None = None
) -> tuple[DatasetCard, str]:
    """Get the table of a data set by name.

    `data_dir`, the folders of MOLATTN_DATA, the package and the user's cache are searched for the table, then the
    folder `downloads` of each for the public file; the tables of a group may also be extracted already: see
    `molattn.data.datasets.public_files.find_extracted_tables`. If nothing is found, the table is downloaded or
    computed, into `data_dir` or else the cache. Other processes wait for the first one that does this.

    Args:
        name: one of `dataset_names()`.
        data_dir: a folder that is searched first, and that new files are written to; "" for none.
        progress: called during a download with the bytes so far and their total, 0 if the server does not report it.

    Returns:
        The card with the folder of the table, and a message on how the table was obtained, empty if it was found.

    Raises:
        UsageError: an unknown name, or a folder that cannot be written to.
        InputError: the table or the public file has another checksum, a bundled table is missing, or a download
            fails; if no server responds, the message names the file to copy and its folder.

    >>> from molattn.data import datasets_dir, fetch_dataset
    >>> card, message = fetch_dataset("esol", datasets_dir())
    >>> card.path.name, message
    ('esol.csv', '')
    """
    card = load_card(name)
    found = find_dataset(card, data_dir)
    if found is not None:
        return found, ""
    if card.download is None and not card.computed:
        raise InputError(f"{card.path} is missing: reinstall molattn")
    folder = Path(data_dir).expanduser() if data_dir else cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with wait_for_lock(folder / f".{file_stem(name)}.lock", f"another process is fetching {name}: waiting for it"):
            found = find_dataset(card, data_dir)  # another process may have been faster
            if found is not None:
                return found, ""
            return _build(replace(card, folder=folder), data_dir, progress)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{folder} cannot be written to ({reason}): give another --data-dir") from error


def _build(card: DatasetCard, data_dir: str | Path, progress: DownloadProgress | None) -> tuple[DatasetCard, str]:
    """Write the table and its pin to `card.folder`; returns the card, and the message on how the table was obtained."""
    if card.computed:
        from molattn.chem import contributions_table, rdkit_version  # imported here, because it imports RDKit

        columns, rows = contributions_table(card.computed)
        source, source_sha256 = f"RDKit {rdkit_version()}", ""
        message = f"{card.name} was computed with {source}, in {card.path}"
    else:
        assert card.download is not None
        folders = [card.folder, *data_dirs(data_dir)]
        extracted = find_extracted_tables(card, card.download, folders)
        if extracted:
            source, source_sha256 = str(next(iter(extracted.values())).parent), ""
            message = f"{card.name} was read from {source}, into {card.path}"
            tables = {label: read_table(path, number_duplicate_columns=True) for label, path in extracted.items()}
        else:
            raw, source, source_sha256, message = _public_file(card, card.download, folders, progress)
            tables = read_public_file(raw, card.download)
        columns, rows = select_columns(card, card.download, tables)
    # The pin is written first: another process that finds the table without its pin would report a damaged table.
    draft = card.path.with_name(f".{card.path.stem}.draft.csv")
    write_table(draft, columns, rows)
    pin = Pin(source, source_sha256, file_sha256(draft), len(rows))
    if card.group and card.sha256 not in ("", pin.table_sha256):
        message += f"; the table is not the one of the card, which has {card.rows:,} rows and sha256 {card.sha256}"
    write_text(pin_path(card), json.dumps(asdict(pin), indent=1) + "\n")
    os.replace(draft, card.path)
    return card, message


def _public_file(
    card: DatasetCard, public_file: Download, folders: Sequence[Path], progress: DownloadProgress | None
) -> tuple[Path, str, str, str]:
    """Find or download the public file: its path, its source, its SHA-256, and a message about them."""
    pin = read_pin(card)
    expected = public_file.sha256 or (pin.source_sha256 if pin is not None else "")
    raw = find_public_file(card, public_file, folders)
    if raw is not None:
        found = file_sha256(raw)
        if expected and found != expected:
            raise InputError(f"{raw}: sha256 is {found}, {expected} is expected: remove it to download it again")
        return raw, str(raw), found, f"{card.name} was read from {raw}, sha256 {found}, into {card.path}"
    raw = card.folder / DOWNLOADS / public_file.file
    unreachable: UnreachableError | None = None
    for url in public_file.urls:
        try:
            found = download(url, raw, expected, progress)
        except UnreachableError as error:
            unreachable = error
            continue
        status = "as expected" if public_file.sha256 else "pinned from now on"
        return raw, url, found, f"{card.name} was downloaded from {url}, sha256 {found} ({status})"
    raise UnreachableError(
        f"{unreachable}: download {public_file.urls[0]} on another machine and copy it to {raw.parent}, "
        f"or provide a folder with {DOWNLOADS}/{public_file.file} with --data-dir or {DATA_VARIABLE}"
    ) from unreachable


def has_public_file(card: DatasetCard, data_dir: str | Path = "") -> bool:
    """Whether the public file of a data set, or its extracted tables, are on this machine: nothing is downloaded."""
    if card.download is None:
        return False
    folders = data_dirs(data_dir)
    return bool(find_extracted_tables(card, card.download, folders) or find_public_file(card, card.download, folders))


def describe_datasets() -> str:
    """One line: the data sets that are stored on this machine, and how many others can be downloaded or computed.

    Raises:
        RuntimeError: a table that comes with molattn is missing.
    """
    cards = [load_card(name) for name in dataset_names()]
    stored = [card.name for card in cards if find_dataset(card) is not None]
    missing = [card.name for card in cards if card.name not in stored and card.download is None and not card.computed]
    if missing:
        raise RuntimeError(f"the table of {', '.join(missing)} is missing: reinstall molattn")
    others = len(cards) - len(stored)
    return f"{', '.join(stored)}: stored, with correct checksums; {others} more are downloaded or computed on first use"
