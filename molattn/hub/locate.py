"""Where a model is: a folder, or an address on the hub. Importing this module loads nothing heavy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from molattn.errors import InputError
from molattn.hub.address import HubAddress, is_hub_address, parse_address


@dataclass(frozen=True)
class LocatedModel:
    """A model on this machine.

    Attributes:
        folder: its folder, or that of its run.
        address: its address on the hub, with the commit; None if it is not from there.
    """

    folder: Path
    address: HubAddress | None = None


def locate_model(path: str | Path, optional: Sequence[str] = ()) -> LocatedModel:
    """The folder of a model; one on the hub is downloaded into the hub's cache first.

    Args:
        path: a folder, or an address such as hf://user/model.
        optional: as for `molattn.hub.download.download_model`.

    Raises:
        UsageError: an address that is malformed.
        InputError, MissingExtra: as for `molattn.hub.download.download_model`.
    """
    if not is_hub_address(path):
        return LocatedModel(Path(path))
    address = parse_address(path)
    from molattn.hub.download import download_model  # imported here, because molattn.data takes longer to import

    return LocatedModel(*download_model(address, optional))


@contextmanager
def errors_name(model: LocatedModel) -> Iterator[None]:
    """Name the address of a model in an error about its files, and what to do if they are damaged on this machine."""
    try:
        yield
    except InputError as error:
        if model.address is None:
            raise
        remove = f", after `hf cache rm model/{model.address.repository}` if only this copy of it is damaged"
        raise InputError(f"{model.address}: {error}{remove if 'is damaged' in str(error) else ''}") from error
