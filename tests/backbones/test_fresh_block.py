"""A residual network with a new last block, on published weights."""

import pytest
import torch
from safetensors.torch import save_file

from helpers.runs import run, small_recipe
from tailcloud.backbones import create_backbone
from tailcloud.errors import UsageError
from tailcloud.weights.load import load_pretrained, read_tensors
from tailcloud.weights.resolve import from_file

WIDTH = 0.0625


@pytest.fixture
def published(tmp_path):
    torch.manual_seed(3)
    weights = create_backbone("resnet50", width=WIDTH).state_dict()
    file = tmp_path / "resnet50-0676ba61.pth"
    torch.save({**weights, "fc.weight": torch.zeros(2, 128), "fc.bias": torch.zeros(2)}, file)
    return weights, str(file)


def test_the_trunk_is_filled_and_the_new_block_is_not(published):
    weights, file = published
    backbone = create_backbone("resnet50-fresh", width=WIDTH)
    before = {name: value.clone() for name, value in backbone.fresh.state_dict().items()}
    load_pretrained(backbone, from_file(file), 3)
    state = backbone.state_dict()
    trunk = {name for name in state if not name.startswith("fresh.")}
    assert trunk == {name for name in weights if not name.startswith("layer4.2.")}
    assert all(state[name].equal(weights[name]) for name in trunk)
    assert all(backbone.fresh.state_dict()[name].equal(value) for name, value in before.items())


def test_the_new_block_has_the_place_of_the_one_that_is_left_out(published):
    _, file = published
    fresh, whole = (create_backbone(name, width=WIDTH).double().eval() for name in ("resnet50-fresh", "resnet50"))
    load_pretrained(fresh, from_file(file), 3)
    load_pretrained(whole, from_file(file), 3)
    fresh.fresh.load_state_dict(whole.layer4[2].state_dict())
    images = torch.randn(2, 3, 40, 40, dtype=torch.float64)
    torch.testing.assert_close(fresh(images), whole(images))


def test_the_new_block_starts_with_pytorchs_own_weights():
    torch.manual_seed(0)
    weight = create_backbone("resnet50-fresh").fresh.conv1.weight
    bound = weight.shape[1] ** -0.5  # uniform within ± 1 / √fan_in
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("file", "other"), [("resnet101", "resnet50"), ("resnet152", "resnet101-fresh"), ("resnet50", "resnet50-fresh")]
)
def test_a_deeper_networks_weights_are_refused(tmp_path, file, other):
    weights = create_backbone(file, width=0.02).state_dict()
    if file == "resnet50":
        weights["layer4.3.conv1.weight"] = torch.zeros(1)
    save_file(weights, tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match=r"has layer\d\.\d+\..*, so it is for a deeper backbone;"):
        load_pretrained(create_backbone(other, width=0.02), from_file(str(tmp_path / "w.safetensors")), 3)


def test_a_run_trains_the_new_block_and_the_head_and_nothing_else(tmp_path):
    torch.manual_seed(4)
    weights = create_backbone("resnet18", channels=1, width=WIDTH).state_dict()
    save_file(weights, tmp_path / "w.safetensors")
    model = {"backbone": "resnet18-fresh", "width": WIDTH, "weights": str(tmp_path / "w.safetensors")}
    recipe = small_recipe({"model": model, "stage1": {"train": "backbone.fresh+head", "epochs": 2}})
    run(tmp_path / "run", recipe)
    trained = read_tensors(tmp_path / "run" / "model.safetensors")
    trunk = [name for name in weights if not name.startswith("layer4.1.")]
    assert all(trained[f"backbone.{name}"].equal(weights[name]) for name in trunk)  # statistics too
    assert trained["backbone.fresh.bn1.num_batches_tracked"] == 2 * 6
    assert trained["backbone.fresh.conv1.weight"].std() > 0
