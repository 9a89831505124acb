"""Which part of a pretrained network is trained, and at which size, on machines of known speed."""

import re
from dataclasses import replace

import pytest
import torch

from helpers.photos import photographs, photos, photos_of_side
from tailcloud.auto_recipe import choose, parse_budget
from tailcloud.errors import UsageError
from tailcloud.launch.run_data import open_data, open_for_choice
from tailcloud.recipe import load_recipe
from tailcloud.training.features.run_features import TooSlow

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SPEED = 1e-3  # seconds for features of an image: 0.0098 at 224 pixels, 0.0072, 0.0050, 0.0032, and 0.0018 at 96
# Of 1,000 images 900 are trained on; 112 are evaluated. A run takes 1.05 · (3 + 86 · 900 · 3e-5 + 1,012 · features)
# seconds on features, which is 7.5 at 96 pixels, and one fold of the head trial 4.6.
COUNTS = (400, 300, 280, 20)


def large_photos():
    return photos_of_side(500, COUNTS)


def trained_part(recipe):
    parts = {"all": "all", "head": "head"}
    return parts.get(recipe.stage1.train, "last"), recipe.data.size


@pytest.mark.parametrize(
    ("device", "budget", "expected"),
    [
        (CPU, 12, ("head", 96)),
        (CPU, 14, ("head", 128)),
        (CPU, 16, ("head", 160)),
        (CPU, 18, ("head", 192)),
        (CPU, 21, ("head", 224)),
        (CPU, 130, ("last", 128)),
        (CPU, 200, ("last", 160)),
        (CPU, 350, ("all", 128)),
        (CPU, 900, ("all", 224)),
        (CPU, None, ("all", 224)),
        (CUDA, 14, ("head", 128)),
        (CUDA, 40, ("head", 224)),  # never the last layers alone
        (CUDA, 220, ("all", 128)),
        (CUDA, None, ("all", 224)),
    ],
)
def test_more_time_trains_larger_images_then_more_of_the_network(timing, device, budget, expected):
    timing(SPEED)
    choice = choose(large_photos(), device, budget)
    recipe = load_recipe(None, [choice.settings])
    assert trained_part(recipe) == expected
    assert (recipe.model.backbone, recipe.model.weights) == ("efficientnet_lite0", "pretrained")
    assert budget is None or choice.seconds <= budget


@pytest.mark.parametrize(("budget", "expected"), [(220, ("last", 96)), (350, ("last", 128))])
def test_of_many_images_the_last_layers_come_before_features_at_160_pixels(timing, budget, expected):
    timing(SPEED)
    many = replace(photos([20_000, 9_900, 100], side=8), native_side=500)
    assert trained_part(load_recipe(None, [choose(many, CPU, budget).settings])) == expected


def test_a_fast_machine_trains_everything_and_is_not_timed_twice(timing):
    """On a CPU the cheapest features tell enough. A GPU prepares for seconds, so what will be trained is timed."""
    tried = timing(SPEED / 100)
    for device, side in ((CUDA, 224), (CPU, 96)):
        tried.clear()
        recipe = load_recipe(None, [choose(large_photos(), device).settings])
        assert (recipe.stage1.epochs, recipe.stage1.train, recipe.stage1.optimizer.name) == (30, "all", "adamw")
        assert tried == [("efficientnet_lite0", side)]


@pytest.mark.parametrize(
    ("budget", "epochs", "reason"),
    [
        (None, {30}, "more are not needed for these data"),
        (20.0, range(31, 90), "as many as fit the time budget of 20.0 s"),
        (100.0, {90}, "more are not needed for these data"),
    ],
)
def test_a_budget_that_leaves_time_is_filled_with_epochs(timing, budget, epochs, reason):
    timing(SPEED / 100)
    choice = choose(large_photos(), CUDA, budget)
    assert choice.settings["stage1"]["epochs"] in epochs
    assert reason in " ".join(choice.reasons).replace("\N{NO-BREAK SPACE}", " ")
    assert budget is None or choice.seconds <= budget


def test_the_reasons_say_what_was_too_slow_and_how_long_it_takes(timing):
    timing(SPEED)
    reasons = " ".join(choose(large_photos(), CPU, 16.0).reasons).replace("\N{NO-BREAK SPACE}", " ")
    slower = "from training the network at 224 pixels to training the last layers at 96 pixels, do not fit into 16.0 s"
    assert f"11 larger candidates, {slower}; chosen: a head on features at 160 pixels." in reasons
    assert "Images are not flipped: features are those of each as it is." in reasons
    assert "Images are read at 160 × 160 pixels." in reasons
    assert "The network stays as it is" in reasons
    assert "Of 4 heads the best on held-out images is taken" in reasons
    assert "86 epochs, about 10.9 s on this machine" in reasons


def test_a_budget_in_which_nothing_sensible_fits_is_refused_with_the_least_that_makes_sense(timing):
    timing(10 * SPEED)
    with pytest.raises(UsageError, match=r"too short for these 1,000 images.* the least that makes sense is 26s"):
        choose(large_photos(), CPU, 1.0, [{"data": {"max_count": 400}}])  # so many, and not fewer
    assert choose(large_photos(), CPU, 26.0).seconds <= 26
    choice = choose(large_photos(), CPU, 1.0, [{"stage1": {"epochs": 3}}])  # an explicit wish is not judged
    assert choice.settings["stage1"]["epochs"] == 3


def test_large_classes_are_limited_if_the_features_of_all_images_do_not_fit(timing):
    timing(10 * SPEED)
    recipe = load_recipe(None, [choose(large_photos(), CPU, 26.0).settings])
    assert recipe.data.max_count == 0
    choice = choose(large_photos(), CPU, 15.0)
    limited = load_recipe(None, [choice.settings]).data
    assert (limited.size, 20 < limited.max_count < 400) == (96, True)
    assert choice.seconds <= 15
    assert any(f"at most {limited.max_count} images of each class are used" in reason for reason in choice.reasons)
    more = load_recipe(None, [choose(large_photos(), CPU, 20.0).settings]).data
    assert limited.max_count < more.max_count < 400


def test_a_machine_that_turns_slower_takes_smaller_images_then_fewer(timing, monkeypatch):
    timing(SPEED)
    tried, seconds = [], iter((0.03, 0.05, 0.1))

    def slow_at_first(fitted, draft, open_data, *, may_fail):
        tried.append((draft.side, draft.max_count))
        if (slow := next(seconds, None)) is not None:
            assert may_fail
            raise TooSlow(slow)
        return fitted, []

    monkeypatch.setattr("tailcloud.auto_recipe.choice.with_features", slow_at_first)
    asked = [{"stage1": {"train": "head"}, "data": {"fit": "crop"}}]
    choice = choose(large_photos(), CPU, 21, asked, open_data=lambda recipe: large_photos())
    (*_, (_, fewer), (_, fewest)) = tried
    assert [side for side, _ in tried] == [224, 160, 96, 96]
    assert [most for _, most in tried[:2]] == [0, 0]
    assert 400 > fewer > fewest >= 20
    assert choice.settings["data"]["max_count"] == fewest


def test_heads_are_compared_only_if_there_is_time(monkeypatch, tmp_path):
    photographs(tmp_path / "photos", 0.5)
    monkeypatch.setattr("tailcloud.auto_recipe.pretrained_draft.MAX_HEAD_EPOCHS", 3)
    monkeypatch.setattr("tailcloud.auto_recipe.choice.time_head", lambda recipe, session: 10.0)
    settings = {"data": {"spec": str(tmp_path / "photos"), "fit": "crop", "size": 64, "feature_cache": "none"}}
    monkeypatch.setattr("tailcloud.auto_recipe.candidates.LADDER", (("head", 64),))
    dataset = open_for_choice(load_recipe(None, [settings]))
    choice = choose(dataset, CPU, 100, [settings], open_data=open_data)
    assert "Head: logit-adjust; too little time is left to compare others." in choice.reasons


def test_too_short_a_budget_is_refused_with_the_least_for_limited_classes(timing):
    timing(100 * SPEED)
    with pytest.raises(UsageError, match="the least that makes sense is") as refused:
        choose(large_photos(), CPU, 1.0)
    least = parse_budget(re.search(r"makes sense is (\w+)", str(refused.value))[1])
    choice = choose(large_photos(), CPU, least)
    assert 20 <= choice.settings["data"]["max_count"] < 60
    assert choice.seconds <= least


@pytest.mark.parametrize(
    ("settings", "resizable"), [({"data": {"max_count": 300}}, True), ({"stage1": {"train": "all"}}, True), ({}, False)]
)
def test_images_are_left_out_only_where_that_is_possible_and_the_user_does_not_say_how_many(
    timing, settings, resizable
):
    timing(10 * SPEED)
    with pytest.raises(UsageError, match="the least that makes sense is"):
        choose(large_photos(), CPU, 5.0, [settings], resizable=resizable)


def test_only_drafts_that_may_fit_are_timed(timing):
    tried = timing(SPEED)
    choose(large_photos(), CPU, 16.0)
    # Training that takes twice as long, and features that take 1.3 times as long, are not timed.
    assert tried == [("efficientnet_lite0", side) for side in (96, 192, 160)]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (24.0, "do not fit into 24.0 s, or were not timed for lack of time (2); chosen: a head on features at 160 "),
        (40.0, "do not fit into 40.0 s; chosen: a head on features at 224 pixels."),
        (200.0, "do not fit into 3 min 20 s; chosen: training the last layers at 128 pixels."),
    ],
)
def test_choosing_takes_a_bounded_share_of_the_time_and_says_what_was_not_timed(timing, budget, said):
    tried = timing(SPEED, takes=5.0)
    choice = choose(large_photos(), CPU, budget)
    spent = 5 * len(tried)
    assert spent <= 5 + budget / 4
    assert choice.seconds <= budget - spent
    reasons = " ".join(choice.reasons).replace("\N{NO-BREAK SPACE}", " ")
    assert said in reasons


def test_what_is_known_of_the_cheapest_candidate_is_enough_if_there_is_no_time_to_time_others(timing):
    tried = timing(SPEED, takes=5.0)
    choice = choose(large_photos(), CPU, 24.0)
    assert tried == [("efficientnet_lite0", 96)]
    assert trained_part(load_recipe(None, [choice.settings])) == ("head", 160)  # 192 pixels might take too long


def test_images_are_not_left_out_to_save_fractions_of_a_second(timing):
    for budget in (1.0, 2.0, 5.0):
        timing(SPEED, takes=0.5)
        small = photos_of_side(140, (50, 40, 30, 20, 15, 10))
        assert choose(small, CPU, budget).settings.get("data", {}).get("max_count", 0) == 0


@pytest.mark.parametrize(
    ("counts", "frozen"), [((3, 3), True), ((15,) * 13, True), ((127, 128), True), ((128, 128), False)]
)
def test_the_network_stays_frozen_if_images_are_few_unless_the_user_trains_it(timing, counts, frozen):
    timing(SPEED / 100)
    choice = choose(photos_of_side(500, counts), CPU)
    assert trained_part(load_recipe(None, [choice.settings])) == ("head" if frozen else "all", 224)
    assert any("too few to train the network" in reason for reason in choice.reasons) == frozen
    asked = {"stage1": {"train": "all"}}
    choice = choose(photos_of_side(500, counts), CPU, None, [asked])
    assert trained_part(load_recipe(None, [choice.settings, asked])) == ("all", 224)


def test_a_method_that_needs_images_trains_the_network_on_few(timing):
    timing(SPEED / 100)
    asked = {"method": "hybrid-psc"}
    choice = choose(photos_of_side(500, (3, 3)), CPU, None, [asked])
    assert trained_part(load_recipe(None, [choice.settings, asked])) == ("all", 224)


@pytest.mark.parametrize(("budget", "part"), [(30.0, "head"), (200.0, "all"), (None, "all")])
def test_few_images_are_trained_on_only_if_there_is_time_for_enough_steps(timing, budget, part):
    """Of 300 images, 4 steps each epoch: 75 epochs of 1 s at 128 pixels, of which 8 would fit into 30 s."""
    timing(SPEED / 3)
    recipe = load_recipe(None, [choose(photos_of_side(500, (50,) * 6), CPU, budget).settings])
    assert trained_part(recipe)[0] == part
    assert part == "head" or recipe.stage1.epochs >= 75


@pytest.mark.parametrize(("device", "part"), [(CPU, "last"), (CUDA, "all")])
def test_training_on_a_cpu_has_time_to_spare_because_the_machine_may_turn_slower(timing, device, part):
    timing(SPEED)
    choice = choose(large_photos(), device, 220.0)  # 22 epochs at 128 pixels just fit
    assert trained_part(load_recipe(None, [choice.settings]))[0] == part


def test_small_images_are_enlarged_to_128_pixels_if_time_allows(timing):
    timing(SPEED)
    assert choose(photos_of_side(32, COUNTS), CPU).settings["data"]["size"] == 128
    assert choose(photos_of_side(32, COUNTS), CPU, 12.0).settings["data"]["size"] == 96


@pytest.mark.parametrize(
    ("asked", "part", "side"),
    [
        ({"method": "hybrid-psc"}, "last", 96),  # needs images
        ({"method": "crt"}, "head", 224),
        ({"stage1": {"cutmix": 1.0}}, "last", 96),
        ({"stage1": {"train": "head"}}, "head", 224),
        ({"stage1": {"train": "all", "epochs": 4}}, "all", 128),
    ],
)
def test_what_the_user_asks_for_limits_the_ladder(timing, asked, part, side):
    timing(SPEED)
    choice = choose(large_photos(), CPU, 30, [asked])
    recipe = load_recipe(None, [choice.settings, asked])
    assert trained_part(recipe) == (part, side)
    assert not any("heads" in reason for reason in choice.reasons)


def test_two_branches_are_trained_from_scratch(timing):
    timing(1e-6)
    choice = choose(large_photos(), CPU, None, [{"method": "bbn"}])
    recipe = load_recipe(None, [choice.settings, {"method": "bbn"}])
    assert recipe.model.backbone == "resnet32-two-branch"
    assert recipe.model.pretrained is None
    assert any("from scratch, because no pretrained weights suit" in reason for reason in choice.reasons)


def test_images_that_are_open_keep_their_size_or_are_trained_from_scratch(timing):
    timing(SPEED / 100)
    for side, weights in (40, None), (100, "pretrained"):
        dataset = photos(COUNTS, side=side)
        recipe = load_recipe(None, [choose(dataset, CPU, resizable=False).settings])
        assert (recipe.data.size, recipe.model.pretrained) == (None, weights)


def test_a_weights_file_below_the_root_is_used(timing, tmp_path):
    timing(SPEED / 100)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "resnet18-f37072fd.pth").touch()
    choice = choose(photos_of_side(64, COUNTS), CPU, None, [{"root": str(tmp_path)}])
    assert choice.settings["model"] == {
        "backbone": "resnet18",
        "weights": str(tmp_path / "weights/resnet18-f37072fd.pth"),
    }
    assert choice.settings["data"]["size"] == 128


def test_a_choice_with_weights_is_an_ordinary_recipe(timing, tmp_path):
    timing(SPEED)
    for budget in (14, 40, None):
        recipe = load_recipe(None, [choose(large_photos(), CPU, budget).settings])
        (tmp_path / "mine.toml").write_text(recipe.to_toml())
        assert load_recipe(str(tmp_path / "mine.toml")) == recipe


@pytest.mark.parametrize("channels", [1, 3])
def test_a_machine_is_really_timed_with_weights(channels):
    """One real measurement of features; nothing about threads or the data is left changed."""
    threads, dataset = torch.get_num_threads(), photos([30, 10, 2], side=32, channels=channels)
    before = dataset.fingerprint
    choice = choose(dataset, CPU, 60, [{"stage1": {"train": "head"}}])
    assert torch.get_num_threads() == threads
    assert replace(dataset).fingerprint == before
    assert load_recipe(None, [choice.settings]).stage1.views == 1
    assert choice.seconds > 0.1
