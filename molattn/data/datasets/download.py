"""Files from the network: over verified TLS alone, checked before they are there, whole or not at all."""

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
"""Told how many bytes there are, and of how many; 0 where the server does not say."""

MAX_BYTES = 4 * 1024**3
"""The largest file that is fetched."""

_CHUNK = 1 << 16
_SECONDS = 30.0  # without a byte


class UnreachableError(InputError):
    """A server that does not answer, as when there is no network."""


def download(url: str, path: Path, sha256: str = "", progress: Progress | None = None) -> str:
    """Fetch `url` into `path` and return the sha256 of its bytes.

    `path` is replaced only by a whole file, of the length that the server said and with the sha256 asked for, if any;
    otherwise it stays as it was and nothing else is left beside it.

    Args:
        url: of the scheme https; http only on this machine (127.0.0.1).
        path: its folder is made.
        sha256: what the file must have; empty for a file that nobody held before.
        progress: told while it comes.

    Raises:
        UnreachableError: the server does not answer.
        InputError: it answers with something else, less than it said, or other bytes.
    """
    _check_scheme(url)
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _SafeRedirects()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, done = hashlib.sha256(), 0
    try:
        with opener.open(url, timeout=_SECONDS) as answer, atomic_write(path) as file:
            length = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(_CHUNK):
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
                    f"{url} is not the file that is known: its sha256 is {found}, {sha256} is expected; "
                    "it was changed at its home or damaged on the way, and is not kept"
                )
    except urllib.error.HTTPError as error:
        raise InputError(f"{url} cannot be fetched: the server answers {error.code} {error.reason}") from error
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
