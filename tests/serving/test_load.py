"""A trained model comes back as it was, from its folder alone."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

import tailcloud
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError
from tailcloud.serving.evaluate import evaluate_run


def test_the_module_comes_back_with_what_belongs_to_it(finished_run):
    model = tailcloud.load(finished_run)
    dataset = open_dataset("digits-lt")
    assert model.class_names == [str(digit) for digit in range(10)]
    assert model.counts == dataset.profile.counts.tolist()
    assert not model.training
    images = torch.from_numpy(dataset.test.images)
    logits = model(model.transform(images))
    result = json.loads((finished_run / "result.json").read_text())
    accuracy = (logits.argmax(dim=1).numpy() == dataset.test.labels).mean() * 100
    assert accuracy == pytest.approx(result["top1"]["last"])
    probabilities = model.predict_proba(images)
    torch.testing.assert_close(probabilities, logits.softmax(dim=1).detach())
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(len(images)))


def test_measuring_again_gives_the_figures_of_the_result(finished_run):
    measured = evaluate_run(finished_run, open_dataset("digits-lt"), torch.device("cpu"))
    result = json.loads((finished_run / "result.json").read_text())
    for key in ("top5", "many", "medium", "few", "per_class", "macro_f1", "ece", "balanced_accuracy"):
        assert measured[key] == pytest.approx(result[key]), key


def test_other_data_with_the_same_classes_is_measured_with_the_models_own_counts(finished_run):
    measured = evaluate_run(finished_run, open_dataset("digits-lt:1"), torch.device("cpu"))
    assert measured["few"] is not None


@pytest.mark.parametrize("damage", ["missing", "other model", "no weights"])
def test_a_damaged_model_is_refused_by_a_sentence(finished_run, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    if damage == "missing":
        (folder / "model.json").unlink()
    elif damage == "no weights":
        (folder / "model.safetensors").unlink()
    else:
        about = json.loads((folder / "model.json").read_text())
        about["architecture"]["classes"] = 7
        (folder / "model.json").write_text(json.dumps(about))
    with pytest.raises(TailcloudError, match="run"):
        tailcloud.load(folder)


@pytest.mark.parametrize("images", [torch.zeros(1, 8, 8, 1), torch.zeros(1, 1, 8, 8, dtype=torch.uint8)])
def test_images_of_the_wrong_kind_are_refused(finished_run, images):
    with pytest.raises(TailcloudError, match=r"uint8 tensor \[batch, height, width, 1\]"):
        tailcloud.load(finished_run).predict_proba(images)


def with_dtype(run, folder, dtype):
    shutil.copytree(run, folder)
    weights = load_file(folder / "model.safetensors")
    changed = {name: value.to(dtype) if value.is_floating_point() else value for name, value in weights.items()}
    save_file(changed, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 0.0), (torch.float16, 0.01), (torch.bfloat16, 0.05)])
def test_weights_of_another_precision_are_converted(finished_run, tmp_path, dtype, error):
    model, original = tailcloud.load(with_dtype(finished_run, tmp_path / "run", dtype)), tailcloud.load(finished_run)
    images = torch.from_numpy(open_dataset("digits-lt").test.images[:32])
    difference = (model.predict_proba(images) - original.predict_proba(images)).abs().max()
    assert difference <= error
    assert {value.dtype for value in model.parameters()} == {torch.float32}


def test_weights_that_are_no_real_numbers_are_refused(finished_run, tmp_path):
    with pytest.raises(TailcloudError, match="damaged model"):
        tailcloud.load(with_dtype(finished_run, tmp_path / "run", torch.complex64))
