"""What a run starts from."""

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from helpers.runs import small_recipe
from tailcloud.backbones import create_backbone
from tailcloud.data import open_dataset
from tailcloud.training.model import first_model

DIGITS = open_dataset("digits-lt")


@pytest.fixture
def weights(tmp_path):
    """A file with the weights of a backbone."""
    torch.manual_seed(1)
    save_file(create_backbone("resnet8", channels=1, width=0.25).state_dict(), tmp_path / "w.safetensors")
    return str(tmp_path / "w.safetensors")


def first(**model):
    settings = {
        "model": {"backbone": "resnet8", "width": 0.25, **model},
        "stage1": {"loss": {"name": "ce", "scale": 30.0}},
    }
    recipe = small_recipe(settings, name="digits-lt/ce")
    return first_model(recipe, DIGITS)[0]


def test_a_linear_head_on_pretrained_features_leaves_them_as_they_are_in_its_first_step(weights):
    model = first(head="linear", weights=weights)
    outputs = model(torch.rand(10, 1, 8, 8))
    cross_entropy(outputs, torch.arange(10)).backward()
    assert outputs.count_nonzero() == 0
    assert all(parameter.grad.count_nonzero() == 0 for parameter in model.backbone.parameters())
    assert model.head.weight.grad.count_nonzero() > 0


@pytest.mark.parametrize("model", [{"head": "cosine", "weights": "here"}, {"head": "linear", "weights": "none"}])
def test_other_heads_and_other_networks_start_from_random_weights(model, weights):
    if model["weights"] == "here":
        model = {**model, "weights": weights}
    outputs = first(**model)(torch.rand(10, 1, 8, 8))
    assert outputs.std(dim=1).min() > 0
