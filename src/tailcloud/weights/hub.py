"""Weights files on the Hugging Face hub, through ``huggingface_hub``: its cache, tokens, proxies and locks.

Its temporary files are removed on any failure, so a file in the cache is complete.
"""

import errno
import logging
import re
import shutil
from pathlib import Path

from tailcloud.errors import TailcloudError
from tailcloud.weights.catalogue import CatalogueEntry, HubFile

ANSWER_SECONDS = 5.0  # for the first answer of the hub; without this request its own retries take 52 s
FROM_SCRATCH = "or pass --weights none to train from scratch"

logger = logging.getLogger(__name__)


def cached_file(source: HubFile) -> str | None:
    """The file in the cache; None if it is not there. No request is sent.

    If the pinned revision is not there, that of ``main`` is taken, if it has the pinned SHA-256.
    """
    from huggingface_hub import try_to_load_from_cache

    pinned = try_to_load_from_cache(source.repo, source.file, revision=source.revision)
    if isinstance(pinned, str):
        return pinned
    newest = try_to_load_from_cache(source.repo, source.file)
    return newest if isinstance(newest, str) and blob_digest(newest) == source.sha256 else None


def blob_digest(file: str) -> str | None:
    """The SHA-256 that the cache names a large file after; None for other files."""
    name = Path(file).resolve().name
    return name if re.fullmatch(r"[0-9a-f]{64}", name) else None


def revision_of(file: str) -> str | None:
    """The commit of a file in the cache, from its path."""
    name = Path(file).parent.name
    return name if re.fullmatch(r"[0-9a-f]{40}", name) else None


def cache_folder(source: HubFile) -> Path:
    """Where the cache has the files of this repository."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{source.repo.replace('/', '--')}"


def download(entry: CatalogueEntry, source: HubFile) -> str:
    """Download a weights file into the cache; size and licence are logged before.

    Raises:
        TailcloudError: it could not be downloaded; nothing is left of it.
    """
    from huggingface_hub import hf_hub_download

    size = size_on_hub(entry, source)
    logger.info(
        f"downloading the weights {entry.name}: {size / 1e6:.1f} MB, {entry.licence or 'licence unknown'}, from "
        f"{address(source)}"
    )
    check_space(entry, source, size)
    try:
        return hf_hub_download(source.repo, source.file, revision=source.revision)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(entry, source) from None
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise TailcloudError(
                f"the weights {entry.name} cannot be written to {cache_folder(source)} ({error.strerror}); set HF_HOME "
                "to a folder that you can write to"
            ) from None
        raise broken_off(entry, source, error) from None
    except Exception as error:  # of requests, httpx or Xet, depending on the version of huggingface_hub
        raise broken_off(entry, source, error) from None


def size_on_hub(entry: CatalogueEntry, source: HubFile) -> int:
    """The bytes of a file, asked of the hub once, without retries."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    try:
        url = hf_hub_url(source.repo, source.file, revision=source.revision)
        return get_hf_file_metadata(url, timeout=ANSWER_SECONDS).size or 0
    except Exception as error:  # of requests, httpx or httpx2, depending on the version of huggingface_hub
        raise TailcloudError(
            f"cannot download the weights {entry.name} from {address(source)} ({reason_of(error)}); on a machine with "
            f'a network run "tailcloud weights get {entry.name}" and copy {cache_folder(source)} to the same place '
            f"here, {FROM_SCRATCH}"
        ) from None


def check_space(entry: CatalogueEntry, source: HubFile, size: int) -> None:
    """Refuse a download that does not fit on the disk."""
    folder = cache_folder(source)
    existing = next(place for place in folder.absolute().parents if place.exists())
    if shutil.disk_usage(existing).free < size:
        raise disk_full(entry, source)


def remove(file: str) -> None:
    """Remove a file from the cache."""
    path = Path(file)
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def address(source: HubFile) -> str:
    """The web page of the repository."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{source.repo}"


def disk_full(entry: CatalogueEntry, source: HubFile) -> TailcloudError:
    """The sentence for a full disk."""
    return TailcloudError(
        f"the disk is full: the weights {entry.name} do not fit into {cache_folder(source)}; free some space, or set "
        "HF_HOME to a folder on another disk"
    )


def broken_off(entry: CatalogueEntry, source: HubFile, error: Exception) -> TailcloudError:
    """The sentence for a download that did not end."""
    return TailcloudError(
        f"the download of the weights {entry.name} from {address(source)} broke off ({reason_of(error)}); run "
        f'"tailcloud weights get {entry.name}" again, {FROM_SCRATCH}'
    )


def reason_of(error: Exception) -> str:
    """The first line of an error of the network."""
    if type(error).__name__ == "OfflineModeIsEnabled":
        return "HF_HUB_OFFLINE is set"
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
