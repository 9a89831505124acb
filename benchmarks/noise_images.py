"""Random images in the files of real data sets, so that a speed can be measured on a machine without data."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from tailcloud.data.benchmarks.cifar import PIXELS, TEST_IMAGES, TRAIN_IMAGES
from tailcloud.data.benchmarks.cifar_files import CIFAR_EDITIONS


def write_cifar(name: str, root: Path) -> None:
    """CIFAR-10 or CIFAR-100 as its official binary files, with random pixels; the counts of classes are right."""
    edition, random = CIFAR_EDITIONS[name], np.random.default_rng(0)
    layout = next(layout for layout in edition.layouts if layout.binary)
    *train, test, names = layout.files
    folder = root / layout.folder
    folder.mkdir(parents=True)
    images = dict.fromkeys(train, TRAIN_IMAGES // len(train)) | {test: TEST_IMAGES}
    for file, count in images.items():
        records = random.integers(0, 256, (count, edition.label_bytes + PIXELS), np.uint8)
        records[:, edition.label_bytes - 1] = np.arange(count) % edition.classes
        records.tofile(folder / file)
    (folder / names).write_text("\n".join(f"class{number}" for number in range(edition.classes)) + "\n")


def write_arrays(path: Path, size: int, images: dict[str, int], classes: int) -> None:
    """An .npz file with random images of ``size`` pixels: so many for each split."""
    random, arrays = np.random.default_rng(0), {}
    for split, count in images.items():
        arrays[f"x_{split}"] = random.integers(0, 256, (count, size, size, 3), np.uint8)
        arrays[f"y_{split}"] = np.arange(count) % classes
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=False, **arrays)


def write_photographs(folder: Path, size: int, images: int, classes: int = 100) -> None:
    """JPEG files of about ``size`` pixels, by class: smooth random colours, which compress like photographs."""
    for number in range(classes):
        (folder / f"class{number}").mkdir(parents=True)

    def write(number: int) -> None:
        coarse = np.random.default_rng(number).integers(0, 256, (size // 8, size // 8, 3), np.uint8)
        image = Image.fromarray(coarse).resize((size, size + size // 4), Image.Resampling.BICUBIC)
        image.save(folder / f"class{number % classes}" / f"{number}.jpg", quality=90)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(images)))
