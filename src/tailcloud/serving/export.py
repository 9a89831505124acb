"""Export a trained model to a file for other programs; it is written only if its probabilities agree."""

import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tailcloud.backbones.adapters import merged_weights
from tailcloud.classifier import Classifier, classifier_with_weights
from tailcloud.data import Split
from tailcloud.data.image_io import Pixels
from tailcloud.errors import TailcloudError, UsageError, plugin_sentence, unknown
from tailcloud.files import check_output, write_atomically
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import ModelFile, read_model_file
from tailcloud.serving.formats import FORMATS, Format, Predictor
from tailcloud.serving.load import load
from tailcloud.serving.portable import PortableClassifier

LARGEST_DIFFERENCE = 1e-3  # of a probability; rounding causes about 1e-6, a mistake far more
SHARE_OF_CHANCE = 0.1  # with many classes, no more than this share of 1 / classes: all probabilities are small then
MAX_IMAGES = 256
MAX_PIXELS = MAX_IMAGES * 64 * 64  # fewer images if they are large
BATCH_SIZES = (1, 2, 7, 32)


@dataclass(frozen=True)
class Export:
    """The exported file; ``difference`` is the largest difference of a probability to the original model."""

    file: Path
    bytes: int
    shape: tuple[int, int, int]
    classes: int
    difference: float
    images: int
    checker: str


def export_run(
    run: Path, to: str, out: Path | None = None, images: Pixels | None = None, *, force: bool = False
) -> Export:
    """Write the model of a run folder in the format ``FORMATS[to]``, by default into that folder.

    The file is compared with the original on ``images`` (uint8 [N, H, W, C] at the size of the model; random ones by
    default), and only written if all probabilities agree: to 0.001, or to a tenth of 1 / classes if that is less.
    ``force`` replaces an existing file.
    """
    form = format_of(to)
    model, model_file = load(run), read_model_file(RunFolder(run).model_file)
    target = check_target(run, out or run / form.file, force=force)
    sample = sample_images(model_file.image_shape, images)
    classifier, model_file = without_lora(model.classifier, model_file)
    content = _encoded(run, to, PortableClassifier(classifier, model_file), model_file)

    def original(batch: Pixels) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = model.predict_proba(torch.from_numpy(batch)).numpy()
        return probabilities

    difference = largest_difference(original, form.open(content), sample)
    allowed = tolerance(model_file.architecture.classes)
    if not difference <= allowed:  # also if it is NaN
        raise TailcloudError(
            f"{run} was not exported: in {form.checker} a probability differs by {difference:.2g} from the original, "
            f"and no more than {allowed:g} is allowed; try another format ({', '.join(sorted(FORMATS))})"
        )
    write_atomically(target, content)
    return Export(
        file=target,
        bytes=len(content),
        shape=model_file.image_shape,
        classes=model_file.architecture.classes,
        difference=difference,
        images=len(sample),
        checker=_checker(form),
    )


def tolerance(classes: int) -> float:
    """By how much a probability may differ in an exported model of so many classes."""
    return min(LARGEST_DIFFERENCE, SHARE_OF_CHANCE / classes)


def without_lora(classifier: Classifier, model_file: ModelFile) -> tuple[Classifier, ModelFile]:
    """The same model with LoRA merged into its weights, so that it costs no more than the plain network."""
    if model_file.architecture.adapter != "lora":
        return classifier, model_file
    plain = model_file.architecture.plain
    merged = classifier_with_weights(plain, merged_weights(classifier))
    return merged, model_file.model_copy(update={"architecture": plain})


def format_of(to: str) -> Format:
    """The format of that name; an error if the format is unknown or a package that it needs is missing."""
    if to not in FORMATS:
        raise unknown("export format", to, [*FORMATS, "card"])
    missing = [name for name in FORMATS[to].needs if not _installed(name)]
    if missing:
        raise TailcloudError(
            f"--to {to} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed; "
            f"run: pip install {' '.join(missing)}"
        )
    return FORMATS[to]


def check_target(run: Path, target: Path, *, force: bool) -> Path:
    """The target, if it may be written: an existing file needs ``force``, files of the run are never replaced."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder; pass a file with --out")
    run_files = (path.resolve() for path in vars(RunFolder(run)).values() if path != run)
    if any(target.resolve().is_relative_to(path) for path in run_files):
        raise UsageError(f"{target} belongs to the run itself and is never replaced; choose another file with --out")
    if os.path.lexists(target) and not force:
        raise UsageError(f"{target} exists already; add --force to replace it, or choose another file with --out")
    check_output("--out", target, folder=False)
    return target


def sample_images(shape: tuple[int, int, int], images: Pixels | None = None) -> Pixels:
    """Up to 256 evenly spaced images, or random images by default."""
    most = max(3, min(MAX_IMAGES, MAX_PIXELS // (shape[0] * shape[1])))
    if images is None:
        return np.random.default_rng(0).integers(0, 256, (most, *shape), dtype=np.uint8)
    positions = np.linspace(0, len(images) - 1, min(most, len(images))).astype(np.int64)
    return np.ascontiguousarray(images[positions])


def sample_split(split: Split) -> Pixels:
    """Up to 256 evenly spaced images of a split; other image files are not read."""
    wanted = min(MAX_IMAGES, len(split))
    images, _ = split.some(np.linspace(0, len(split) - 1, wanted).astype(np.int64))
    if not len(images):
        raise TailcloudError(f"none of {wanted} test images can be read")
    return images


def largest_difference(one: Predictor, other: Predictor, images: Pixels) -> float:
    """The largest difference of a probability, over batches of several sizes; NaN if one of them is NaN."""
    return float(np.max([np.abs(one(batch) - other(batch)).max() for batch in batches(images)]))


def batches(images: Pixels) -> Iterator[Pixels]:
    """Batches of 1, 2, 7 and then 32 images."""
    start, sizes = 0, iter(BATCH_SIZES)
    while start < len(images):
        size = next(sizes, BATCH_SIZES[-1])
        yield images[start : start + size]
        start += size


def _encoded(run: Path, to: str, model: PortableClassifier, model_file: ModelFile) -> bytes:
    try:
        return FORMATS[to].encode(model, model_file)
    except Exception as error:  # the packages do not document what they raise
        reason = plugin_sentence(error) or _first_cause(error)
        parts = f'backbone "{model_file.architecture.backbone}" and head "{model_file.architecture.head}"'
        raise TailcloudError(
            f"{run}, with {parts}, cannot be exported as {to} ({reason}); --to safetensors takes every model"
        ) from error


def _first_cause(error: BaseException) -> str:
    """The first line of the error that caused all others."""
    while error.__cause__:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _installed(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _checker(form: Format) -> str:
    version = getattr(importlib.import_module(form.checker), "__version__", torch.__version__)
    return f"{form.checker} {version}"
