"""A small review without a model: image files, items about them, and a server that a test can ask."""

import json
import threading
from contextlib import closing
from http.client import HTTPConnection

import numpy as np
import pytest

from helpers.drawing import draw
from tailcloud.review.decisions import Decisions
from tailcloud.review.review_images import ReviewImages
from tailcloud.review.review_items import ReviewItem
from tailcloud.review.server import TOKEN_HEADER, ReviewServer

CLASSES = ["cat", "lynx", "puma & <b>co</b>"]
LABELS = [0, 0, 0, 0, 1, 1, 2, 2, 0, 1]
SPLITS = ["train"] * 8 + ["test"] * 2


@pytest.fixture
def images(tmp_path):
    """Ten images of three classes; the last two are for testing."""
    paths = [
        draw(tmp_path / "photos" / f"{number}, {CLASSES[label][:4]}.png", (20 * number, 80 * label, 90), (40, 60))
        for number, label in enumerate(LABELS)
    ]
    return ReviewImages(
        paths=paths,
        names=[path.name for path in paths],
        labels=np.array(LABELS),
        splits=SPLITS,
        groups=None,
        class_names=CLASSES,
        counts=np.array([4, 2, 2]),
    )


@pytest.fixture
def items():
    """Two doubtful labels, a pair of two classes, a pair in two splits."""
    return [
        ReviewItem(4, 0, 0.9, 0.01),
        ReviewItem(0, 2, 0.8, 0.05),
        ReviewItem(1, 2, 0.6, 0.3, other=6),
        ReviewItem(2, 0, 0.6, 0.6, other=8, exact=True),
    ]


@pytest.fixture
def decisions(images, tmp_path):
    return Decisions.load(images, tmp_path / "out" / "review.csv")


@pytest.fixture
def server(images, items, decisions):
    """A server in a thread."""
    samples = [[0, 1, 2, 3], [4, 5], [6, 7]]
    with ReviewServer(images, items, samples, decisions, command="tailcloud train --data review.csv") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(server):
    """Send a request; its status, headers and content. ``place`` follows the token unless it begins with "/"."""

    def ask(place="", method="GET", *, headers=None, body=None):
        connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
        path = place if place.startswith("/") else f"/{server.token}/{place}"
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {TOKEN_HEADER: server.token} if method == "POST" else {}
        sent |= headers or {}
        connection.request(method, path, content, {name: value for name, value in sent.items() if value is not None})
        with closing(connection):
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    return ask
