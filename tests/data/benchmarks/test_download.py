"""Getting CIFAR over HTTP: from a server of our own, with a small archive that is declared to be the published one."""

import io
import re
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tailcloud.data.benchmarks import cifar, download
from tailcloud.data.benchmarks.download import get
from tailcloud.errors import TailcloudError, UsageError

FILES = {"train": b"train" * 40_000, "test": b"test" * 900, "meta": b"meta"}
FOLDER = "cifar-100-python"


class Server(ThreadingHTTPServer):
    """Serves one file. ``breaks_at``: closes the connection after so many bytes; ``ranges``: answers with 206."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.breaks_at, self.ranges, self.status = content, None, True, 200
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/cifar-100-python.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append(wanted)
        start = int(re.findall(r"\d+", wanted)[0]) if wanted and server.ranges else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else server.status)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.end_headers()
        self.wfile.write(server.content[start : server.breaks_at])

    def log_message(self, *_: object) -> None:
        pass


def make_archive(files: dict[str, bytes], extra: list[tarfile.TarInfo] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=0) as tar:
        for member in extra or []:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
        for name, content in files.items():
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def publish(monkeypatch, archive: bytes) -> None:
    edition = cifar.CIFAR_EDITIONS["cifar100"]
    sums = {name: md5(content).hexdigest() for name, content in FILES.items()}
    layouts = (replace(edition.layouts[0], sums=sums), *edition.layouts[1:])
    monkeypatch.setitem(
        cifar.CIFAR_EDITIONS, "cifar100", replace(edition, layouts=layouts, archive_sum=md5(archive).hexdigest())
    )


@pytest.fixture
def archive(monkeypatch) -> bytes:
    content = make_archive(FILES)
    publish(monkeypatch, content)
    return content


@pytest.fixture
def server(archive) -> Iterator[Server]:
    with Server(archive) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


WHOLE = [f"{FOLDER}/meta", f"{FOLDER}/test", f"{FOLDER}/train"]


def test_downloads_checks_and_unpacks(server, tmp_path):
    heard = []
    said = get("cifar100", tmp_path / "data", lambda *progress: heard.append(progress), url=server.url)
    assert said == f"CIFAR-100 is now in {tmp_path}/data/{FOLDER}, and every file is as published."
    assert tree(tmp_path / "data") == WHOLE
    assert [path.name for path in (tmp_path / "data").iterdir()] == [FOLDER]
    assert all((tmp_path / "data" / FOLDER / name).read_bytes() == content for name, content in FILES.items())
    assert heard[0] == (0, len(server.content))
    assert heard[-1] == (len(server.content), len(server.content))
    assert heard == sorted(heard)


def test_present_and_verified_is_left_alone(server, tmp_path):
    get("cifar100", tmp_path, url=server.url)
    said = get("cifar100", tmp_path, url=server.url)
    assert said == f"CIFAR-100 is already in {tmp_path}/{FOLDER}, and every file is as published."
    assert len(server.asked) == 1


def test_a_broken_download_is_continued(server, tmp_path):
    server.breaks_at = 100_000
    with pytest.raises(TailcloudError, match=r"closed after 100,000 of [\d,]+ bytes\); run .* again to continue"):
        get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == ["cifar-100-python.tar.gz.part"]
    server.breaks_at = None
    heard = []
    get("cifar100", tmp_path, lambda *progress: heard.append(progress), url=server.url)
    assert server.asked == [None, "bytes=100000-"]
    assert heard[0] == (100_000, len(server.content))
    assert tree(tmp_path) == WHOLE


def test_a_server_without_ranges_starts_over(server, tmp_path):
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(b"old" * 100)
    server.ranges = False
    get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == WHOLE


def test_a_part_that_is_whole_is_used(server, archive, tmp_path):
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(archive)
    get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == WHOLE


@pytest.mark.parametrize("part", [b"", b"wrong" * 100])
def test_a_wrong_download_is_removed(server, tmp_path, part):
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(part)
    server.content = server.content[:-1] + b"!"
    with pytest.raises(
        TailcloudError, match=r"is not the published archive \(MD5 \w{32}, expected \w{32}\); it was rem"
    ):
        get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == []


def test_a_part_longer_than_the_file_is_removed(server, archive, tmp_path):
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(archive + b"more")
    with pytest.raises(TailcloudError, match="it was removed"):
        get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == []


def test_an_error_of_the_server(server, tmp_path):
    server.status = 404
    with pytest.raises(TailcloudError, match=r"cannot download http://.*\(Not Found\); run"):
        get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "nonsense", "http://[/"])
def test_without_a_network_a_sentence_says_what_to_put_where(archive, tmp_path, url):
    sentence = rf"cannot download .*; run \"tailcloud data get cifar100 --root {tmp_path}\" again to continue, "
    with pytest.raises(TailcloudError, match=sentence + rf"or .* save it as {tmp_path}/cifar-100-python.tar.gz first"):
        get("cifar100", tmp_path, url=url)
    assert tree(tmp_path) == []


def test_a_silent_server(archive, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(TailcloudError, match=r"cannot download .* \(timed out\)"),
    ):
        get("cifar100", tmp_path, url=f"http://127.0.0.1:{silent.getsockname()[1]}/")


def test_an_archive_that_was_brought_needs_no_network(archive, tmp_path):
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(archive)
    get("cifar100", tmp_path, url="http://127.0.0.1:1/")
    assert tree(tmp_path) == sorted(["cifar-100-python.tar.gz", *WHOLE])


def test_a_wrong_archive_that_was_brought_is_kept_and_refused(archive, tmp_path):
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(archive[:-1])
    with pytest.raises(TailcloudError, match=r"tar\.gz is not the published archive \(MD5 .*\); remove it and run"):
        get("cifar100", tmp_path)
    assert tree(tmp_path) == ["cifar-100-python.tar.gz"]


def test_a_damaged_copy_is_mended_and_other_files_stay(server, tmp_path):
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / "train").write_bytes(b"damaged")
    (folder / "notes.txt").write_text("mine")
    get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == sorted([*WHOLE, f"{FOLDER}/notes.txt"])
    assert (folder / "train").read_bytes() == FILES["train"]


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_only_the_expected_members_are_written(tmp_path, monkeypatch):
    escape = tarfile.TarInfo("../escaped")
    absolute = tarfile.TarInfo(f"{tmp_path}/absolute")
    inside = tarfile.TarInfo(f"{FOLDER}/../../escaped")
    unknown = tarfile.TarInfo(f"{FOLDER}/unknown")
    escape.size = absolute.size = inside.size = unknown.size = 5
    extra = [escape, absolute, inside, unknown, link(f"{FOLDER}/test", "/etc/passwd", tarfile.SYMTYPE)]
    content = make_archive(FILES, extra)
    publish(monkeypatch, content)
    root = tmp_path / "a" / "b"
    root.mkdir(parents=True)
    (root / "cifar-100-python.tar.gz").write_bytes(content)
    get("cifar100", root)
    assert tree(tmp_path) == sorted(f"a/b/{path}" for path in ["cifar-100-python.tar.gz", *WHOLE])
    assert not (root / FOLDER / "test").is_symlink()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (make_archive({name: FILES[name] for name in ("train", "meta")}), f"it lacks {FOLDER}/test"),
        (make_archive({"train": b""}, [link(f"{FOLDER}/test", "/etc/passwd", tarfile.SYMTYPE)]), "it lacks"),
        (make_archive(FILES)[:5000], ""),
        (b"no archive", ""),
    ],
    ids=["incomplete", "link", "truncated", "text"],
)
def test_an_archive_that_cannot_be_unpacked_leaves_nothing(tmp_path, monkeypatch, content, why):
    publish(monkeypatch, content)
    (tmp_path / "cifar-100-python.tar.gz").write_bytes(content)
    with pytest.raises(TailcloudError, match=rf"cifar-100-python\.tar\.gz cannot be unpacked: {why}"):
        get("cifar100", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-100-python.tar.gz"]


def test_an_interruption_leaves_only_the_part(server, tmp_path):
    def interrupt(here: int, _: int | None) -> None:
        if here:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get("cifar100", tmp_path, interrupt, url=server.url)
    assert tree(tmp_path) == ["cifar-100-python.tar.gz.part"]
    get("cifar100", tmp_path, url=server.url)
    assert tree(tmp_path) == WHOLE


def test_a_full_disk_is_not_blamed_on_the_network(server, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "copyfileobj", full)
    with pytest.raises(TailcloudError, match=rf"cannot write to {tmp_path}/: No space left on device"):
        get("cifar100", tmp_path, url=server.url)
    assert not (tmp_path / FOLDER).exists()


def test_a_root_that_cannot_be_a_folder(archive, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TailcloudError, match=r"cannot write to .*file/: File exists"):
        get("cifar100", tmp_path / "file")


def test_an_unknown_name(tmp_path):
    with pytest.raises(UsageError, match='there is no data set to download "cifar11"; did you mean "cifar1'):
        get("cifar11", tmp_path)
