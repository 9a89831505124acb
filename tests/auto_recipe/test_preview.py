"""The sentence of what training would do."""

import pytest

from tailcloud.auto_recipe.preview import TrainingPreview
from tailcloud.recipe import load_recipe


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "take resnet32 from scratch, with gcl: 200 + 30 epochs, about 2\u00a0min 0\u00a0s on this machine."),
        ({"data": {"size": 96}}, "take resnet32 from scratch, with gcl at 96 pixels: 200"),
        (
            {"model": {"weights": "pretrained"}, "stage1": {"train": "head"}},
            "take the head of resnet32 from pretrained",
        ),
        ({"stage1": {"train": "layer3+head"}}, "take parts of resnet32 from scratch"),
    ],
)
def test_the_sentence_says_what_from_where_how_and_how_long(settings, words):
    recipe = load_recipe("cifar10-lt/gcl", [])
    for table, changes in settings.items():
        recipe = recipe.model_copy(update={table: getattr(recipe, table).model_copy(update=changes)})
    assert TrainingPreview(recipe, [], 120.0).sentence.startswith(f"Training would {words}")
