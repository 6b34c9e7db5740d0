"""Downloads of models from the hub into the cache of `huggingface_hub`.

Only the files that a model needs are downloaded. The configuration comes first: it is small, it contains the checksum
of the weights, and it shows whether the repository has a model of molattn at all.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from molattn.data.datasets.fetch import MAX_BYTES
from molattn.data.files import file_sha256
from molattn.data.schema import parse_json
from molattn.errors import InputError
from molattn.hub.address import HubAddress
from molattn.hub.client import (
    hub_errors,
    import_hub,
    not_a_model_error,
    not_in_cache_error,
    unreachable_error,
    user_agent,
)
from molattn.models.config_file import CONFIG_JSON, MAX_CONFIG_BYTES, WEIGHTS

FOLDERS = ("", "model/")
"""Folders of a repository in which the files of a model are searched, in this order: `molattn push` writes them to the
root; a run folder that was uploaded unchanged has them in `model`."""

_LOG = logging.getLogger("molattn")


def download_model(address: HubAddress, optional: Sequence[str] = ()) -> tuple[Path, HubAddress]:
    """Download a model; returns its folder in the cache of the hub, and its address with the commit as revision.

    A branch or tag is resolved on the hub each time; if the hub cannot be reached, the commit that it last resolved to
    is used. If the revision is a commit, and its files are in the cache, no network is needed.

    Args:
        address: the address of the model.
        optional: names of other files, which are downloaded if the repository has them.

    Raises:
        MissingExtra: `huggingface_hub` is not installed.
        UsageError: the hub does not accept the name of the repository.
        InputError: no such repository or revision, or no access to it; no network, and no copy in the cache; not a
            model of molattn; or a SHA-256 other than in the address.
    """
    hub = import_hub()
    with hub_errors(address):
        config, prefix = _find_config(hub, address)
        folder = config.parent if not prefix else config.parent.parent
        located = address.at(folder.name)
        _check_config(config, located)
        _fetch(hub, located, prefix + WEIGHTS, MAX_BYTES)
        for name in optional:
            _fetch(hub, located, name, MAX_CONFIG_BYTES, required=False)
    if located != address:
        _LOG.info("%s resolves to %s", address, located)
    return folder, located


def _find_config(hub: Any, address: HubAddress) -> tuple[Path, str]:
    """The path of the configuration in the cache, and its folder in the repository, one of `FOLDERS`."""
    for prefix in FOLDERS:
        config = _fetch(hub, address, prefix + CONFIG_JSON, MAX_CONFIG_BYTES, required=False)
        if config is not None:
            return config, prefix
    raise not_a_model_error(address)


def _fetch(hub: Any, address: HubAddress, name: str, max_bytes: int, required: bool = True) -> Path | None:
    """The path of a file in the cache, after a download if necessary; None if the repository does not have it.

    Raises:
        InputError: it is larger than `max_bytes`, or there is no network and no copy; if `required`, also if the
            repository does not have it.
    """
    file_arguments = {"repo_id": address.repository, "filename": name, "revision": address.revision or None}
    cached = hub.try_to_load_from_cache(**file_arguments)
    if address.is_commit and isinstance(cached, str):
        return Path(cached)
    if address.is_commit and cached is not None:  # the cache has a record that there is no such file
        if required:
            raise not_a_model_error(address)
        return None
    try:
        metadata = hub.get_hf_file_metadata(hub.hf_hub_url(**file_arguments), **user_agent())
    except hub.errors.EntryNotFoundError:
        if required:
            raise
        with suppress(hub.errors.EntryNotFoundError):
            hub.hf_hub_download(**file_arguments, **user_agent())  # records in the cache that there is no such file
        return None
    except hub.errors.OfflineModeIsEnabled as error:
        return _from_cache(cached, address, not_in_cache_error(address), required, error)
    except hub.errors.HTTPError as error:
        status = getattr(getattr(error, "response", None), "status_code", 500)
        if status < 500:
            raise
        if isinstance(cached, str):
            _LOG.warning("the hub cannot be reached: %s is taken from its cache", address)
        return _from_cache(cached, address, unreachable_error(address, error), required, error)
    if (metadata.size or 0) > max_bytes:
        raise InputError(
            f"{name} of {address} has {metadata.size:,} bytes, over the limit of {max_bytes:,}: not downloaded"
        )
    return Path(hub.hf_hub_download(**file_arguments, **user_agent()))


def _from_cache(cached: Any, address: HubAddress, missing: InputError, required: bool, error: Exception) -> Path | None:
    """The path of a cached file; without one, None if it is optional in a commit, else raise `missing`."""
    if isinstance(cached, str):
        return Path(cached)
    if address.is_commit and not required:
        return None
    raise missing from error


def _check_config(config: Path, address: HubAddress) -> None:
    """Raise InputError if the configuration was not written by molattn, or its checksum is not that of the address."""
    if address.sha256 and (found := file_sha256(config)) != address.sha256:
        raise InputError(
            f"hf://{address.repository}@{address.revision} is not the model that its address describes: the SHA-256 of "
            f"its {CONFIG_JSON} is {found}"
        )
    try:
        content = parse_json(config.read_bytes()) if config.stat().st_size <= MAX_CONFIG_BYTES else None
    except ValueError:
        content = None
    if not isinstance(content, dict) or "molattn" not in content:
        raise not_a_model_error(address, f"its {CONFIG_JSON} was written by another program")
