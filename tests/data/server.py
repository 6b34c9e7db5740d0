"""An HTTP server on this machine for tests of downloads."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class FileServer(ThreadingHTTPServer):
    """Files by name; `requested` has the requested names. `content_lengths` overrides the true lengths."""

    def __init__(self, files: dict[str, bytes]):
        super().__init__(("127.0.0.1", 0), _RequestHandler)
        self.files, self.requested, self.content_lengths, self.redirects = dict(files), [], {}, {}

    def url(self, name: str, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.server_address[1]}/{name}"

    def handle_error(self, *_: object) -> None:
        """A client that disconnects is part of the tests: print no traceback."""


class _RequestHandler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        self.server.requested.append(name)
        if name in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[name])
            self.end_headers()
            return
        content = self.server.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.content_lengths.get(name, len(content))))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print no log lines."""


def certificate(folder: Path, name: str = "127.0.0.1") -> Path:
    """A certificate for that name that is self-signed, with its key, in a PEM file."""
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout key.pem -out cert.pem"
    subprocess.run(made.split(), cwd=folder, check=True, capture_output=True)
    pem = folder / "both.pem"
    pem.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return pem


@contextmanager
def serve(files: dict[str, bytes], certificate: Path | None = None) -> Iterator[FileServer]:
    """The server while the block runs; with a certificate, a PEM file of both parts, over TLS."""
    server = FileServer(files)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
