"""The stand-in for the hub, with a cache and a token of its own; huggingface_hub reads its constants at each call."""

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from tests.cli.conftest import molattn, run, table  # noqa: F401
from tests.hub.server import TOKEN, HubServer, serve_hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """An empty hub, and an empty cache; the user is logged in and may write."""
    constants = huggingface_hub.constants
    with serve_hub() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        disable_progress_bars()
        yield server
        enable_progress_bars()
