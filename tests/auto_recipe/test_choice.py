from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.photos import photos
from tailcloud.auto_recipe import choose as choose_any
from tailcloud.auto_recipe import parse_budget
from tailcloud.auto_recipe.time_budget import BudgetedDraft, TimeBudget, budget_text
from tailcloud.auto_recipe.timing import RESERVE, StepTiming
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe

CPU = torch.device("cpu")


SCRATCH = {"model": {"weights": "none"}}


def choose(dataset, device, budget=None, asked=()):
    """The choice for a network from scratch; test_pretrained_ladder.py has the other."""
    return choose_any(dataset, device, budget, [SCRATCH, *asked])


def recipe_of(dataset, choice, *asked):
    return load_recipe(None, [choice.settings, *asked])


def test_a_fast_machine_trains_the_whole_plan(timing):
    timing(1e-6)
    dataset = photos([400, 300, 100, 20])
    choice = choose(dataset, CPU)
    recipe = recipe_of(dataset, choice)
    assert (recipe.model.backbone, recipe.data.size) == ("resnet32", 32)
    assert (recipe.stage1.epochs, recipe.stage2.epochs, recipe.stage1.batch) == (200, 30, 64)
    assert (recipe.augment.crop_padding, recipe.selection.split) == (4, 0.1)
    assert "more are not needed for these data" in " ".join(choice.reasons)


def test_a_choice_is_an_ordinary_recipe(timing, tmp_path):
    timing(1e-3)
    dataset = photos([400, 300, 100, 20])
    recipe = recipe_of(dataset, choose(dataset, CPU))
    (tmp_path / "mine.toml").write_text(recipe.to_toml())
    assert load_recipe(str(tmp_path / "mine.toml")) == recipe


@pytest.mark.slow
def test_short_time_takes_smaller_models_then_smaller_images_then_fewer_epochs(timing):
    tried = timing(1e-3)
    dataset = photos([400, 300, 100, 20], side=64)
    chosen = []
    for budget in (4000, 200, 50, 20):
        tried.clear()
        choice = choose(dataset, CPU, budget)
        recipe = recipe_of(dataset, choice)
        assert choice.seconds <= budget
        chosen.append((recipe.model.backbone, recipe.data.size))
        assert tried[-1] == chosen[-1]
    assert chosen == [("resnet32", 64), ("resnet20", 64), ("resnet8", 64), ("resnet8", 32)]
    slower = "5 larger candidates, from resnet32 at 64 pixels to resnet20 at 32 pixels, do not fit into 20.0 s"
    assert f"{slower}; chosen: resnet8 at 32 pixels." in [
        text.replace("\N{NO-BREAK SPACE}", " ") for text in choice.reasons
    ]


def test_a_budget_that_is_too_small_is_refused(timing):
    timing(1e-1)
    dataset = photos([400, 300, 100, 20])
    with pytest.raises(UsageError, match=r"10\.0.s is too short .* the least that makes sense is 9m"):
        choose(dataset, CPU, 10.0)
    assert recipe_of(dataset, choose(dataset, CPU, 540.0)).stage1.epochs >= 30


def test_a_little_too_long_is_tolerated_and_said(timing):
    timing(1e-1)
    dataset = photos([400, 300, 100, 20])
    choice = choose(dataset, CPU, 470.0)
    assert recipe_of(dataset, choice).stage1.epochs == 30
    assert 470 < choice.seconds < 1.15 * 470
    assert any("fewer than 30 epochs would train too little" in reason for reason in choice.reasons)


def test_what_is_asked_for_is_not_chosen(timing):
    tried = timing(1e-3)
    dataset = photos([400, 300, 100, 20])
    asked = {"model": {"backbone": "resnet20"}, "augment": {"flip": False}, "stage1": {"epochs": 7}}
    choice = choose(dataset, CPU, 60.0, [asked])
    recipe = recipe_of(dataset, choice, asked)
    assert (recipe.model.backbone, recipe.augment.flip, recipe.stage1.epochs) == ("resnet20", False, 7)
    assert tried == [("resnet20", 32)]
    assert not any("lips" in reason for reason in choice.reasons)


def test_a_method_of_one_stage_gets_no_second_one(timing):
    timing(1e-5)
    dataset = photos([400, 20])
    choice = choose(dataset, CPU, None, [{"method": "ce"}])
    assert "stage2" not in choice.settings
    assert recipe_of(dataset, choice, {"method": "ce"}).stage1.epochs == 200


@pytest.mark.parametrize(
    ("counts", "budget", "asked", "method"),
    [
        ([400, 300, 100, 20], 6000, {}, "gcl"),  # all epochs fit
        ([400, 300, 100, 20], 60, {}, "logit-adjust-posthoc"),  # few do
        ([400, 300, 100, 20], 60, {"method": "gcl"}, "gcl"),
        ([400, 300, 100, 20], 60, {"stage2": {"sampler": "sqrt"}}, "gcl"),
        ([400, 300, 100, 20], 60, {"augment": {"flip": False}}, "logit-adjust-posthoc"),
        ([200, 200, 200, 200], 60, {}, "gcl"),  # nothing to re-balance
    ],
)
@pytest.mark.parametrize("seconds", [1e-3, 1e-2])  # the machine does nothing else, or much
def test_little_time_takes_the_fallback_method(timing, counts, budget, asked, method, seconds):
    timing(seconds)
    dataset = photos(counts)
    choice = choose(dataset, CPU, budget, [asked])
    recipe = recipe_of(dataset, choice, asked)
    assert recipe.method == method
    assert any("Logit-adjusted cross-entropy instead of GCL" in reason for reason in choice.reasons) == (
        method != "gcl"
    )
    if method != "gcl":
        assert [stage.head_transform.name for stage in recipe.stages.values()] == [
            "keep",
            "logit-adjust",
            "tuned-logit-adjust",
        ]
        assert recipe.stage1.mixup == 0


def test_the_fallback_method_is_timed_itself(monkeypatch):
    timings = {"gcl": 1e-2, "logit-adjust-posthoc": 5e-3}

    def measured(recipe, *_):
        return StepTiming(dict.fromkeys(recipe.stages, timings[recipe.method]), 0.0, 0.0)

    monkeypatch.setattr("tailcloud.auto_recipe.time_budget.time_recipe", measured)
    dataset = photos([400, 300, 100, 20])  # 738 of them are trained on
    epochs = recipe_of(dataset, choose(dataset, CPU, 200.0)).stage1.epochs
    assert 40 < epochs <= 200 / (738 * 5e-3)  # at the speed of gcl it would be 30, the minimum


def test_short_trainings_mix_less(timing):
    timing(1e-5)
    assert choose(photos([400, 20]), CPU).settings["stage1"]["mixup"] == 0.4
    assert "mixup" not in choose(photos([2000, 300], side=8), CPU).settings["stage1"]
    assert "mixup" not in choose(photos([400, 20]), CPU, None, [{"method": "ce"}]).settings["stage1"]


def test_balanced_data_need_no_second_stage(timing):
    timing(1e-5)
    choice = choose(photos([60, 50]), CPU)
    assert choice.settings["stage2"]["epochs"] == 0
    assert "No second stage: with an imbalance ratio of 1.2 no class is rare." in choice.reasons


CORRECTED = "A third stage corrects the re-balancing on the held-out images."


@pytest.mark.parametrize(
    ("counts", "val", "asked", "corrected"),
    [
        ([400, 300, 100, 20], 0, {}, True),
        ([300, 20], 10, {}, True),
        ([300, 20], 0, {"selection": {"split": 0.2}}, True),
        ([400, 300, 100, 20], 0, {"method": "lws"}, True),
        ([300, 20], 0, {}, False),  # nothing is held out
        ([300, 20], 9, {}, False),  # or too few to fit anything on
        ([3] * 150 + [1] * 100, 0, {}, False),  # or no class has one to spare
        ([4] * 19 + [3] * 150 + [1] * 100, 0, {}, False),  # or so few of them
        ([400, 300, 100, 20], 0, {"selection": {"split": 0.0}}, False),
        ([400, 300], 0, {}, False),  # no second stage
        ([400, 300, 100, 20], 0, {"stage2": {"epochs": 0}}, False),
        ([400, 300, 100, 20], 0, {"method": "ce"}, False),
        ([400, 300, 100, 20], 0, {"method": "tau-norm"}, False),  # a second stage that trains nothing
        ([400, 300, 100, 20], 0, {"method": "disalign"}, False),  # a head that has no place for it
    ],
)
def test_a_second_stage_is_corrected_where_images_are_held_out(timing, counts, val, asked, corrected):
    timing(1e-5)
    dataset = photos(counts, val=val, side=8)
    choice = choose(dataset, CPU, None, [asked])
    recipe = recipe_of(dataset, choice, asked)
    assert (recipe.stage3 is not None) == (CORRECTED in choice.reasons) == corrected
    if corrected:
        assert (recipe.stage3.head_transform.name, recipe.stage3.epochs) == ("tuned-logit-adjust", 0)
        assert recipe.stage3.loss == recipe.stage2.loss


def test_a_stage_without_epochs_takes_no_time_to_make_ready_and_is_not_among_the_epochs(timing):
    timing(1e-6)
    dataset = photos([400, 300, 100, 20])
    choice = choose(dataset, CPU)
    recipe = recipe_of(dataset, choice)
    assert recipe.stage3.epochs == 0
    assert any(reason.startswith("200 + 30 epochs, about ") for reason in choice.reasons)
    times = [
        StepTiming({"stage1": 0.0, "stage2": 0.0, "stage3": 0.0}, 0.0, ready).seconds(recipe, 1, 1) for ready in (0, 10)
    ]
    assert times[1] - times[0] == pytest.approx(2 * 10 * (1 + RESERVE))


def test_a_third_stage_that_is_asked_for_is_not_chosen(timing):
    timing(1e-5)
    dataset, asked = photos([400, 300, 100, 20], side=8), {"stage3": {"head_transform": "keep"}}
    choice = choose(dataset, CPU, None, [asked])
    assert CORRECTED not in choice.reasons
    assert recipe_of(dataset, choice, asked).stage3.head_transform.name == "keep"


@pytest.mark.parametrize(
    ("counts", "val", "split"),
    [([300, 300], 0, 0.1), ([300, 300], 5, 0.0), ([300, 20], 0, 0.0), ([3] * 150 + [1] * 100, 0, 0.0)],
)
def test_validation_images_are_held_out_where_there_are_enough(timing, counts, val, split):
    timing(1e-5)
    assert choose(photos(counts, val=val), CPU).settings["selection"]["split"] == split


def test_a_first_stage_without_epochs_is_timed_too():
    choice = choose(photos([30, 10, 2], side=8), CPU, 30.0, [{"stage1": {"epochs": 0}}])
    assert (choice.settings["stage1"]["epochs"], choice.settings["selection"]["every"]) == (0, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_machine_is_really_timed(channels):
    """One real measurement: nothing about threads or the data is left changed."""
    threads, dataset = torch.get_num_threads(), photos([30, 10, 2], side=8, channels=channels)
    before = dataset.fingerprint
    choice = choose(dataset, CPU, 30.0)
    assert torch.get_num_threads() == threads
    assert replace(dataset).fingerprint == before
    assert 0 < choice.seconds <= 30


@settings(max_examples=25, deadline=None)
@given(wanted=st.integers(1, 300), each=st.floats(1e-6, 1.0), left=st.floats(0, 1e5), images=st.integers(10, 10_000))
def test_as_many_epochs_as_fit_and_not_one_more(wanted, each, left, images):
    class Draft:
        def recipe(self, epochs, every):
            return load_recipe("digits-lt/ce", [{"stage1": {"epochs": epochs}, "selection": {"every": every}}])

    draft = Draft()
    draft.most_epochs, draft.images, draft.evaluated_images = wanted, images, 10
    fitted = BudgetedDraft(draft, StepTiming({"stage1": each}, each, 0.0), TimeBudget(left, 0.0), left)
    epochs = fitted.affordable_epochs
    assert 0 <= epochs <= wanted
    assert epochs == 0 or fitted.seconds(epochs) <= left
    assert epochs == wanted or fitted.seconds(epochs + 1) > left


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1s"), (119.2, "120s"), (121, "3m"), (180, "3m"), (181, "4m")])
def test_a_budget_that_is_named_is_rounded_up(seconds, text):
    assert budget_text(seconds) == text
    assert parse_budget(text) >= seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("1.5h", 5400), ("1h30m", 5400), ("0.5s", 0.5), ("1000h", 3_600_000)],
)
def test_budgets_are_read_as_people_write_them(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "10m5", "-3s", "0s", "1e9h", "10 m", "9999h"])
def test_other_budgets_are_refused(text):
    with pytest.raises(UsageError, match="--time-budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("counts", "val", "asked", "stage"),
    [
        ([400, 300, 100, 20], 0, {}, "best"),
        ([300, 20], 10, {}, "best"),  # 20 validation images of the data themselves
        ([300, 20], 0, {}, "last"),  # nothing is held out
        ([300, 20], 9, {}, "last"),  # too few to compare anything
        ([400, 300, 100, 20], 0, {"selection": {"split": 0.0}}, "last"),
        ([400, 300, 100, 20], 0, {"selection": {"stage": "last"}}, "last"),
    ],
)
def test_stages_are_compared_where_images_are_held_out(timing, counts, val, asked, stage):
    timing(1e-5)
    dataset = photos(counts, val=val, side=8)
    choice = choose(dataset, CPU, None, [asked])
    recipe = recipe_of(dataset, choice, asked)
    assert recipe.selection.stage == stage
    assert any("The second stage is not kept if" in reason for reason in choice.reasons) == (stage == "best")


def test_the_objective_of_the_user_replaces_the_chosen_one(timing):
    timing(1e-5)
    dataset, asked = photos([400, 300, 100, 20], side=8), {"selection": {"objective": "few"}}
    assert recipe_of(dataset, choose(dataset, CPU)).selection.objective == "balanced"
    assert recipe_of(dataset, choose(dataset, CPU, None, [asked]), asked).selection.objective == "few"


def test_a_benchmark_keeps_its_last_stage(timing):
    timing(1e-5)
    dataset = replace(photos([400, 300, 100, 20], side=8), spec="cifar10-lt:100")
    assert recipe_of(dataset, choose(dataset, CPU)).selection.stage == "last"
