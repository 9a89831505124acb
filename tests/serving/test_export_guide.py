"""docs/export.md, followed to the letter: its script gives what tailcloud gives."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tailcloud
from helpers.small_models import change, write_model
from tailcloud.data import open_dataset
from tailcloud.data.image_io import read_image, resize_image
from tailcloud.serving.export import export_run

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


def test_the_script_has_ten_lines_and_needs_neither_tailcloud_nor_torch():
    assert len(SCRIPT.splitlines()) == 10
    imports = [line for line in SCRIPT.splitlines() if "import" in line]
    assert imports == ["import json, sys, numpy, onnxruntime", "from PIL import Image, ImageOps"]


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
