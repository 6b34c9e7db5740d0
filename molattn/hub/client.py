"""The client library of the hub, `huggingface_hub`; its errors are converted to errors of molattn."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from molattn.errors import InputError, MissingExtra, MolattnError, UsageError, short_repr
from molattn.hub.address import HubAddress

LOGIN = "log in with `hf auth login`"
"""The advice in errors about missing access."""


def import_hub() -> Any:
    """The module `huggingface_hub`, imported here because few commands need it.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise MissingExtra("huggingface_hub", "hub", "a model on the hub") from error
    return huggingface_hub


def user_agent() -> dict[str, str]:
    """The user agent, as keyword arguments of the functions of `huggingface_hub`."""
    return {"library_name": "molattn", "library_version": version("molattn")}


@contextmanager
def hub_errors(address: HubAddress) -> Iterator[None]:
    """Raise errors of `huggingface_hub` in the block as errors of molattn, with the address in their message."""
    hub = import_hub()
    errors = hub.errors
    try:
        yield
    except errors.HfHubHTTPError as error:
        raise _http_error(hub, error, address) from error
    except errors.OfflineModeIsEnabled as error:
        raise InputError(f"{address} is on the hub, and HF_HUB_OFFLINE is set: unset it") from error
    except errors.LocalEntryNotFoundError as error:  # the connection was lost between two files
        raise unreachable_error(address, error.__cause__ or error) from error
    except errors.LocalTokenNotFoundError as error:
        raise _no_token_error(address) from error
    # HTTPError is that of its HTTP library; the others come from hf_xet, which transfers large files.
    except (
        errors.HTTPError,
        ConnectionError,
        TimeoutError,
        getattr(errors, "XetDownloadError", TimeoutError),
    ) as error:
        raise unreachable_error(address, error) from error
    except errors.HFValidationError as error:
        raise UsageError(f"{address} is not the name of a repository: {_first_line(error)}") from error
    except errors.FileMetadataError as error:
        raise InputError(f"the server of {address} does not respond as the hub does: {_first_line(error)}") from error


def unreachable_error(address: HubAddress, error: BaseException) -> InputError:
    """The error for a hub that does not respond."""
    return InputError(
        f"the hub cannot be reached for {address} ({_first_line(error)}): check the network, and try again"
    )


def not_in_cache_error(address: HubAddress) -> InputError:
    """The error for a model that is not in the cache and cannot be downloaded."""
    return InputError(
        f"{address} is not in the cache of the hub, and HF_HUB_OFFLINE is set: load the model once without it"
    )


def _no_token_error(address: HubAddress) -> InputError:
    return InputError(f"the hub requires authentication for hf://{address.repository}: {LOGIN}")


def _http_error(hub: Any, error: Any, address: HubAddress) -> MolattnError:
    """The error for an HTTP status that the hub responds with."""
    errors = hub.errors
    name, status = f"hf://{address.repository}", error.response.status_code
    if isinstance(error, errors.GatedRepoError):
        hub_url = str(error.response.url).partition(f"/{address.repository}/")[0].removesuffix("/api/models")
        return InputError(f"{name} is gated: accept its terms on {hub_url}/{address.repository}, and {LOGIN}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return InputError(f"there is no model {name}, or it is private: check its name, or {LOGIN}")
    if isinstance(error, errors.RevisionNotFoundError):
        revision = short_repr(address.revision or "main")
        return InputError(f"{name} has no revision {revision}: give a branch, a tag or all 40 digits of a commit")
    if isinstance(error, errors.EntryNotFoundError):
        return not_a_model_error(address)
    if isinstance(error, errors.DisabledRepoError):
        return InputError(f"{name} was disabled on the hub: its page gives the reason")
    if status == 401 and hub.get_token() is None:
        return _no_token_error(address)
    if status == 401:
        return InputError(f"the hub does not accept your token for {name}: {LOGIN}")
    if status == 403:
        return InputError(f"you have no permission for this at {name}: {LOGIN}, with a token that has it")
    reason = error.response.reason_phrase
    return InputError(f"the hub responds to {name} with {status} {reason}: try again later")


def not_a_model_error(address: HubAddress, reason: str = "it has no config.json and model.safetensors") -> InputError:
    """The error for a repository without a model of molattn."""
    return InputError(f"hf://{address.repository} is not a model of molattn: {reason}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
