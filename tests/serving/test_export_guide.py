"""docs/export.md, followed to the letter: its script gives what tailcloud gives."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

import tailcloud
from helpers.small_models import change, write_model
from tailcloud.data import open_dataset
from tailcloud.data.image_io import read_image, read_image_at_size, resize_image
from tailcloud.serving.export import export_run
from tailcloud.serving.portable import metadata

pytestmark = pytest.mark.usefixtures("one_onnx_registry")

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
SCRIPT = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL).group(1)


def classify(folder, *files):
    """What the script says about each file: probability and class."""
    (folder / "classify.py").write_text(SCRIPT)
    command = [sys.executable, "-I", "classify.py", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == list(files)
    return [(float(row[1]), row[2]) for row in rows]


def test_the_script_needs_neither_tailcloud_nor_torch():
    imports = [line for line in SCRIPT.splitlines() if "import" in line]
    assert imports == ["import json, math, sys, numpy, onnxruntime", "from PIL import Image, ImageOps"]


def test_the_script_knows_the_digits_of_a_run(finished_run, tmp_path):
    test = open_dataset("digits-lt").test.images[:3]
    export_run(finished_run, "onnx", tmp_path / "model.onnx", test)
    for index, image in enumerate(test):
        Image.fromarray(image[..., 0]).save(tmp_path / f"{index}.png")
    model = tailcloud.load(finished_run)
    sure, which = model.predict_proba(torch.from_numpy(test)).max(dim=1)
    said = classify(tmp_path, "0.png", "1.png", "2.png")
    assert [name for _, name in said] == [model.class_names[index] for index in which.tolist()]
    assert [value for value, _ in said] == pytest.approx(sure.tolist(), abs=1e-5)


def script_pixels(about, files):
    """The pixels that the script gives to the model, for each file."""
    seen = []

    class Session:
        def __init__(self, _):
            pass

        def get_modelmeta(self):
            return SimpleNamespace(custom_metadata_map=about)

        def run(self, _, inputs):
            seen.append(inputs["images"][0])
            return [np.ones((1, 5))]

    with (
        mock.patch.object(onnxruntime, "InferenceSession", Session),
        mock.patch.object(sys, "argv", ["classify.py", *map(str, files)]),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec(compile(SCRIPT, "docs/export.md", "exec"), {})
    return seen


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Fifty pictures of odd sizes, JPEG and PNG, turned in all ways."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(3)
    for number in range(50):
        height, width = random.integers(1, 300, 2).tolist()
        coarse = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        turned = Image.Exif()
        turned[0x0112] = 1 + number % 8
        file = folder / f"{number}.{('jpg', 'png')[number % 2]}"
        Image.fromarray(coarse).resize((width, height)).save(file, exif=turned)
    return sorted(folder.iterdir())


@pytest.mark.parametrize(("fit", "keep"), [("crop", 1.0), ("pad", 1.0), ("squash", 1.0), ("crop", 0.875)])
def test_the_script_reads_pictures_of_odd_sizes_to_the_pixel_as_tailcloud_does(fit, keep, pictures):
    size = (29, 32)  # at which rounding has ties
    model = SimpleNamespace(class_names=list("abcde"), weights=None, prior=None)
    model.transform = SimpleNamespace(size=list(size), fit=fit, keep=keep)
    model.architecture = SimpleNamespace(channels=3)
    model.calibration = SimpleNamespace(scale=1.0, temperature=1.0, fitted_on=None)
    for file, seen in zip(pictures, script_pixels(metadata(model), pictures), strict=True):
        assert np.array_equal(seen, read_image_at_size(file, 3, size, fit, keep)), file


@pytest.mark.parametrize("fit", ["crop", "pad", "squash"])
def test_the_script_brings_a_photo_to_size_as_tailcloud_does(fit, tmp_path):
    transform = {"size": [12, 16], "fit": fit, "mean": [0.4] * 3, "std": [0.2] * 3}
    folder = change(write_model(tmp_path), transform=transform, class_names=list("abcde"))
    pixels = np.random.default_rng(1).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(pixels).resize((40, 44)).save(tmp_path / "photo.png", exif=turned)
    export_run(folder, "onnx")
    image = resize_image(read_image(tmp_path / "photo.png", 3), (12, 16), fit)
    said = tailcloud.load(folder).predict_proba(torch.from_numpy(image[None].copy()))[0]
    ((probability, name),) = classify(tmp_path, "photo.png")
    assert probability == pytest.approx(said.max().item(), abs=1e-4)
    assert name == "abcde"[said.argmax()]
