"""Machines of known speed, for tests of the automatic choice."""

from types import SimpleNamespace

import pytest

from tailcloud.auto_recipe.timing import HEAD_SECONDS, StepTiming

SPEEDS = {"resnet50": 8, "resnet18": 1, "resnet32": 1, "resnet20": 0.6, "resnet8": 0.2, "efficientnet_lite0": 0.2}
TRAINED = {"all": 3.0, "head": 0.0}  # forward passes of a step; its last layers alone: 1.3


@pytest.fixture
def timing(monkeypatch):
    """A machine with a known speed: seconds for an image of 32 pixels with ResNet-32.

    With EfficientNet-Lite0, features of an image of 224 pixels take about 10 times, and steps 30 times as long. Only
    timing takes time: ``takes`` seconds for each candidate.
    """
    tried, clock = [], [0.0]

    def use(seconds, takes=0.0):
        def scale(recipe, side):
            tried.append((recipe.model.backbone, side))
            clock[0] += takes
            return seconds * SPEEDS[recipe.model.backbone.removesuffix("-two-branch")] * (side / 32) ** 2

        def measured(recipe, dataset, side, device):
            each = scale(recipe, side)
            if recipe.model.pretrained is None:
                return StepTiming({"stage1": each, "stage2": each / 3, "stage3": 0.0}, each / 3, 0.0)
            train = {
                name: HEAD_SECONDS if stage.views else each * TRAINED.get(stage.train, 1.3)
                for name, stage in recipe.stages.items()
            }
            return StepTiming(train, each, 0.0)

        def measured_features(recipe, dataset, side, device):
            return StepTiming(dict.fromkeys(recipe.stages, HEAD_SECONDS), scale(recipe, side), 0.0)

        monkeypatch.setattr("tailcloud.auto_recipe.time_budget.time_recipe", measured)
        monkeypatch.setattr("tailcloud.auto_recipe.time_budget.time_features", measured_features)
        for module in ("choice", "time_budget"):  # a busy machine must not use up the budget
            monkeypatch.setattr(f"tailcloud.auto_recipe.{module}.time", SimpleNamespace(perf_counter=lambda: clock[0]))
        return tried

    return use
