"""Downloads CIFAR from its publisher, resumes, checks and unpacks it, and only then moves it into place."""

import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from shlex import quote
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tailcloud.data.benchmarks.cifar import find_copy, md5_sum
from tailcloud.data.benchmarks.cifar_files import CIFAR_EDITIONS, Layout
from tailcloud.errors import TailcloudError, unknown

# Called with the bytes that were downloaded, and with the total if the server sends it.
Progress = Callable[[int, int | None], None]

CHUNK, TIMEOUT = 2**18, 30.0  # bytes; seconds
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


def get(name: str, root: Path, progress: Progress = lambda *_: None, *, url: str | None = None) -> str:
    """Put the official files of CIFAR-10 or CIFAR-100 under ``root``; a sentence says what was done.

    An archive that is already in ``root`` is used without a network. ``url`` is another place that has the archive;
    the checksum is verified in any case. An interrupted download is continued by the next call.
    """
    if name not in CIFAR_EDITIONS:
        raise unknown("data set to download", name, CIFAR_EDITIONS)
    edition, copy = CIFAR_EDITIONS[name], find_copy(name, root)
    if copy and copy.is_published():
        return f"{edition.title} is already in {copy.folder}, and every file is as published."
    archive, again = root / edition.archive, f'run "tailcloud data get {name} --root {quote(str(root))}" again'
    try:
        root.mkdir(parents=True, exist_ok=True)
        given = archive.is_file()
        if not given:
            _download(url or edition.url, archive, edition.archive_sum, progress, again)
        elif (found := md5_sum(archive)) != edition.archive_sum:
            raise _wrong_sum(
                f"{archive} is not the published archive", found, edition.archive_sum, f"remove it and {again}"
            )
        _unpack(archive, edition.layouts[0], root)
        if not given:
            archive.unlink()
    except OSError as error:
        raise TailcloudError(f"cannot write to {root}/: {error.strerror or error}") from None
    return f"{edition.title} is now in {root / edition.layouts[0].folder}, and every file is as published."


def _download(url: str, archive: Path, expected: str, progress: Progress, again: str) -> None:
    part = archive.with_name(f"{archive.name}.part")
    way_out = f"{again} to continue, or download that file in another way and save it as {archive} first"
    _fetch(url, part, progress, way_out)
    if (found := md5_sum(part)) != expected:
        part.unlink()
        raise _wrong_sum(
            f"the file from {url} is not the published archive", found, expected, f"it was removed; {again}"
        )
    part.replace(archive)


def _wrong_sum(what: str, found: str, expected: str, way_out: str) -> TailcloudError:
    return TailcloudError(f"{what} (MD5 {found}, expected {expected}); {way_out}")


def _fetch(url: str, part: Path, progress: Progress, way_out: str) -> None:
    """Append the missing bytes to ``part``."""
    here = part.stat().st_size if part.is_file() else 0
    with _network_errors(url, way_out):
        response = _open(url, here)
    if response is None:
        return
    resumed = response.status == PARTIAL_CONTENT
    with response, part.open("ab" if resumed else "wb") as file:
        here = here if resumed else 0
        length = response.headers["Content-Length"]
        total = here + int(length) if length and length.isdigit() else None
        progress(here, total)
        for chunk in _chunks(response, url, way_out):
            file.write(chunk)
            here += len(chunk)
            progress(here, total)
    if total is not None and here < total:
        raise _cannot_download(url, f"the connection closed after {here:,} of {total:,} bytes", way_out)


def _open(url: str, start: int) -> HTTPResponse | None:
    """The answer from byte ``start`` on; None if the file has no more bytes than that."""
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code == RANGE_NOT_SATISFIABLE:
            return None
        raise
    return response


def _chunks(response: HTTPResponse, url: str, way_out: str) -> Iterator[bytes]:
    while True:
        with _network_errors(url, way_out):
            chunk = response.read(CHUNK)
        if not chunk:
            return
        yield chunk


@contextmanager
def _network_errors(url: str, way_out: str) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise _cannot_download(url, str(getattr(reason, "strerror", None) or reason), way_out) from None


def _cannot_download(url: str, reason: str, way_out: str) -> TailcloudError:
    return TailcloudError(f"cannot download {url} ({reason}); {way_out}")


def _unpack(archive: Path, layout: Layout, root: Path) -> None:
    with TemporaryDirectory(dir=root, prefix=f".{layout.folder}.") as temporary:
        fresh = Path(temporary, layout.folder)
        fresh.mkdir()
        try:
            _extract(archive, layout, fresh)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise TailcloudError(f"{archive} cannot be unpacked: {error}") from None
        _put(fresh, root / layout.folder)


def _extract(archive: Path, layout: Layout, target: Path) -> None:
    """Copy the contents of the expected files; links and permissions in the archive are ignored."""
    wanted = {f"{layout.folder}/{file}": target / file for file in layout.files}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() and member.name in wanted else None
            if content:
                with wanted.pop(member.name).open("wb") as file:
                    copyfileobj(content, file)
    if wanted:
        raise TailcloudError(f"{archive} cannot be unpacked: it lacks {', '.join(wanted)}")


def _put(fresh: Path, folder: Path) -> None:
    """Move the folder into place, or its files one by one if the folder already exists."""
    if not folder.exists():
        fresh.rename(folder)
        return
    for file in fresh.iterdir():
        file.replace(folder / file.name)
