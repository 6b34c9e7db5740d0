"""A stand-in for the hub on this machine: its HTTP interface, as far as `huggingface_hub` uses it here.

Repositories are in memory. A commit is a dictionary of files; a branch or a tag is the name of a commit. The addresses,
headers and status codes are those that the client library uses and distinguishes; `requests` records each request.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_writer"
READER_TOKEN = "hf_reader"
"""Tokens of a user who may write to `user/...`, and of one who may only read what is public."""


@dataclass
class Repository:
    """One repository."""

    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.refs:
            self.commit("main", {}, "initial commit")

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        """Add a commit with these files to a branch; returns its 40 digits."""
        content = json.dumps([branch, message, len(self.commits), sorted((n, _sha1(d)) for n, d in files.items())])
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[commit], self.refs[branch] = dict(files), commit
        self.messages.append(message)
        return commit

    def resolve(self, revision: str) -> str | None:
        """The commit of a branch, a tag or a commit."""
        return revision if revision in self.commits else self.refs.get(revision)

    def files(self, revision: str = "main") -> dict[str, bytes]:
        """The files of a revision."""
        return self.commits[self.refs[revision]]


class HubServer(ThreadingHTTPServer):
    """The hub.

    Attributes:
        repositories: by "user/name".
        requests: "METHOD path" of each request.
        status: if not 0, the status of every response, as of a hub that is down.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.uploads: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.status = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """A client that disconnects is part of the tests: print no traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.body = self._read_body()
        path = unquote(urlsplit(self.path).path).strip("/")
        self.server.requests.append(f"{self.command} {path}")
        if self.server.status:
            self._send(self.server.status)
            return
        parts = path.split("/")
        if path == "api/repos/create":
            self._create()
        elif path == "api/validate-yaml":
            bad = "license: no such" in json.loads(self.body)["content"]
            errors = [{"message": '"license" must be one of mit, ...'}] if bad else []
            self._json({"errors": errors, "warnings": []}, 400 if bad else 200)
        elif parts[0] == "lfs":
            self.server.uploads[parts[1]] = self.body
            self._send(200)
        elif parts[:2] == ["api", "models"]:
            self._of_repository("/".join(parts[2:4]), parts[4:])
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._lfs_batch()
        elif len(parts) > 4 and parts[2] == "resolve":
            self._of_repository("/".join(parts[:2]), parts[2:])
        else:
            self._send(404)

    # Access

    def _token(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _of_repository(self, name: str, parts: list[str]) -> None:
        token, repository = self._token(), self.server.repositories.get(name)
        if token not in ("", TOKEN, READER_TOKEN):
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repository is None or (repository.private and token != TOKEN):
            self._error(401 if not token else 404, "RepoNotFound", "Repository not found")
        elif repository.gated and parts[:1] == ["resolve"] and token != TOKEN:
            self._error(401 if not token else 403, "GatedRepo", f"Access to model {name} is restricted.")
        elif self.command == "POST" and token != TOKEN:
            self._error(403, "", "you must use a write token")
        else:
            self._dispatch(name, repository, parts)

    def _dispatch(self, name: str, repository: Repository, parts: list[str]) -> None:
        what, rest = (parts[0] if parts else "revision"), parts[1:]
        if what == "resolve":
            self._resolve(repository, rest)
        elif what == "branch":
            self._branch(repository, "/".join(rest))
        elif (commit := repository.resolve("/".join(rest) or "main")) is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {'/'.join(rest)}")
        elif what == "revision":
            siblings = [{"rfilename": n} for n in repository.commits[commit]]
            self._json({"id": name, "sha": commit, "private": repository.private, "siblings": siblings})
        elif what == "tree":
            files = repository.commits[commit].items()
            self._json([{"type": "file", "path": n, "size": len(d), "oid": _sha1(d)} for n, d in files])
        elif what == "preupload":
            files = repository.commits[commit]
            self._json({"files": [_upload_mode(f["path"], files) for f in json.loads(self.body)["files"]]})
        elif what == "commit":
            self._commit(name, repository, "/".join(rest), dict(repository.commits[commit]))
        else:
            self._send(404)

    # Endpoints

    def _create(self) -> None:
        request = json.loads(self.body)
        name = f"{request['organization']}/{request['name']}"
        if self._token() == READER_TOKEN:
            self._error(403, "", "you must use a write token")
        elif self._token() != TOKEN:
            self._error(401, "", "Invalid username or password.")
        elif request["organization"] != "user":
            self._error(403, "", "You don't have the rights to create a model under this namespace")
        elif name in self.server.repositories:
            self._json({"url": f"{self.server.url}/{name}", "error": "exists"}, 409)
        else:
            private = request.get("visibility") == "private" or request.get("private") is True
            self.server.repositories[name] = Repository(private)
            self._json({"url": f"{self.server.url}/{name}", "id": name})

    def _branch(self, repository: Repository, branch: str) -> None:
        if branch in repository.refs:
            self._error(409, "", "Reference already exists")
        else:
            repository.refs[branch] = repository.refs["main"]
            self._json({})

    def _lfs_batch(self) -> None:
        href = f"{self.server.url}/lfs/"
        objects = json.loads(self.body)["objects"]
        answer = [{**o, "actions": {"upload": {"href": href + o["oid"]}}} for o in objects]
        self._json({"transfer": "basic", "objects": answer})

    def _commit(self, name: str, repository: Repository, branch: str, files: dict[str, bytes]) -> None:
        message = ""
        for line in self.body.splitlines():
            entry = json.loads(line)
            key, value = entry["key"], entry["value"]
            if key == "header":
                message = value["summary"]
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.server.uploads[value["oid"]]
                assert hashlib.sha256(files[value["path"]]).hexdigest() == value["oid"]
            elif key == "deletedFile":
                del files[value["path"]]
            else:
                raise AssertionError(key)
        commit = repository.commit(branch, files, message)
        self._json({"commitUrl": f"{self.server.url}/{name}/commit/{commit}", "commitOid": commit, "success": True})

    def _resolve(self, repository: Repository, parts: list[str]) -> None:
        # A revision may hold slashes.
        for k in range(1, len(parts)):
            if (commit := repository.resolve("/".join(parts[:k]))) is not None:
                data = repository.commits[commit].get("/".join(parts[k:]))
                break
        else:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {parts[0]}")
            return
        if data is None:
            self._error(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_sha1(data)}"'}
        if _is_lfs(parts[-1]):
            headers |= {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"'}
        self._send(200, data, headers)

    # Requests and responses

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            chunks = []
            while size := int(self.rfile.readline().strip(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _send(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, content: Any, status: int = 200) -> None:
        self._send(status, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        codes = {"X-Error-Code": code} if code else {}
        body = json.dumps({"error": message}).encode()
        self._send(status, body, {"X-Error-Message": message, **codes, **(headers or {})})

    def log_message(self, *_: object) -> None:
        """Print no log lines."""


def _sha1(data: bytes) -> str:
    """The name that git gives to a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _is_lfs(name: str) -> bool:
    return name.endswith((".safetensors", ".png"))


def _upload_mode(name: str, files: dict[str, bytes]) -> dict[str, Any]:
    oid = hashlib.sha256(files[name]).hexdigest() if _is_lfs(name) and name in files else None
    oid = _sha1(files[name]) if name in files and not _is_lfs(name) else oid
    return {"path": name, "uploadMode": "lfs" if _is_lfs(name) else "regular", "shouldIgnore": False, "oid": oid}


@contextmanager
def serve_hub() -> Iterator[HubServer]:
    """The hub while the block runs."""
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
