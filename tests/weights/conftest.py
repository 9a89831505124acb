"""A hub on this machine, with one small repository."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from tailcloud.weights.catalogue import CATALOGUE, CatalogueEntry, HubFile

COMMIT = "1234567890" * 4
REPO = "somebody/small.v1"


class Hub(ThreadingHTTPServer):
    """Answers as the hub does: ``content`` under its SHA-256, and ``sent`` instead of it if that is set."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.sent, self.breaks, self.requests, self.status = b"", None, False, [], 200
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def sha256(self):
        return hashlib.sha256(self.content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self):
        self.server.requests.append((self.command, self.path))
        self.answer()

    def do_GET(self):
        self.server.requests.append((self.command, self.path))
        body = self.server.content if self.server.sent is None else self.server.sent
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if "Range" in self.headers else 0
        self.answer(206 if start else self.server.status, start)
        self.wfile.write(body[start : len(body) // 2] if self.server.breaks else body[start:])

    def answer(self, status=None, start=0):
        status = status or self.server.status
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{self.server.sha256}"')
        size = len(self.server.content)
        self.send_header("Content-Length", str(size - start if status < 300 else 0))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub, and an empty cache; ``hub.entry`` is what it publishes, as the backbone resnet8."""
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    server.cache = tmp_path / "cache"
    server.entry = CatalogueEntry(
        name="resnet8",
        tag="v1",
        architecture="ResNet-8",
        source=HubFile(REPO),
        mean=(0.5, 0.25, 0.125),
        std=(0.5, 0.5, 0.25),
        pixels=8,
        interpolation="bicubic",
        crop=1.0,
        licence="MIT",
        trained_on="made-up images",
        megabytes=0.1,
    )
    monkeypatch.setitem(CATALOGUE, "resnet8", server.entry)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
    close_session()
