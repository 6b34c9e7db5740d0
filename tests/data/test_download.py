"""Downloads: complete and as expected, or no file."""

import hashlib
import http.client
import ssl

import pytest

from molattn.data.datasets import fetch as module
from molattn.data.datasets.fetch import UnreachableError, download
from molattn.errors import InputError
from tests.data.server import certificate, serve

CONTENT = b"smiles,y\n" + b"CC,1\n" * 50_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def test_a_file_is_downloaded_and_progress_is_reported(tmp_path):
    calls = []
    with serve({"a.csv": CONTENT}) as home:
        found = download(home.url("a.csv"), tmp_path / "new" / "a.csv", SHA256, lambda *p: calls.append(p))
    assert found == SHA256
    assert (tmp_path / "new" / "a.csv").read_bytes() == CONTENT
    assert calls[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def flipped(data):
    return data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]


@pytest.mark.parametrize(
    ("files", "lengths", "message"),
    [
        ({"a.csv": flipped(CONTENT)}, {}, f"not the expected file: its sha256 is .* {SHA256} is expected"),
        (
            {"a.csv": CONTENT[: len(CONTENT) // 2]},
            {"a.csv": len(CONTENT)},
            "interrupted after 125,0.. of 250,009 bytes",
        ),
        ({"a.csv": CONTENT[: len(CONTENT) // 2]}, {}, "not the expected file"),
        ({}, {}, "the server responds with 404"),
    ],
)
def test_another_file_raises_and_leaves_no_file(tmp_path, files, lengths, message):
    with serve(files) as home:
        home.content_lengths.update(lengths)
        with pytest.raises(InputError, match=message):
            download(home.url("a.csv"), tmp_path / "a.csv", SHA256)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_stays_if_its_replacement_is_rejected(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"old")
    with serve({"a.csv": flipped(CONTENT)}) as home, pytest.raises(InputError):
        download(home.url("a.csv"), tmp_path / "a.csv", SHA256)
    assert (tmp_path / "a.csv").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_endless_file_raises(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    with serve({"a.csv": CONTENT}) as home, pytest.raises(InputError, match="larger than 100,000 bytes"):
        download(home.url("a.csv"), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_server_raises(tmp_path):
    with serve({}) as home:
        url = home.url("a.csv")
    with pytest.raises(UnreachableError, match=r"a\.csv cannot be reached \(.*refused"):
        download(url, tmp_path / "a.csv")


@pytest.mark.parametrize("url", ["http://example.org/a", "file:///etc/passwd", "ftp://example.org/a", "a.csv"])
def test_only_https_is_fetched(tmp_path, url):
    with pytest.raises(InputError, match="its scheme must be https"):
        download(url, tmp_path / "a.csv")


def test_a_redirect_away_from_tls_is_not_followed(tmp_path):
    with serve({"a.csv": CONTENT}) as home:
        home.redirects["moved"] = home.url("a.csv")
        home.redirects["astray"] = "http://example.org/a.csv"
        assert download(home.url("moved"), tmp_path / "a.csv", SHA256) == SHA256
        with pytest.raises(InputError, match="'http://example.org/a.csv' is not downloaded"):
            download(home.url("astray"), tmp_path / "b.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_self_signed_certificate_is_rejected(tmp_path):
    pem = certificate(tmp_path)
    with serve({"a.csv": CONTENT}, pem) as home, pytest.raises(InputError, match="its certificate is not trusted"):
        download(home.url("a.csv", "https"), tmp_path / "cache" / "a.csv", SHA256)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_connection_that_tls_ends_is_an_unreachable_server(tmp_path, monkeypatch):
    def read(*_):
        raise ssl.SSLEOFError(8, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol")

    with serve({"a.csv": CONTENT}) as home:
        monkeypatch.setattr(http.client.HTTPResponse, "read", read)
        with pytest.raises(UnreachableError, match=r"a\.csv cannot be reached \(.*UNEXPECTED_EOF"):
            download(home.url("a.csv"), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []
