"""An average of runs: the mean of their logits, its record, and every run that does not fit."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
import torch
from recorded_results import result_recipe_text

import tailcloud
from helpers.runs import run, small_recipe
from helpers.tiny_vit import TinyViT, shake
from tailcloud.backbones import BACKBONES, efficientnet_lite
from tailcloud.classifier import Architecture, build_classifier, cost
from tailcloud.data import hold_out, open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.heads import HEADS
from tailcloud.runs.examples_file import KINDS, read_run_examples
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import read_model_file
from tailcloud.runs.trained_model import read_trained_model, weights_digest, write_trained_model
from tailcloud.serving.export import FORMATS, export_run

RESNET = Architecture("resnet8", "cosine", 0.25, 1, 10)
DIGITS = open_dataset("digits-lt")


def shaken(classifier, seed):
    """Random numbers in every weight."""
    generator = torch.Generator().manual_seed(seed)
    shake(classifier, generator)
    for name, value in classifier.named_buffers():
        if "running" in name or "mean" in name:
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
    return classifier


def write_run(path, finished, seed, architecture=None, **changes):
    """A run that is like a finished one, with other weights, and what else is said."""
    path.mkdir()
    for name in ("recipe.toml", "result.json", "log.jsonl"):
        shutil.copy(finished / name, path)
    model_file = read_model_file(finished / "model.json")
    architecture = architecture or model_file.architecture
    classifier = shaken(build_classifier(architecture, seed), seed)
    about = model_file.model_copy(update={"architecture": architecture} | changes)
    write_trained_model(RunFolder(path), classifier, about)
    return path


def write_similar(path, finished, seed):
    """A finished run whose weights are a little different."""
    shutil.copytree(finished, path)
    classifier, about = read_trained_model(RunFolder(path))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in classifier.parameters():
            parameter.mul_(1 + 0.1 * torch.randn(parameter.shape, generator=generator))
    write_trained_model(RunFolder(path), classifier, about)
    return path


def change_json(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.fixture
def members(tmp_path, finished_run):
    return [write_run(tmp_path / f"run{seed}", finished_run, seed) for seed in range(3)]


def mean_logits(folders, images):
    """Σ_m scale · outputs_m / M, in float64, by each member alone."""
    total = np.zeros((len(images), 10))
    for folder in folders:
        classifier, about = read_trained_model(RunFolder(folder))
        pixels = (images / 255.0 - np.array(about.transform.mean)) / np.array(about.transform.std)
        with torch.no_grad():
            outputs = classifier.double().eval()(torch.from_numpy(pixels.transpose(0, 3, 1, 2)))
        total += about.calibration.scale * outputs.numpy() / len(folders)
    return total


def logits_of(folder, images):
    model = tailcloud.load(folder).double()
    about = read_model_file(folder / "model.json")
    pixels = (images / 255.0 - np.array(about.transform.mean)) / np.array(about.transform.std)
    with torch.no_grad():
        return model(torch.from_numpy(pixels.transpose(0, 3, 1, 2))).numpy()


ARCHITECTURES = [
    *(Architecture("resnet8", head, 0.25, 1, 10) for head in HEADS),
    *(Architecture(f"resnet8-{kind}", "linear", 0.25, 1, 10) for kind in ("3-experts", "two-branch")),
    *(Architecture("tiny-vit", "cosine", 1.0, 1, 10, kind, 2) for kind in ("none", "lora", "adaptformer")),
    Architecture("efficientnet_lite0", "linear", 1.0, 1, 10),
    Architecture("resnet18", "linear", 0.125, 1, 10),
]


@pytest.mark.parametrize(
    "architecture", ARCHITECTURES, ids=lambda one: f"{one.backbone} {one.head} {one.adapter}".removesuffix(" none")
)
def test_the_logits_are_the_mean_of_those_of_the_members(tmp_path, monkeypatch, finished_run, architecture):
    monkeypatch.setitem(BACKBONES, "tiny-vit", TinyViT)
    monkeypatch.setattr(efficientnet_lite, "STAGES", efficientnet_lite.STAGES[:3])  # more let nothing through
    folders = [write_run(tmp_path / f"run{seed}", finished_run, seed, architecture) for seed in range(2)]
    tailcloud.average(folders, tmp_path / "average", device="cpu")
    images = DIGITS.test.images[:20]
    expected, found = mean_logits(folders, images), logits_of(tmp_path / "average", images)
    assert np.ptp(expected, axis=0).max() > 1e-6  # the images are told apart
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("one_onnx_registry")
@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("adapter", ["none", "lora"])
def test_an_exported_average_says_what_the_average_says(tmp_path, monkeypatch, finished_run, to, adapter):
    monkeypatch.setitem(BACKBONES, "tiny-vit", TinyViT)
    architecture = RESNET if adapter == "none" else Architecture("tiny-vit", "cosine", 1.0, 1, 10, "lora", 2)
    folders = [write_run(tmp_path / f"run{seed}", finished_run, seed, architecture) for seed in range(2)]
    tailcloud.average(folders, tmp_path / "average", device="cpu")
    images = DIGITS.test.images[:40]
    powers = np.exp(mean_logits(folders, images))
    content = export_run(tmp_path / "average", to, images=images).file.read_bytes()
    found = FORMATS[to].open(content)(images)
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), atol=1e-5)


def test_the_result_has_what_was_measured_and_where_it_is_from(tmp_path, members):
    result = tailcloud.average(members, tmp_path / "average", device="cpu")
    assert result == RunFolder(tmp_path / "average").result()
    right = mean_logits(members, DIGITS.test.images).argmax(axis=1) == DIGITS.test.labels
    assert result.top1.last == pytest.approx(100 * right.mean())
    assert result.per_class[3] == pytest.approx(100 * right[DIGITS.test.labels == 3].mean())
    assert [(one.run, one.sha256) for one in result.model.members] == [
        (str(folder), weights_digest(RunFolder(folder))) for folder in members
    ]
    assert result.model.members[0].top1 == RunFolder(members[0]).result().top1.last
    price = cost(RESNET, 8, 8)
    assert (result.model.parameters, result.model.flops) == (3 * price.parameters, 3 * price.flops)
    assert (result.method, result.protocol.seed, result.stages) == ("average of 3 runs of gcl", None, [])
    assert result.dataset.fingerprint == DIGITS.fingerprint
    assert RunFolder(tmp_path / "average").recipe() == RunFolder(members[0]).recipe()
    assert result.command.startswith(f"tailcloud average {members[0]}")
    assert RunFolder(tmp_path / "average").command() == result.command
    assert "average of 3 runs of gcl" in (tmp_path / "average" / "report.html").read_text()


def test_the_report_shows_what_the_average_confuses(tmp_path, members):
    result = tailcloud.average(members, tmp_path / "average", device="cpu")
    predicted = mean_logits(members, DIGITS.test.images).argmax(axis=1)
    pairs = zip(DIGITS.test.labels.tolist(), predicted.tolist(), strict=True)
    assert {(true, found): count for true, found, count in result.confusion} == Counter(pairs)
    examples = read_run_examples(tmp_path / "average" / "examples.safetensors", 10)
    confident = examples.kind == KINDS.index("confident")
    assert (examples.true[confident] != examples.predicted[confident]).all()
    page = (tmp_path / "average" / "report.html").read_text()
    assert "Confusion" in page
    assert "data:image/png" in page


def test_an_average_of_runs_without_examples_has_none(tmp_path, members):
    recipe = members[0] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("examples = true", "examples = false"))
    tailcloud.average(members, tmp_path / "average", device="cpu")
    assert not (tmp_path / "average" / "examples.safetensors").exists()


def test_an_average_fills_no_cell_of_a_table_of_single_runs(tmp_path, members):
    result = tailcloud.average(members, tmp_path / "average", device="cpu")
    assert result.recipe == RunFolder(members[0]).result().recipe
    assert result_recipe_text(RunFolder(members[0]).result())
    assert result_recipe_text(result) is None


@pytest.fixture(scope="module")
def held_out_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("held-out") / "run"
    run(folder, small_recipe({"selection": {"split": 0.2}}))
    return folder


def test_the_temperature_is_fitted_on_the_held_out_images_for_the_average_itself(tmp_path, held_out_run):
    folders = [write_similar(tmp_path / f"run{seed}", held_out_run, seed) for seed in range(2)]
    result = tailcloud.average(folders, tmp_path / "average", device="cpu")
    about = read_model_file(tmp_path / "average" / "model.json")
    val = hold_out(DIGITS, 0.2).val
    assert (about.calibration.fitted_on, result.calibrated.images) == ("val", len(val))
    logits, shares = mean_logits(folders, val.images), np.maximum(np.bincount(val.labels, minlength=10), 0.5)
    shift = np.log(shares / shares.sum()) - np.log(about.prior)

    def loss(temperature):
        scores = logits / temperature + shift
        chosen = scores[np.arange(len(val)), val.labels]
        return (np.log(np.exp(scores).sum(axis=1)) - chosen).mean()

    fitted = about.calibration.temperature
    assert about.calibration.temperature == result.calibrated.temperature
    assert loss(fitted) < min(loss(fitted * 1.05), loss(fitted / 1.05))


def test_without_held_out_images_the_temperature_is_1_and_not_fitted(tmp_path, members):
    tailcloud.average(members, tmp_path / "average", device="cpu")
    calibration = read_model_file(tmp_path / "average" / "model.json").calibration
    assert (calibration.temperature, calibration.fitted_on) == (1.0, None)


def test_a_run_of_other_data_is_a_remark_and_nothing_is_fitted(tmp_path, held_out_run):
    folders = [write_run(tmp_path / f"run{seed}", held_out_run, seed) for seed in range(2)]
    change_json(folders[1] / "result.json", lambda content: content["dataset"].update(fingerprint="0123"))
    result = tailcloud.average(folders, tmp_path / "average", device="cpu")
    assert f"{folders[1]} was trained on other data (digits-lt, fingerprint 0123)" in result.remarks[0]
    assert result.top1.last is not None
    assert read_model_file(tmp_path / "average" / "model.json").calibration.fitted_on is None


def test_without_its_data_an_average_is_made_and_not_measured(tmp_path, members):
    recipe = members[0] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('"digits-lt"', '"photos"'))
    result = tailcloud.average(members, tmp_path / "average", device="cpu")
    assert (result.top1.last, result.calibrated) == (None, None)
    assert "neither measured nor calibrated: photos, with the images of" in result.remarks[-1]
    assert "does not exist" in result.remarks[-1]
    images = DIGITS.test.images[:5]
    np.testing.assert_allclose(logits_of(tmp_path / "average", images), mean_logits(members, images), atol=1e-9)
    assert "neither measured nor calibrated" in (tmp_path / "average" / "report.html").read_text()


def weights_of(name):
    return {"name": name, "source": "hub", "sha256": name * 20}


OTHER_MODEL_FILES = {
    "classes, and .*run0 has 10": lambda one: one.update(class_names=[*one["class_names"], "x"]) or longer(one),
    "has the same classes as .*run0 in another order": lambda one: one["class_names"].reverse(),
    'other classes than .*run0: number 2 is "x", not "1"': lambda one: one["class_names"].__setitem__(1, "x"),
    "has images .* of 9 × 8 × 1, and .*run0 has 8 × 8 × 1": lambda one: one["transform"].update(size=[9, 8]),
    "has data.fit pad, and .*run0 has squash": lambda one: one["transform"].update(fit="pad"),
    "a kept share of images of 0.875, and": lambda one: one["transform"].update(keep=0.875),
    "outputs with the scale 7, and .*run0 has 20": lambda one: one["calibration"].update(scale=7.0),
    r"normalises images by mean \(0.5\)": lambda one: one["transform"].update(mean=[0.5]),
    "assume different class frequencies": lambda one: one.update(prior=[0.19, 0.01, *[0.1] * 8]),
    "the pretrained weights other .*, and .*run0 has none": lambda one: one.update(weights=weights_of("other")),
}


def longer(about):
    """One class more everywhere."""
    about["architecture"]["classes"] += 1
    about["counts"].append(1)
    about["prior"].append(0.1)


@pytest.mark.parametrize("sentence", OTHER_MODEL_FILES)
def test_a_run_with_another_model_file_is_refused(tmp_path, members, sentence):
    change_json(members[1] / "model.json", OTHER_MODEL_FILES[sentence])
    if "classes, and" in sentence:
        about = read_model_file(members[1] / "model.json")
        write_trained_model(RunFolder(members[1]), build_classifier(about.architecture, 0), about)
    with pytest.raises(UsageError, match=f"{sentence}.*; average runs that differ in their seed only"):
        tailcloud.average(members, tmp_path / "average", device="cpu")
    assert not (tmp_path / "average").exists()


@pytest.mark.parametrize(
    ("architecture", "sentence"),
    [
        (Architecture("resnet20", "cosine", 0.25, 1, 10), "has the backbone resnet20, and .*run0 has resnet8"),
        (Architecture("resnet8", "linear", 0.25, 1, 10), "has the head linear, and .*run0 has cosine"),
        (Architecture("resnet8", "cosine", 0.5, 1, 10), "has the width 0.5, and .*run0 has 0.25"),
    ],
)
def test_another_network_is_refused(tmp_path, finished_run, architecture, sentence):
    folders = [
        write_run(tmp_path / "run0", finished_run, 0),
        write_run(tmp_path / "run1", finished_run, 1, architecture),
    ]
    with pytest.raises(UsageError, match=sentence):
        tailcloud.average(folders, tmp_path / "average", device="cpu")


def test_a_prior_that_is_nearly_the_same_is_taken(tmp_path, members):
    change_json(members[1] / "model.json", lambda one: one.update(prior=[0.102, 0.098, *[0.1] * 8]))
    tailcloud.average(members, tmp_path / "average", device="cpu")
    prior = np.array(read_model_file(tmp_path / "average" / "model.json").prior)
    expected = np.cbrt([0.102 * 0.01, 0.098 * 0.01, *[0.001] * 8])
    np.testing.assert_allclose(prior, expected / expected.sum())


def test_the_same_run_twice_and_a_copy_of_it_are_refused(tmp_path, members):
    with pytest.raises(UsageError, match="run0 is given twice; give every run once"):
        tailcloud.average([members[0], members[1], members[0]], tmp_path / "average")
    shutil.copytree(members[0], tmp_path / "copy")
    with pytest.raises(UsageError, match=r"copy has those of .*run0; give every run once"):
        tailcloud.average([members[0], tmp_path / "copy"], tmp_path / "average")


def test_a_path_in_the_place_of_a_list_of_runs_is_a_sentence(tmp_path):
    with pytest.raises(
        UsageError, match=r'runs = "runs/seed0" should be a list of run folders; write \["runs/seed0"\]'
    ):
        tailcloud.average("runs/seed0", tmp_path / "average")


def test_an_average_of_averages_and_of_one_run_are_refused(tmp_path, members):
    tailcloud.average(members[:2], tmp_path / "average", device="cpu")
    with pytest.raises(UsageError, match="is an average already; give the runs that it was made of"):
        tailcloud.average([tmp_path / "average", members[2]], tmp_path / "other")
    with pytest.raises(UsageError, match="an average needs 2 to 99 runs, not 1"):
        tailcloud.average(members[:1], tmp_path / "other")


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("result.json", "holds no finished run; continue it with"),
        ("model.json", "holds no trained model: its run is not finished"),
        ("model.safetensors", r"model\.safetensors is missing"),
    ],
)
def test_a_run_that_is_not_whole_is_refused(tmp_path, members, file, sentence):
    (members[1] / file).unlink()
    with pytest.raises(TailcloudError, match=sentence):
        tailcloud.average(members, tmp_path / "average")
    assert not (tmp_path / "average").exists()


def test_a_folder_that_is_not_empty_stays_as_it_is(tmp_path, members):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    for out in (tmp_path / "full", members[0]):
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        with pytest.raises(TailcloudError, match=r"is not empty and holds no run|already holds a run"):
            tailcloud.average(members, out)
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
