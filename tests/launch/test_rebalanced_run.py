"""The recipe of a re-balanced run."""

import pytest

from tailcloud.cli.rebalance import SECOND_STAGES
from tailcloud.launch.rebalanced_run import rebalanced
from tailcloud.recipe import load_recipe, parse_setting


@pytest.mark.parametrize("name", ["digits-lt/gcl", "cifar100-lt/ce-mixup", "cifar100-lt/gcl"])
@pytest.mark.parametrize("second", SECOND_STAGES.values())
def test_the_recipe_is_the_one_that_two_methods_have_from_the_start(name, second):
    assert rebalanced(load_recipe(name), second, []) == load_recipe(f"{name}+{second}")


def test_on_features_the_recipe_says_that_batch_norm_stays():
    on_features = {"stage2": {"views": 3, "batch_norm": "frozen"}}
    first = load_recipe("digits-lt/ce", [{"stage1": {"views": 3, "train": "head"}}])
    assert rebalanced(first, "crt", []).stage2 == load_recipe("digits-lt/crt", [on_features]).stage2
    assert rebalanced(first, "crt", ["stage2.views=0"]).stage2 == load_recipe("digits-lt/crt").stage2
    plain = load_recipe("digits-lt/ce")
    assert rebalanced(plain, "crt", ["stage2.views=3"]) == load_recipe("digits-lt/ce+crt", [on_features])


def test_a_third_stage_goes_with_the_second_one_unless_it_is_asked_for():
    levelled = [
        parse_setting(setting) for setting in ("stage3.head_transform=tuned-logit-adjust", "selection.split=0.1")
    ]
    recipe = load_recipe("digits-lt/gcl", levelled)
    assert rebalanced(recipe, "crt", []).stage3 is None
    again = rebalanced(recipe, "crt", ["stage3.head_transform=tuned-logit-adjust"])
    assert again == load_recipe("digits-lt/gcl+crt", levelled)
