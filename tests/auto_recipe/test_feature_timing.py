"""The expected time of stages on features, and estimates before a recipe is timed."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from helpers.photos import photographs, photos
from tailcloud.auto_recipe import timing as timing_module
from tailcloud.auto_recipe.head_trial import session_with_features
from tailcloud.auto_recipe.timing import (
    HEAD_SECONDS,
    KNOWN_SECONDS,
    OVERHEAD,
    RESERVE,
    StepTiming,
    estimated_timing,
    fewer_threads,
    known_features_timing,
    time_features,
    time_recipe,
)
from tailcloud.launch.run_data import open_data, open_for_choice
from tailcloud.recipe import head_kinds, load_recipe

IMAGES, EVALUATED, FORWARD = 1000, 100, 0.01


def recipe(stage1, stage2):
    """Ten epochs, then three, evaluated after each."""
    first, second = {"epochs": 10, "warmup": 0, **stage1}, {"epochs": 3, "warmup": 0, **stage2}
    return load_recipe("own/gcl", [{"stage1": first, "stage2": second, "selection": {"every": 1}}])


ON_FEATURES = {"train": "head", "views": 1, "mixup": 0.0}


@pytest.mark.parametrize(
    ("stage1", "stage2", "passes"),
    [
        ({}, {}, 11 * EVALUATED + 4 * EVALUATED),  # evaluated after each epoch, and at the end
        ({}, ON_FEATURES, 11 * EVALUATED + IMAGES + EVALUATED),
        (ON_FEATURES, ON_FEATURES, IMAGES + EVALUATED),  # once for both
        ({**ON_FEATURES, "views": 4}, ON_FEATURES, 4 * IMAGES + EVALUATED),
        (ON_FEATURES, {"train": "head"}, IMAGES + EVALUATED + 4 * EVALUATED),
    ],
)
def test_images_are_embedded_once(stage1, stage2, passes):
    timing = StepTiming({"stage1": 0.0, "stage2": 0.0}, FORWARD, 0.0)
    seconds = timing.seconds(recipe(stage1, stage2), IMAGES, EVALUATED)
    assert seconds == pytest.approx((1 + RESERVE) * (OVERHEAD + passes * FORWARD))


def test_steps_on_features_do_not_depend_on_the_network():
    both = recipe({}, ON_FEATURES)
    for passes in (0.0, 1.9, 5.4):
        timing = estimated_timing(both, FORWARD, passes)
        assert timing.train == {"stage1": pytest.approx(FORWARD * passes), "stage2": HEAD_SECONDS}
        assert timing.evaluate == FORWARD


def test_a_step_with_sam_is_expected_to_take_twice_as_long():
    plain, sharp = (estimated_timing(recipe({"sam": rho}, {}), FORWARD, 1.0).train for rho in (0.0, 0.1))
    assert sharp == {"stage1": 2 * plain["stage1"], "stage2": plain["stage2"]}


def small(stage1):
    model = {"backbone": "efficientnet_lite0", "weights": "pretrained"}
    return load_recipe("own/ce", [{"model": model, "stage1": {"epochs": 1, "batch": 4, "warmup": 0, **stage1}}])


def test_features_of_larger_images_take_longer_and_no_head_is_timed():
    dataset = photos([8, 4])
    seconds = [time_features(small(ON_FEATURES), dataset, side, torch.device("cpu")) for side in (32, 128)]
    assert 2 * seconds[0].evaluate < seconds[1].evaluate
    assert all(each.train == {"stage1": HEAD_SECONDS} for each in seconds)


def test_training_takes_longer_than_features():
    dataset = photos([8, 4])
    features = time_features(small(ON_FEATURES), dataset, 64, torch.device("cpu"))
    steps = time_recipe(small({}), dataset, 64, torch.device("cpu"))
    assert steps.train["stage1"] > 1.5 * features.evaluate


def test_stages_that_transform_the_head_are_timed_twice(monkeypatch):
    """With several threads and with one; the second timing starts with the head of the first stage again."""
    monkeypatch.setattr(timing_module, "fewer_threads", lambda _, again: again())
    monkeypatch.setattr(timing_module.torch, "get_num_threads", lambda: 2)
    last = {"head_transform": "tuned-logit-adjust"}
    model = {"backbone": "resnet8", "width": 0.25}
    recipe = load_recipe("own/gcl", [{"model": model, "selection": {"split": 0.2}, "stage3": last}])
    kinds = head_kinds(recipe)
    assert kinds["stage1"] != kinds["stage3"]
    assert set(time_recipe(recipe, photos([8, 4]), 16, torch.device("cpu")).train) == set(kinds)


def test_features_that_the_cache_has_cost_nothing(tmp_path):
    folder = tmp_path / "photos"
    photographs(folder, 0.5)
    model = {"backbone": "efficientnet_lite0", "weights": "pretrained"}
    read = {"spec": str(folder), "size": 32, "fit": "pad", "feature_cache": str(tmp_path / "cache")}
    chosen = load_recipe("own/ce", [{"model": model, "data": read, "stage1": {"epochs": 1, "batch": 4, **ON_FEATURES}}])
    dataset, cpu = open_for_choice(chosen), torch.device("cpu")
    assert known_features_timing(chosen, dataset, 32, cpu) is None
    session_with_features(chosen, open_data(chosen), cpu, lambda _: None)
    known = known_features_timing(chosen, dataset, 32, cpu)
    assert known is not None
    assert known.evaluate == KNOWN_SECONDS
    assert known_features_timing(chosen, dataset, 48, cpu) is None  # other pixels
    other = chosen.model_copy(update={"data": chosen.data.model_copy(update={"fit": "crop"})})
    assert known_features_timing(other, dataset, 32, cpu) is None


def test_one_thread_is_taken_if_it_is_clearly_faster():
    def timed(seconds):
        return lambda: StepTiming({"stage1": seconds}, seconds / 3, 0.0)

    several = timed(1.0)()
    busy = fewer_threads(several, timed(0.2))
    assert (busy.threads, busy.thread_gain, busy.train) == (1, pytest.approx(5), {"stage1": 0.2})
    assert fewer_threads(several, timed(0.95)) is several


@pytest.mark.parametrize(("seconds", "chosen"), [({1: 1.0, 4: 9.0}, 1), ({1: 9.0, 4: 1.0}, 4)])
def test_repeated_work_goes_on_with_the_faster_number_of_threads(monkeypatch, seconds, chosen):
    clock, used, faster = [0.0], [], timing_module.FasterThreads()
    monkeypatch.setattr(timing_module, "cores", lambda: 4)
    monkeypatch.setattr(timing_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(timing_module, "using_threads", lambda count: used.append(count) or nullcontext())
    for _ in range(5):
        with faster.threads():
            clock[0] += seconds[used[-1]]
    assert used == [1, 1, 4, chosen, chosen]


def test_steps_are_timed_without_the_fixed_cost_of_an_epoch(monkeypatch):
    """Epochs that take 0.2 s and 0.01 s a step: two steps alone would look ten times as slow as they are."""
    now = [0.0]

    def epoch(session, parts, number, rates):
        now[0] += 0.2 + 0.01 * len(rates)

    monkeypatch.setattr(timing_module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(timing_module, "train_epoch", epoch)
    session = SimpleNamespace(device=torch.device("cpu"))
    step, fixed = timing_module.step_seconds(session, None)
    assert (step, fixed) == (pytest.approx(0.01), pytest.approx(0.2))
    timing = StepTiming({"stage1": step / 64, "stage2": 0.0}, 0.0, 0.0, fixed)
    seconds = timing.stage_seconds(recipe({}, {}), 6400, 0)["stage1"]
    assert seconds == pytest.approx((1 + RESERVE) * 10 * (100 * 0.01 + 0.2))
