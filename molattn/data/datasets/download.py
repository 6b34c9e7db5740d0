"""Downloads over verified TLS only; a file is checked before it is stored, atomically."""

import hashlib
import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from molattn.data.files import atomic_write
from molattn.errors import InputError, short_repr

Progress = Callable[[int, int], None]
"""Called with the bytes downloaded and the total; the total is 0 if the server does not report it."""

MAX_BYTES = 4 * 1024**3
"""The largest file that is downloaded."""

_CHUNK = 1 << 16
_TIMEOUT = 30.0  # seconds without a byte


class UnreachableError(InputError):
    """A server that does not respond, such as without a network."""


def download(url: str, path: Path, sha256: str = "", progress: Progress | None = None) -> str:
    """Fetch `url` into `path` and return the sha256 of its bytes.

    `path` is replaced only by a complete file, of the length that the server reported and with the expected sha256, if
    any; otherwise it is unchanged and no other file is left.

    Args:
        url: with the scheme https; http only for this machine (127.0.0.1).
        path: its folder is created.
        sha256: the expected checksum; empty to accept any.
        progress: called during the download.

    Raises:
        UnreachableError: the server does not respond.
        InputError: it responds with an error, fewer bytes than it reported, or other bytes.
    """
    _check_scheme(url)
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _SafeRedirects()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, done = hashlib.sha256(), 0
    try:
        with opener.open(url, timeout=_TIMEOUT) as response, atomic_write(path) as file:
            length = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if done > MAX_BYTES:
                    raise InputError(f"{url} is larger than {MAX_BYTES:,} bytes: it is not fetched")
                digest.update(chunk)
                file.write(chunk)
                if progress is not None:
                    progress(done, length)
            if length and done != length:
                raise InputError(f"{url} broke off after {done:,} of {length:,} bytes: try again")
            found = digest.hexdigest()
            if sha256 and found != sha256:
                raise InputError(
                    f"{url} is not the expected file: its sha256 is {found}, {sha256} is expected; "
                    "it was changed by its publisher or damaged on the way, and is not stored"
                )
    except urllib.error.HTTPError as error:
        raise InputError(f"{url} cannot be fetched: the server responds with {error.code} {error.reason}") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            raise InputError(f"{url} cannot be fetched: its certificate is not trusted ({reason.reason})") from error
        raise UnreachableError(f"{url} cannot be reached ({reason})") from error
    except http.client.HTTPException as error:
        raise InputError(f"{url} broke off after {done:,} bytes: try again") from error
    return found


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects that never leave TLS."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        _check_scheme(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise InputError(f"{short_repr(url)} is not fetched: only https is")
