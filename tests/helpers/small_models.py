"""Run folders with a model in them that nobody trained."""

import json
from dataclasses import asdict

import torch
from safetensors.torch import save_file

from tailcloud.classifier import Architecture, build_classifier
from tailcloud.heads import HEADS

NAMES = ['a "quoted" name', "two\nlines", "<script>alert(1)</script>", "[x](javascript:alert(1))", "Größe | ∞"]


def write_model(folder, backbone="resnet8", head="cosine", *, channels=3, size=(12, 10), temperature=1.7):
    """A folder from which ``tailcloud.load`` takes a model of five classes with random numbers everywhere."""
    folder.mkdir(parents=True, exist_ok=True)
    width = 1.0 if backbone.startswith("efficientnet") else 0.25  # its width is fixed
    architecture = Architecture(backbone, head, width, channels, len(NAMES))
    classifier = build_classifier(architecture, seed=3)
    generator = torch.Generator().manual_seed(5)
    for _ in range(30):  # batch norm gets to know its maps; otherwise deep networks let nothing through
        classifier.features(torch.randn(16, channels, *size, generator=generator))
    for name, value in classifier.state_dict().items():
        if "head" in name:
            value.copy_(torch.rand(value.shape, generator=generator) + 0.1)
    save_file(classifier.state_dict(), folder / "model.safetensors")
    about = {
        "format": 1,
        "architecture": asdict(architecture),
        "class_names": NAMES,
        "counts": [40, 20, 10, 5, 0],
        "transform": {"size": list(size), "fit": "crop", "mean": [0.4] * channels, "std": [0.2] * channels},
        "calibration": {"scale": 10.0 if HEADS[head].cosine else 1.0, "temperature": temperature, "fitted_on": "val"},
    }
    (folder / "model.json").write_text(json.dumps(about))
    return folder


def change(folder, **changes):
    """Another model.json."""
    file = folder / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return folder
