"""Methods that need more than a loss on one stream: trained, resumed bit for bit, compiled, and loaded again."""

import pytest
import torch

import tailcloud
from helpers.runs import SMALL, Interrupted, StopAfter, Watcher, losses_of, run, same_weights
from tailcloud.data import open_dataset
from tailcloud.errors import UsageError
from tailcloud.heads import HEADS
from tailcloud.recipe import load_recipe

METHODS = {
    "gcl-angular": ["stage1", "stage2"],
    "gcl-feature-noise": ["stage1", "stage2"],
    "bbn": ["stage1"],
    "hybrid-sc": ["stage1"],
    "hybrid-psc": ["stage1"],
    "oltr": ["stage1", "stage2"],
    "bcl": ["stage1"],
    "proco": ["stage1"],
}


def short_recipe(method, *settings):
    stages = {stage: {"epochs": 3} for stage in METHODS[method]}
    return load_recipe(
        f"digits-lt/{method}", [{"model": {"width": 0.25}, "engine": SMALL["engine"], **stages}, *settings]
    )


@pytest.mark.parametrize(
    ("method", "stage"), [(method, stage) for method, stages in METHODS.items() for stage in stages]
)
def test_a_run_broken_off_in_the_middle_resumes_bit_for_bit_and_predicts_the_same_when_loaded(tmp_path, method, stage):
    recipe = short_recipe(method)
    with pytest.raises(Interrupted):
        run(tmp_path / "broken", recipe, StopAfter(3 * METHODS[method].index(stage) + 2))
    results = [run(tmp_path / folder, recipe) for folder in ("broken", "whole")]
    assert same_weights(tmp_path / "broken", tmp_path / "whole")
    assert [part.name for part in results[1].stages] == METHODS[method]
    test = open_dataset("digits-lt").test
    likely = tailcloud.load(tmp_path / "whole").predict_proba(torch.from_numpy(test.images)).argmax(dim=1)
    accuracy = 100 * (likely == torch.from_numpy(test.labels)).double().mean().item()
    assert accuracy == pytest.approx(results[1].top1.last)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_compiled_steps_do_what_eager_ones_do(check_compiled, method):
    one_batch = {stage: {"batch": 400} for stage in METHODS[method]}
    check_compiled(lambda engine: short_recipe(method, one_batch, engine))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernels", ["plain", "auto"])
def test_a_graph_trains_it_as_eager_steps_do(tmp_path, method, kernels):
    losses = []
    for executor in ("eager", "graphed"):
        setting = {"engine": {"executor": executor, "kernels": kernels}}
        losses.append(losses_of(tmp_path / executor, short_recipe(method, setting), "cuda"))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("method", ["bbn", "hybrid-sc", "hybrid-psc"])
def test_the_second_stream_is_heard_from_the_second_epoch_on(tmp_path, method):
    losses = []
    for sampler in ("sqrt", "cb"):
        watcher = Watcher()
        run(tmp_path / sampler, short_recipe(method, {"stage1": {"second_sampler": sampler, "lr": 1e-30}}), watcher)
        losses.append([line["loss"] for line in watcher.lines])
    assert [a == pytest.approx(b, rel=1e-6) for a, b in zip(*losses, strict=True)][1:] == [False, False]


def test_settings_are_those_of_cross_entropy_but_for_what_the_method_is():
    plain = load_recipe("cifar10-lt/ce")
    for method in ("bbn", "hybrid-sc", "hybrid-psc"):
        recipe = load_recipe(f"cifar10-lt/{method}")
        own = {"objective": plain.stage1.objective, "second_sampler": None}
        assert recipe.stage1.model_copy(update=own) == plain.stage1
    assert load_recipe("cifar10-lt/oltr").stage1 == plain.stage1
    assert load_recipe("cifar10-lt/gcl-angular").stage2 == load_recipe("cifar10-lt/gcl").stage2


def test_published_constants():
    assert load_recipe("cifar10-lt/bbn").stage1.second_sampler.name == "reverse"
    assert load_recipe("cifar10-lt/bbn").model.backbone == "resnet32-two-branch"
    temperatures = [
        load_recipe(f"{data}/{method}").stage1.objective.options["temperature"]
        for method in ("hybrid-sc", "hybrid-psc")
        for data in ("cifar10-lt", "cifar100-lt")
    ]
    assert temperatures == [0.1, 0.1, 1.0, 0.1]
    oltr = load_recipe("cifar10-lt/oltr").stage2
    assert oltr.loss.options["scale"] == 16.0
    assert oltr.objective.options == {"weight": 0.01, "push": 0.01, "margin": 10.0}
    assert oltr.sampler.options == {"consecutive": 4}


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("ce", {"stage1": {"objective": "bbn", "second_sampler": "reverse"}}, "set model.branches = 2"),
        (
            "ce",
            {"stage1": {"objective": "contrastive", "second_sampler": "cb"}},
            'works with the head "contrastive", not',
        ),
        ("ce", {"stage1": {"objective": "memory"}}, 'works with the head "memory", not with "linear"'),
        ("gcl", {"stage1": {"objective": "feature-noise"}}, 'works with the head "linear" or'),
        ("bbn", {"stage1": {"mixup": 1.0}}, "does not support mixup"),
        ("hybrid-sc", {"stage1": {"objective": {"temperature": 0.0}}}, "temperature"),
        ("bbn", {"model": {"backbone": "resnt32"}}, 'did you mean "resnet32-two-branch"'),
        ("oltr", {"stage2": {"mixup": 0.5}}, "does not support mixup"),
        ("bbn", {"stage1": {"second_sampler": {"name": "en", "beta": 1.5}}}, "stage1.second_sampler: β must lie"),
    ],
)
def test_what_does_not_fit_together_is_said(name, setting, message):
    with pytest.raises(UsageError, match=message):
        load_recipe(f"digits-lt/{name}", [setting])


def test_a_head_from_outside_needs_no_class_of_ours(monkeypatch):
    monkeypatch.setitem(HEADS, "mine", type("Mine", (torch.nn.Linear,), {"cosine": False}))
    assert load_recipe("digits-lt/ce", [{"model": {"head": "mine"}}]).model.head == "mine"
    with pytest.raises(UsageError, match='not with "mine"'):
        load_recipe("digits-lt/gcl-feature-noise", [{"model": {"head": "mine"}}])
