"""Addresses of models on the Hugging Face Hub: `hf://user/model@revision#sha256=...`.

Importing this module imports neither torch nor huggingface_hub.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from molattn.errors import UsageError, short_repr

_NAME = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_ADDRESS = re.compile(
    rf"hf:/{{1,2}}(?:models/)?(?P<repository>{_NAME}/{_NAME})/?(?:@(?P<revision>[\w./-]+))?(?:\#sha256=(?P<sha256>[0-9a-fA-F]{{64}}))?",
    re.ASCII,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubAddress:
    """The address of a model on the hub.

    Attributes:
        repository: "user/model".
        revision: a branch, a tag or a commit; empty for the main branch.
        sha256: the expected SHA-256 of `config.json`, which contains that of the weights; empty to accept any.
    """

    repository: str
    revision: str = ""
    sha256: str = ""

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf://{self.repository}{revision}" + (f"#sha256={self.sha256}" if self.sha256 else "")

    @property
    def is_commit(self) -> bool:
        """Whether the revision is the full hash of a commit, whose content never changes."""
        return is_commit(self.revision)

    def at(self, commit: str) -> "HubAddress":
        """The address of the same model at a commit."""
        return replace(self, revision=commit)


def is_commit(revision: str) -> bool:
    """Whether a revision is the full hash of a commit, 40 hexadecimal digits."""
    return bool(_COMMIT.fullmatch(revision))


def is_hub_address(path: str | Path) -> bool:
    """Whether a path is an address on the hub, valid or not: it begins with `hf:/`."""
    return address_text(path).startswith("hf:/")


def parse_address(path: str | Path) -> HubAddress:
    """Parse `hf://user/model`, `hf://user/model@revision` or `hf://user/model@revision#sha256=DIGITS`.

    Raises:
        UsageError: the address has another form.
    """
    text = address_text(path)
    match = _ADDRESS.fullmatch(text)
    if match is None or _is_unsafe(match["revision"] or ""):
        raise UsageError(
            f"{short_repr(text)} is not the address of a model on the hub: write hf://user/model, "
            "hf://user/model@revision or hf://user/model@revision#sha256=, with the 64 hexadecimal digits"
        )
    return HubAddress(match["repository"], match["revision"] or "", (match["sha256"] or "").lower())


def address_text(path: str | Path) -> str:
    """An address or a path as a string; `pathlib.Path` turns `hf://` into `hf:/`, which is undone."""
    if isinstance(path, str):
        return path
    text = path.as_posix()
    return f"hf://{text[4:]}" if text.startswith("hf:/") else str(path)


def _is_unsafe(revision: str) -> bool:
    """Whether a revision, as a file name in the hub's cache, could leave its folder, or could be read as an option."""
    return revision.startswith("-") or any(part in ("", ".", "..") for part in revision.split("/") if revision)
