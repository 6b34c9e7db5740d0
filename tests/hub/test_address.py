"""Addresses of models on the hub."""

from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molattn.errors import UsageError
from molattn.hub.address import HubAddress, address_text, is_hub_address, parse_address
from molattn.hub.locate import locate_model

NAMES = st.builds("{}{}{}".format, *(st.text(a, min_size=1, max_size=9) for a in ("aZ0", "bY1_.-", "cX2_")))
REVISIONS = st.one_of(st.just(""), st.sampled_from(("main", "v1.0", "refs/pr/1", "a" * 40, "feature/x-1")))
CHECKSUMS = st.sampled_from(("", "0" * 64, "1f" * 32))


@given(NAMES, NAMES, REVISIONS, CHECKSUMS)
def test_an_address_is_read_as_it_is_written(user: str, model: str, revision: str, sha256: str) -> None:
    address = HubAddress(f"{user}/{model}", revision, sha256)
    assert parse_address(str(address)) == address
    assert parse_address(Path(str(address))) == address  # which has one slash after hf: only
    assert address.is_commit == (len(revision) == 40)


def test_the_names_that_the_client_library_gives_are_read_too() -> None:
    assert parse_address("hf://models/user/model@v1") == HubAddress("user/model", "v1")
    assert parse_address("hf://user/model#sha256=" + "A" * 64).sha256 == "a" * 64


@pytest.mark.parametrize(
    "text",
    [
        "hf://",
        "hf://user",
        "hf://user/model/more",
        "hf://datasets/user/model",
        "hf://user/model@",
        "hf://user/model@../../x",
        "hf://user/model@a/./b",
        "hf://user/model@/etc",
        "hf://user/model@-x",
        "hf://user/model@v 1",
        "hf://user/model#sha256=12",
        "hf://user/model#md5=" + "0" * 32,
        "hf://../model",
        "hf://user/mödel",
        "hf://user/model\n",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    assert is_hub_address(text)
    with pytest.raises(UsageError, match="is not the address of a model on the hub: write hf://user/model"):
        parse_address(text)


def test_paths_stay_paths(tmp_path: Path) -> None:
    for path in (tmp_path, str(tmp_path), "runs/hf", "hf", PureWindowsPath(r"C:\runs\esol")):
        assert not is_hub_address(path)  # pyright: ignore[reportArgumentType]
        assert address_text(path) == str(path)  # pyright: ignore[reportArgumentType]
    assert locate_model(tmp_path).folder == tmp_path
    assert locate_model(tmp_path).address is None
    assert address_text(Path("hf://user/model")) == "hf://user/model"
