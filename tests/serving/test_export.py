"""An exported model says what the original says, knows its classes, and is not written otherwise."""

import io
import json
import math
import os
from functools import partial

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import tailcloud
from helpers.small_models import NAMES, change, write_model
from tailcloud.backbones import BACKBONES, Backbone, ResNet, efficientnet_lite
from tailcloud.backbones.resnet import Block
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.heads import HEADS
from tailcloud.serving import export
from tailcloud.serving.export import FORMATS, batches, check_target, export_run, largest_difference, sample_images

pytestmark = pytest.mark.usefixtures("one_onnx_registry")

KINDS = {maker.func: name for name, maker in reversed(BACKBONES.items())}  # of each class, the smallest
IMAGES = np.random.default_rng(7).integers(0, 256, (9, 12, 10, 3), dtype=np.uint8)


class OneConvolution(Backbone):
    """As little as a head can have before it."""

    features = 16

    def __init__(self, *, channels, width):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, self.features, 3), nn.BatchNorm2d(self.features)

    def forward(self, images):
        return self.norm(self.conv(images)).relu().mean(dim=(2, 3))


def expected(folder, images=IMAGES):
    """softmax(scale · outputs / T), image by image, in float64."""
    about = json.loads((folder / "model.json").read_text())
    transform, calibration = about["transform"], about["calibration"]
    classifier = tailcloud.load(folder).classifier.double()
    rows = []
    for image in images:
        pixels = (image / 255 - np.array(transform["mean"])) / np.array(transform["std"])
        with torch.no_grad():
            outputs = classifier(torch.from_numpy(pixels.transpose(2, 0, 1)[None]))[0].tolist()
        powers = [math.exp(calibration["scale"] * output / calibration["temperature"]) for output in outputs]
        rows.append([power / sum(powers) for power in powers])
    return np.array(rows)


def in_onnxruntime(file):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return lambda images: session.run(["probabilities"], {"images": images})[0]


@pytest.fixture
def one_convolution(monkeypatch):
    monkeypatch.setitem(BACKBONES, "one-convolution", OneConvolution)
    return "one-convolution"


@pytest.fixture
def shallow(monkeypatch):
    """Large backbones with a few of their blocks, among them one of each kind."""
    monkeypatch.setattr(efficientnet_lite, "STAGES", efficientnet_lite.STAGES[:3])
    for name, maker in BACKBONES.items():
        if issubclass(maker.func, ResNet):
            monkeypatch.setitem(BACKBONES, name, partial(maker.func, Block, (1, 1, 1, 2)))


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_the_same_in_onnx(head, one_convolution, tmp_path):
    done = export_run(write_model(tmp_path, one_convolution, head), "onnx", images=IMAGES)
    assert done.difference < 1e-5
    assert done.file == tmp_path / "model.onnx"
    said = in_onnxruntime(done.file)(IMAGES)
    np.testing.assert_allclose(said, expected(tmp_path), atol=2e-4)
    assert np.ptp(said, axis=0).max() > 0.01, "a model that says the same of all images cannot show a mistake"


@pytest.mark.slow
@pytest.mark.parametrize("backbone", sorted(set(KINDS.values()) - {"resnet8"}))
def test_every_kind_of_backbone_is_the_same_in_onnx(backbone, shallow, tmp_path):
    done = export_run(write_model(tmp_path, backbone), "onnx", images=IMAGES)
    said = in_onnxruntime(done.file)(IMAGES)
    np.testing.assert_allclose(said, expected(tmp_path), atol=2e-4)
    assert np.ptp(said, axis=0).max() > 0.01


class ReadAgain(OneConvolution):
    """Maps that are changed in place through a view, and read afterwards."""

    def forward(self, images):
        maps = 4 * self.norm(self.conv(images))
        nn.functional.relu6(maps[:, 4:], inplace=True)
        return maps.mean(dim=(2, 3))


def test_what_is_changed_in_place_stays_changed(tmp_path, monkeypatch):
    monkeypatch.setitem(BACKBONES, "read-again", ReadAgain)
    export_run(write_model(tmp_path, "read-again"), "onnx", images=IMAGES)
    np.testing.assert_allclose(in_onnxruntime(tmp_path / "model.onnx")(IMAGES), expected(tmp_path), atol=2e-4)


@pytest.mark.parametrize("head", ["causal", "memory", "nearest-mean"])
@pytest.mark.parametrize("to", ["pt2", "safetensors"])
def test_unusual_heads_come_back_from_the_other_formats(to, head, one_convolution, tmp_path):
    done = export_run(write_model(tmp_path, one_convolution, head), to, images=IMAGES)
    said = FORMATS[to].open(done.file.read_bytes())(IMAGES)
    np.testing.assert_allclose(said, expected(tmp_path), atol=2e-4)


def test_a_class_that_is_never_predicted_stays_so(one_convolution, tmp_path):
    """The nearest mean of an absent class is infinitely far away."""
    folder = write_model(tmp_path, one_convolution, "nearest-mean")
    weights = load_file(folder / "model.safetensors")
    weights["head.means"][4] = math.inf
    save_file(weights, folder / "model.safetensors")
    done = export_run(folder, "onnx", images=IMAGES)
    assert (in_onnxruntime(done.file)(IMAGES)[:, 4] == 0).all()


def test_an_onnx_file_says_what_it_is_and_nothing_of_this_machine(one_convolution, tmp_path):
    done = export_run(write_model(tmp_path / "run", one_convolution), "onnx", images=IMAGES)
    model = onnx.load(str(done.file))
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(said["class_names"]) == NAMES
    assert (json.loads(said["size"]), said["fit"], said["channels"]) == ([12, 10], "crop", "3")
    assert float(said["temperature"]) == 1.7
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
    shape = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in shape] == [0, 12, 10, 3]
    assert shape[0].dim_param == "batch"
    for to in FORMATS:
        export_run(tmp_path / "run", to, tmp_path / "file", IMAGES, force=True)
        assert b"site-packages" not in (tmp_path / "file").read_bytes(), to
        assert str(tmp_path).encode() not in (tmp_path / "file").read_bytes(), to


def test_a_pt2_file_carries_its_facts(one_convolution, tmp_path):
    done = export_run(write_model(tmp_path, one_convolution), "pt2")
    said = {"class_names": "", "temperature": ""}
    program = torch.export.load(io.BytesIO(done.file.read_bytes()), extra_files=said)
    assert json.loads(said["class_names"]) == NAMES
    assert program.module()(torch.zeros(1, 12, 10, 3, dtype=torch.uint8)).shape == (1, 5)


def test_a_safetensors_file_describes_itself(tmp_path):
    done = export_run(write_model(tmp_path), "safetensors")
    assert done.file.name == "portable.safetensors", "model.safetensors is the run's own"
    with safe_open(done.file, framework="pt") as file:
        config = json.loads(file.metadata()["config"])
    assert config["class_names"] == NAMES
    assert config["architecture"]["backbone"] == "resnet8"
    assert config["calibration"] == {"scale": 10.0, "temperature": 1.7, "fitted_on": "val"}


@pytest.mark.parametrize("to", ["onnx", "pt2"])
def test_what_differs_is_not_written(to, one_convolution, tmp_path, monkeypatch):
    folder = write_model(tmp_path, one_convolution)
    right = export.PortableClassifier.forward
    monkeypatch.setattr(export.PortableClassifier, "forward", lambda self, images: right(self, 255 - images))
    with pytest.raises(TailcloudError, match=r"differs by .* from the original"):
        export_run(folder, to, images=IMAGES)
    assert sorted(file.name for file in folder.iterdir()) == ["model.json", "model.safetensors"]


def test_weights_that_are_not_numbers_are_not_written(tmp_path):
    folder = write_model(tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["head.weight"][0] = math.nan
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(TailcloudError, match="differs by nan"):
        export_run(folder, "safetensors")


def test_a_model_that_cannot_be_exported_gets_a_sentence(tmp_path, monkeypatch):
    class Branching(HEADS["cosine"]):
        def forward(self, features):
            return super().forward(features) if float(features.sum()) > 0 else features

    monkeypatch.setitem(HEADS, "branching", Branching)
    with pytest.raises(TailcloudError, match=r'head "branching", cannot be exported as onnx .* --to safetensors takes'):
        export_run(write_model(tmp_path, head="branching"), "onnx")
    assert not (tmp_path / "model.onnx").exists()
    assert export_run(tmp_path, "safetensors").difference < 1e-5


def test_nothing_is_replaced_unless_it_is_asked_for(tmp_path):
    folder = write_model(tmp_path / "run")
    export_run(folder, "safetensors")
    with pytest.raises(UsageError, match="exists already"):
        export_run(folder, "safetensors")
    assert export_run(folder, "safetensors", force=True).bytes > 0
    for name in ("model.safetensors", "model.json", "result.json", "checkpoint/stage1-60.safetensors"):
        with pytest.raises(UsageError, match="belongs to the run itself"):
            export_run(folder, "safetensors", folder / name, force=True)
    with pytest.raises(UsageError, match="is a folder"):
        export_run(folder, "safetensors", tmp_path, force=True)


def test_a_link_in_a_strangers_folder_leads_nowhere(tmp_path):
    """What the link points to stays as it is, with and without --force."""
    folder, treasure = write_model(tmp_path / "run"), tmp_path / "treasure"
    treasure.write_text("mine")
    (folder / "portable.safetensors").symlink_to(treasure)
    with pytest.raises(UsageError, match="exists already"):
        export_run(folder, "safetensors")
    export_run(folder, "safetensors", force=True)
    assert treasure.read_text() == "mine"


def test_a_record_that_asks_for_all_memory_is_refused(tmp_path):
    folder = write_model(tmp_path)
    change(folder, transform={"size": [10**6, 10**6], "fit": "crop", "mean": [0.4] * 3, "std": [0.2] * 3})
    with pytest.raises(TailcloudError, match="size"):
        export_run(folder, "onnx")


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_that_is_no_export_is_refused(content):
    with pytest.raises(TailcloudError, match="damaged, or was not exported"):
        FORMATS["safetensors"].open(content)


def test_the_check_sees_every_image_it_takes_in_several_batches():
    images = sample_images((4, 4, 1), np.arange(300 * 16, dtype=np.uint8).reshape(300, 4, 4, 1))
    assert [len(batch) for batch in batches(images)][:5] == [1, 2, 7, 32, 32]
    assert sum(map(len, batches(images))) == len(images) == 256
    assert len(sample_images((2048, 2048, 1))) == 3
    last = {"wrong": False}

    def other(batch):
        return np.full((len(batch), 2), 0.5) + 0.25 * last["wrong"] * (batch[:, 0, 0] == images[-1, 0, 0])

    assert largest_difference(other, other, images) == 0
    honest = lambda batch: np.full((len(batch), 2), 0.5)  # noqa: E731
    last["wrong"] = True
    assert largest_difference(honest, other, images) == 0.25


def test_an_exported_file_is_a_model_by_itself(tmp_path):
    file = export_run(write_model(tmp_path / "run"), "safetensors", tmp_path / "alone.safetensors").file
    one, other = tailcloud.load(file), tailcloud.load(tmp_path / "run")
    images = torch.from_numpy(IMAGES)
    torch.testing.assert_close(one.predict_proba(images), other.predict_proba(images))
    assert (one.class_names, one.fit, one.size) == (NAMES, "crop", (12, 10))


def test_a_file_of_another_format_is_refused(tmp_path):
    file = export_run(write_model(tmp_path), "safetensors").file
    file.write_bytes(file.read_bytes().replace(b'"format":"1"', b'"format":"7"'))
    with pytest.raises(TailcloudError, match="has format 7"):
        tailcloud.load(file)


@pytest.mark.parametrize(("classes", "allowed"), [(10, 1e-3), (100, 1e-3), (1_000, 1e-4), (5_000, 2e-5)])
def test_with_many_classes_less_difference_is_allowed(classes, allowed):
    assert export.tolerance(classes) == pytest.approx(allowed)


def test_a_difference_is_judged_by_the_number_of_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "largest_difference", lambda *_: 5e-4)
    run = write_model(tmp_path)
    assert export_run(run, "safetensors").difference == 5e-4
    monkeypatch.setattr(export, "SHARE_OF_CHANCE", 1e-3)  # as if the model had a hundred times as many classes
    with pytest.raises(TailcloudError, match=r"differs by 0\.0005 from the original, and no more than"):
        export_run(run, "safetensors", force=True)


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode != os.W_OK)
    with pytest.raises(UsageError, match=r"--out .*model.onnx cannot be written: you have no permission to write to"):
        check_target(tmp_path / "run", tmp_path / "model.onnx", force=False)
