"""The folder of a model, from a path or an address on the hub.

Importing this module imports neither torch nor huggingface_hub.
"""

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
        folder: the folder of the model, or of its run.
        address: its address on the hub, with the commit as revision; None for a model that is not from the hub.
    """

    folder: Path
    address: HubAddress | None = None


def locate_model(path: str | Path, optional: Sequence[str] = ()) -> LocatedModel:
    """Find a model on this machine; one on the hub is downloaded into the cache of the hub first.

    Args:
        path: a folder, or an address such as hf://user/model.
        optional: as for `molattn.hub.download.download_model`.

    Raises:
        UsageError: the address is malformed.
        UsageError, InputError, MissingExtra: as `molattn.hub.download.download_model`.
    """
    if not is_hub_address(path):
        return LocatedModel(Path(path))
    address = parse_address(path)
    from molattn.hub.download import download_model  # imported here, because molattn.data takes longer to import

    return LocatedModel(*download_model(address, optional))


@contextmanager
def address_in_errors(model: LocatedModel) -> Iterator[None]:
    """Prefix each InputError in the block with the address of the model; if a file is damaged, add how to remove it."""
    try:
        yield
    except InputError as error:
        if model.address is None:
            raise
        remove = f", after `hf cache rm model/{model.address.repository}` if only this copy of it is damaged"
        raise InputError(f"{model.address}: {error}{remove if 'is damaged' in str(error) else ''}") from error
