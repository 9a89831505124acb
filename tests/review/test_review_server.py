"""The server answers this page only: with its token, its host and its methods; it opens no path from a browser."""

import io
import json

import pytest
from PIL import Image

from tailcloud.errors import UsageError
from tailcloud.review.decisions import Decisions
from tailcloud.review.server import TOKEN_HEADER, ReviewServer

DROP = {"item": 0, "image": 4, "action": "drop"}


def test_the_page_and_its_files_are_there(ask):
    status, headers, content = ask()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"review.js" in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert [ask(name)[0] for name in ("review.js", "review.css", "style.css")] == [200] * 3


@pytest.mark.parametrize("place", ["/", "/state", "//state", "/x/", "/x/state", "/favicon.ico", "/%00/", "/%C3%A9/"])
def test_without_the_token_nothing_is_there(ask, place):
    status, _, content = ask(place)
    assert (status, content) == (403, b"Forbidden\n")


def test_a_part_of_the_token_is_not_enough(ask, server):
    assert ask(f"/{server.token[:-1]}/state")[0] == 403
    assert ask(f"/{server.token}x/state")[0] == 403
    assert ask(f"/{server.token}")[0] == 403
    assert len(server.token) >= 32


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example", ""])
def test_another_host_is_refused(ask, host):
    assert ask("state", headers={"Host": host})[0] == 403


def test_localhost_is_fine(ask, server):
    assert ask("state", headers={"Host": f"localhost:{server.server_port}"})[0] == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"])
def test_other_methods_are_refused(ask, method):
    assert ask("state", method)[0] == 501


def test_a_decision_needs_the_token_in_a_header_and_this_origin(ask, server, decisions):
    assert ask("decide", "POST", body=DROP, headers={TOKEN_HEADER: None})[0] == 403
    assert ask("decide", "POST", body=DROP, headers={TOKEN_HEADER: "x"})[0] == 403
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{server.server_port}"):
        assert ask("decide", "POST", body=DROP, headers={"Origin": origin})[0] == 403
    assert ask("decide")[0] == 404
    assert not decisions.made
    status, _, content = ask("decide", "POST", body=DROP, headers={"Origin": f"http://127.0.0.1:{server.server_port}"})
    assert status == 200
    assert json.loads(content)["decision"] == {"image": 4, "action": "drop", "label": None}
    assert decisions.out.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 4000,
        {},
        {**DROP, "item": 4},
        {**DROP, "item": -1},
        {**DROP, "item": "0"},
        {**DROP, "item": True},
        {**DROP, "image": 3},
        {**DROP, "image": [4]},
        {**DROP, "action": "delete"},
        {**DROP, "action": ["drop"]},
        {**DROP, "action": "relabel"},
        {**DROP, "action": "relabel", "label": 3},
        {**DROP, "action": "relabel", "label": "../../x"},
    ],
)
def test_what_is_no_decision_is_refused(ask, decisions, body):
    assert ask("decide", "POST", body=body)[0] == 400
    assert not decisions.made


def test_a_long_body_is_not_read(ask):
    assert ask("decide", "POST", body=b"x" * 5000)[0] == 413
    assert ask("decide", "POST", headers={"Content-Length": "-1"})[0] == 411


def test_images_are_served_by_number(ask):
    status, headers, content = ask("image/4")
    assert (status, headers["Content-Type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(content)).size == (60, 40)


@pytest.mark.parametrize(
    "place",
    [
        "image/10",
        "image/-1",
        "image/",
        "image/4/",
        "image/%C2%B2",
        "image/4.png",
        "image/99999999999999999999",
        "image/../image/4",
        "../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "review.py",
        "templates/page.html",
        "photos/4, lynx.png",
        "sample/%34",
        "nothing",
    ],
)
def test_nothing_else_is_opened(ask, place):
    assert ask(place.replace(" ", "%20"))[0] == 404


def test_an_image_that_is_gone_is_not_found(ask, images):
    images.paths[4].unlink()
    assert ask("image/4")[0] == 404


def test_a_large_image_is_made_smaller(ask, images):
    Image.new("RGB", (3000, 1500)).save(images.paths[4])
    _, headers, content = ask("image/4")
    assert headers["Content-Type"] == "image/jpeg"
    assert Image.open(io.BytesIO(content)).size == (1024, 512)
    assert Image.open(io.BytesIO(ask("sample/4")[2])).size == (160, 80)


def test_a_full_disk_is_said(ask, decisions, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device", "/x/review.json")

    monkeypatch.setattr(decisions, "_save", full)
    status, _, content = ask("decide", "POST", body=DROP)
    assert (status, content.decode()) == (500, "/x/review.json could not be written: No space left on device\n")


def test_two_reviews_at_a_time_do_not_overwrite_each_other(ask, decisions, images, items):
    Decisions.load(images, decisions.out).decide(items[1], 0, "drop")
    status, _, content = ask("decide", "POST", body=DROP)
    assert status == 409
    assert b"was changed by another review" in content
    assert len(Decisions.load(images, decisions.out).made) == 1


def test_undo_names_the_item(ask):
    ask("decide", "POST", body=DROP)
    ask("decide", "POST", body={"item": 2, "image": 6, "action": "relabel", "label": 0})
    assert json.loads(ask("undo", "POST", body={})[2])["item"] == 2
    assert json.loads(ask("undo", "POST", body={})[2])["item"] == 0
    assert json.loads(ask("undo", "POST", body={})[2])["item"] is None


def test_a_port_in_use_is_refused(server, images, items, decisions):
    with pytest.raises(UsageError, match=f"--port {server.server_port} is in use; choose another one"):
        ReviewServer(images, items, [], decisions, port=server.server_port)


def test_it_listens_on_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url.startswith("http://127.0.0.1:")
