"""Every method that re-balances a classifier trains on digits: saved, loaded, resumed and branched alike."""

import pytest
import torch
from safetensors.torch import load_file

import tailcloud
from helpers.runs import SMALL, Interrupted, StopAfter, Watcher, run, same_weights
from tailcloud.data import open_dataset
from tailcloud.recipe import load_recipe, resolve
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import fork_run
from tailcloud.serving.evaluate import evaluate_run
from tailcloud.training.loop import train
from tailcloud.training.session import Session
from tailcloud.training.stages.start import train_features

TRAINED = {"crt": "head.", "lws": "head.scale", "mislas": "head.", "disalign": "head.align."}
POST_HOC = ["tau-norm", "ncm", "logit-adjust-posthoc", "tde"]
METHODS = [*TRAINED, *POST_HOC]
HEADS = {
    "crt": "linear",
    "lws": "scaled-linear",
    "mislas": "scaled-linear",
    "disalign": "disalign-linear",
    "tau-norm": "linear",
    "ncm": "nearest-mean",
    "logit-adjust-posthoc": "linear",
    "tde": "causal",
}
SHORT = {"model": {"width": 0.25}, "stage1": {"epochs": 2}, "engine": SMALL["engine"]}


def short_recipe(method, *settings, data="digits-lt"):
    epochs = {"stage2": {"epochs": 2}} if method.split("+")[-1] in TRAINED else {}
    return load_recipe(f"{data}/{method}", [SHORT, epochs, *settings])


@pytest.fixture(scope="module", params=METHODS)
def finished(request, tmp_path_factory):
    folder, watcher = tmp_path_factory.mktemp("second") / request.param, Watcher()
    return request.param, folder, run(folder, short_recipe(request.param), watcher), watcher


def test_it_trains_and_loads_as_it_was(finished):
    method, folder, result, _ = finished
    assert [stage.name for stage in result.stages] == ["stage1", "stage2"]
    assert result.model.head == HEADS[method]
    again = evaluate_run(folder, open_dataset("digits-lt"), torch.device("cpu"))
    assert again["per_class"] == result.per_class
    assert again["ece"] == pytest.approx(result.ece)


def test_its_model_gives_probabilities(finished):
    _, folder, _, _ = finished
    images = torch.from_numpy(open_dataset("digits-lt").test.images[:9])
    probabilities = tailcloud.load(folder).predict_proba(images)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(9))


def test_its_second_stage_moves_what_it_says(finished):
    """Between two epochs of it; batch-norm statistics are no parameters."""
    method, folder, _, watcher = finished
    lines = [line["stage"] for line in watcher.lines]
    assert lines == ["stage1"] * 2 + ["stage2"] * (2 if method in TRAINED else 0)
    if method in TRAINED:
        paths = sorted((folder / "checkpoint").glob("stage2-*"))
        first, second = ({k: v for k, v in load_file(p).items() if k.startswith("model.")} for p in paths)
        moved = {k.removeprefix("model.") for k in first if not torch.equal(first[k], second[k])}
        weights = {name for name in moved if "running" not in name and "num_batches" not in name}
        assert weights
        assert all(name.startswith(TRAINED[method]) for name in weights)
        assert bool(moved - weights) == (method in {"crt", "lws"})


@pytest.mark.parametrize("method", TRAINED)
def test_it_resumes_in_the_middle_bit_for_bit(tmp_path, method):
    recipe = short_recipe(method)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(3))
    watcher = Watcher()
    run(tmp_path / "broken", recipe, watcher)
    assert [line["epoch"] for line in watcher.lines] == [2]
    run(tmp_path / "whole", recipe)
    assert same_weights(tmp_path / "broken", tmp_path / "whole")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "ce"
    run(folder, load_recipe("digits-lt/ce", [SHORT]))
    return RunFolder(folder)


def test_it_can_start_from_a_finished_first_stage(finished, plain, tmp_path):
    method, folder, _, _ = finished
    if method in {"mislas", "tde"}:
        pytest.skip("its first stage is not that of ce")
    child, recipe = RunFolder(tmp_path / "child"), short_recipe(method)
    fork_run(plain, child, recipe, "tailcloud rebalance")
    train(recipe, open_dataset("digits-lt"), child, torch.device("cpu"), Watcher())
    assert same_weights(child.path, folder)


def test_first_stages_are_shared():
    ce, mixed = (resolve({"method": name}) for name in ("ce", "ce-mixup"))
    for method in METHODS:
        recipe, parent = resolve({"method": method}), mixed if method == "mislas" else ce
        if method != "tde":
            assert (recipe.model, recipe.stage1) == (parent.model, parent.stage1)
        if method in POST_HOC:
            assert recipe.stage2.epochs == 0
            assert recipe.stage2.loss == recipe.stage1.loss


@pytest.mark.parametrize("method", [name for name in METHODS if name != "tde"])
def test_it_works_behind_a_cosine_head_too(tmp_path, method):
    result = run(tmp_path / "run", short_recipe(f"gcl+{method}"))
    assert result.model.head in {"cosine", "scaled-cosine", "disalign-cosine", "nearest-mean"}


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("cifar10-lt/mislas", (0.3, 0.0, 0.5, "frozen")),
        ("cifar10-lt/mislas-50", (0.2, 0.0, 0.2, "frozen")),
        ("cifar10-lt/mislas-10", (0.1, 0.0, 0.2, "frozen")),
        ("cifar100-lt/mislas", (0.4, 0.1, 0.2, "moving")),
        ("cifar100-lt/mislas-50", (0.3, 0.0, 0.1, "moving")),
        ("cifar100-lt/mislas-10", (0.2, 0.0, 0.1, "moving")),
    ],
)
def test_mislas_has_a_preset_for_each_data_set(name, preset):
    stage = load_recipe(name).stage2
    options = stage.loss.options
    found = (options["smooth_head"], options["smooth_tail"], stage.lr_factors["head.inner"], stage.batch_norm)
    assert found == preset
    assert (stage.epochs, stage.lr, stage.schedule, stage.sampler.name) == (10, 0.1, "cosine", "class-aware")


def test_the_drift_is_taken_off_after_training_alone(tmp_path):
    run(tmp_path, short_recipe("tde"))
    head = tailcloud.load(tmp_path).classifier.head
    before = load_file(sorted((tmp_path / "checkpoint").glob("stage1-*"))[-1])
    assert (before["model.head.alpha"], head.alpha) == (0, 1)
    assert torch.equal(before["model.head.mean"], head.mean)
    assert head.mean.norm() > 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", METHODS)
def test_a_graph_ends_where_eager_steps_do(tmp_path, method):
    for executor in ("eager", "graphed"):
        recipe = short_recipe(method, {"engine": {"executor": executor, "kernels": "plain"}})
        run(tmp_path / executor, recipe, device="cuda")
    assert same_weights(tmp_path / "eager", tmp_path / "graphed")


def test_features_are_computed_without_all_images_as_floats_at_once(two_batches_at_most):
    session = Session(short_recipe("ncm"), open_dataset("digits-lt"), torch.device("cpu"))
    images = session.images.train
    two_batches_at_most(images, 20)
    found, labels = train_features(session)
    assert len(found) == len(labels) == len(images.labels)
