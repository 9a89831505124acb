"""How fast one core turns JPEG files into training images: read, decode, resize to a square.

python benchmarks/jpeg_decoding.py [--images 48] [--budget 20] [--out benchmarks/results/decoding-cpu.json]

The files are made here, with the statistics of photographs: amplitudes that fall as 1/f, the same for all orientations,
colours that vary less than brightness. They are compressed as the large sets are, and read from the page cache, so that
the figure is of the processor and not of a disk. Real photographs differ by as much as their sizes in bytes do.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measurement import RESULTS, seconds, write_record
from numpy.typing import NDArray
from PIL import Image

from tailcloud.data.file_images import FileImages
from tailcloud.data.packed_names import Names

SIZES = {"imagenet-lt": (500, 375), "inat2018": (800, 600), "places-lt": (256, 256)}  # width, height
SIDE = 256  # a training image is kept in a square of this side
QUALITY = 90
CONTRAST, COLOUR = 55.0, 12.0  # deviations of brightness and of the two differences of colour, in 0 … 255


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=48, help="files of each size")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of each size")
    parser.add_argument("--out", type=Path, default=RESULTS / "decoding-cpu.json")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = [measure(name, size, options.images, options.budget) for name, size in SIZES.items()]
    for row in rows:
        print(f"{row['data']}: {row['images_per_second']:.0f} images a second and core, {row['bytes']:,.0f} bytes each")
    content = {"images": options.images, "side": SIDE, "quality": QUALITY, "rows": rows}
    write_record(options.out, content, torch.device("cpu"))


def measure(name: str, size: tuple[int, int], images: int, budget: float) -> dict[str, Any]:
    """Images a second of one core, for files of one size."""
    generator = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.jpg" for number in range(images)]
        for file in files:
            Image.fromarray(photograph(size, generator)).save(file, quality=QUALITY)
        there = FileImages(Path(folder), Names.of([file.name for file in files]), SIDE, "squash")
        best = seconds(lambda: [there.read(row) for row in range(images)], torch.device("cpu"), least=2, budget=budget)
        mean = sum(file.stat().st_size for file in files) / images
    return {"data": name, "width": size[0], "height": size[1], "bytes": mean, "images_per_second": images / best}


def photograph(size: tuple[int, int], generator: np.random.Generator) -> NDArray[np.uint8]:
    """Pixels [height, width, 3] whose amplitudes fall as 1/f: brightness, and weaker differences of colour."""
    light, red, blue = (deviation * clouds(size, generator) for deviation in (CONTRAST, COLOUR, COLOUR))
    channels = np.stack([128 + light + red, 128 + light - (red + blue) / 2, 128 + light + blue], axis=-1)
    return channels.clip(0, 255).astype(np.uint8)


def clouds(size: tuple[int, int], generator: np.random.Generator) -> NDArray[np.float64]:
    """A random field [height, width] with mean 0 and deviation 1."""
    width, height = size
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(generator.standard_normal((height, width))) / frequency
    field = np.fft.irfft2(spectrum, (height, width))
    return np.asarray(field / field.std(), np.float64)


if __name__ == "__main__":
    main()
