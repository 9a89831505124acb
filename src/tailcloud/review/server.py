"""The page of a review, served to a browser on this machine.

It listens on 127.0.0.1, and every address begins with a random token, so that no other person or page can use it:

- A request without the token, or with another Host (DNS rebinding), gets 403.
- A request that changes something also needs the token in a header, which other origins cannot send.
- Images are asked for by number; no path comes from the browser.
- The page loads nothing from elsewhere, which its Content-Security-Policy enforces.
"""

import errno
import io
import json
import os
from collections.abc import Callable
from functools import lru_cache
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, cast
from urllib.parse import urlsplit

from PIL import Image

from tailcloud.data.image_io import Unreadable, read_image
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.review.decisions import ACTIONS, Action, Decisions
from tailcloud.review.review_images import ReviewImages
from tailcloud.review.review_items import ReviewItem

ADDRESS = "127.0.0.1"
TOKEN_HEADER = "X-Tailcloud-Token"
MAX_BODY = 4096  # bytes of a decision
MAX_DIGITS = 12  # of the number of an image
SIDES = {"image": 1024, "sample": 160}  # pixels of the longer side, at most
LOSSLESS_SIDE = 256  # pixels; smaller images are sent without loss
REMEMBERED_IMAGES = 256
STATIC = {
    "": ("tailcloud.review", "page.html", "text/html; charset=utf-8"),
    "review.js": ("tailcloud.review", "review.js", "text/javascript; charset=utf-8"),
    "review.css": ("tailcloud.review", "review.css", "text/css; charset=utf-8"),
    "style.css": ("tailcloud.reporting", "style.css", "text/css; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class ReviewServer(ThreadingHTTPServer):
    """Serves one review.

    Args:
        images: all images of the run.
        items: what is reviewed, in order.
        samples: numbers of typical images of each class.
        decisions: receives what the person decides.
        command: the command that trains on the result.
        port: 0 takes any free one.

    Raises:
        UsageError: the port is in use or not allowed.
    """

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # there it would share the port with another program

    def __init__(
        self,
        images: ReviewImages,
        items: list[ReviewItem],
        samples: list[list[int]],
        decisions: Decisions,
        *,
        command: str = "",
        port: int = 0,
    ) -> None:
        self.images, self.items, self.samples, self.decisions = images, items, samples, decisions
        self.command, self.token = command, token_urlsafe(24)
        self.encoded = lru_cache(maxsize=REMEMBERED_IMAGES)(self._encode)
        try:
            super().__init__((ADDRESS, port), ReviewHandler)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise UsageError(f"--port {port} {why}; choose another one, or leave it out for any free one") from None

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> set[str]:
        """What a browser may call this server."""
        return {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def state(self) -> dict[str, Any]:
        """What the page shows."""
        images, items = self.images, self.items
        shown = {number for item in items for number in (item.image, item.other) if number is not None}
        return {
            "classes": [
                {"name": name, "images": count, "samples": samples}
                for name, count, samples in zip(images.class_names, images.counts.tolist(), self.samples, strict=True)
            ],
            "images": {
                number: {"name": images.names[number], "label": label, "split": images.splits[number]}
                for number, label in enumerate(images.labels.tolist())
                if number in shown
            },
            "items": [{**vars(item), "decision": self.shown_decision(item)} for item in items],
            "command": self.command,
            "out": str(self.decisions.out),
            "remarks": self.decisions.remarks(),
        }

    def shown_decision(self, item: ReviewItem) -> dict[str, Any] | None:
        """The decision about an item, for the page."""
        made = self.decisions.of(item)
        if made is None:
            return None
        about_other = item.other is not None and made.image == self.images.names[item.other]
        return {"image": item.other if about_other else item.image, "action": made.action, "label": made.label}

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        """Save a decision: {"item": place, "image": number, "action": …, "label": number of a class}."""
        place = _index(body.get("item"), len(self.items))
        image = _index(body.get("image"), len(self.images))
        item, action = self.items[place], str(body.get("action"))
        if action not in ACTIONS or image not in {item.image, item.other}:
            raise Refused(HTTPStatus.BAD_REQUEST)
        label = None
        if action == "relabel":
            label = self.images.class_names[_index(body.get("label"), len(self.images.class_names))]
        self.decisions.decide(item, image, cast(Action, action), label)
        return {"decision": self.shown_decision(item), "remarks": self.decisions.remarks()}

    def undo(self, _body: dict[str, Any]) -> dict[str, Any]:
        """Take the last decision back: the place of its item, if it is one of these."""
        before = [self.decisions.of(item) for item in self.items]
        last = self.decisions.undo()
        place = before.index(last) if last in before and last else None
        return {"item": place, "remarks": self.decisions.remarks()}

    def _encode(self, number: int, side: int) -> tuple[str, bytes]:
        """An image file as a browser can show it, at most ``side`` pixels wide and high: its type and content."""
        try:
            pixels = read_image(self.images.paths[number], 3, min_side=side)
        except Unreadable:
            raise Refused(HTTPStatus.NOT_FOUND) from None
        shown, file = Image.fromarray(pixels), io.BytesIO()
        shown.thumbnail((side, side))
        kind = "PNG" if max(shown.size) <= LOSSLESS_SIDE else "JPEG"
        shown.save(file, kind, **({"quality": 90} if kind == "JPEG" else {}))
        return f"image/{kind.lower()}", file.getvalue()


def _index(value: object, length: int) -> int:
    """A number from the browser, below ``length``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < length:
        raise Refused(HTTPStatus.BAD_REQUEST)
    return value


class ReviewHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ReviewServer
    timeout = 60  # seconds
    server_version, sys_version = "tailcloud", ""

    def do_GET(self) -> None:
        """The page, its files, an image, or what is shown."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """A decision, or undo."""
        self._answer(self._post)

    def _answer(self, respond: Callable[[str], tuple[str, bytes]]) -> None:
        try:
            kind, content = respond(self._place())
            self._send(HTTPStatus.OK, kind, content)
        except Refused as refused:
            self.close_connection = True
            self._send(refused.status, "text/plain; charset=utf-8", f"{refused}\n".encode())
        except TailcloudError as error:
            self._send(HTTPStatus.CONFLICT, "text/plain; charset=utf-8", f"{error}\n".encode(errors="replace"))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the browser left
        except OSError as error:  # a full disk
            why = f"{error.filename or 'a file'} could not be written: {error.strerror or error}\n"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", why.encode(errors="replace"))

    def _place(self) -> str:
        """What is asked for, after the token."""
        token, slash, place = urlsplit(self.path).path.lstrip("/").partition("/")
        known = compare_digest(token.encode(errors="replace"), self.server.token.encode())
        if not known or not slash or self.headers.get("Host") not in self.server.hosts:
            raise Refused(HTTPStatus.FORBIDDEN)
        return place

    def _get(self, place: str) -> tuple[str, bytes]:
        if place in STATIC:
            package, name, kind = STATIC[place]
            return kind, files(package).joinpath("templates", name).read_bytes()
        if place == "state":
            return "application/json", json.dumps(self.server.state()).encode()
        what, _, number = place.partition("/")
        is_number = number.isascii() and number.isdecimal() and len(number) < MAX_DIGITS
        if what not in SIDES or not is_number or int(number) >= len(self.server.images):
            raise Refused(HTTPStatus.NOT_FOUND)
        return self.server.encoded(int(number), SIDES[what])

    def _post(self, place: str) -> tuple[str, bytes]:
        sent, origin = self.headers.get(TOKEN_HEADER, ""), self.headers.get("Origin")
        if not compare_digest(sent.encode(errors="replace"), self.server.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN)
        if origin is not None and origin not in {f"http://{host}" for host in self.server.hosts}:
            raise Refused(HTTPStatus.FORBIDDEN)
        actions = {"decide": self.server.decide, "undo": self.server.undo}
        if place not in actions:
            raise Refused(HTTPStatus.NOT_FOUND)
        return "application/json", json.dumps(actions[place](self._body())).encode()

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise Refused(HTTPStatus.LENGTH_REQUIRED)
        if int(length) > MAX_BODY:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise Refused(HTTPStatus.BAD_REQUEST)
        return body

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal is for the person."""
