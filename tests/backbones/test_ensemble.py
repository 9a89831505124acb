"""Networks side by side: features of each, names, cost, and what is refused."""

import pytest
import torch

from tailcloud import backbones
from tailcloud.backbones import BACKBONES, check_backbone, create_backbone
from tailcloud.backbones.ensemble import MOST_NETWORKS, ensemble_of, ensemble_parts
from tailcloud.classifier import Architecture, build_classifier, cost
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe


def test_features_are_those_of_each_network_in_turn():
    torch.manual_seed(0)
    ensemble = create_backbone("resnet8-3-networks", channels=1, width=0.5).double().eval()
    images = torch.randn(4, 1, 12, 10, dtype=torch.float64)
    found = [network(images) for network in ensemble.networks]
    torch.testing.assert_close(ensemble(images), torch.cat(found, dim=1))
    assert ensemble.features == sum(part.shape[1] for part in found)
    assert ensemble.experts == 3
    assert not torch.allclose(found[0], found[1])


@pytest.mark.parametrize(("name", "heads"), [("resnet8", 2), ("resnet8-3-experts", 6), ("resnet8-two-branch", 2)])
def test_every_network_and_every_expert_of_it_has_a_head(name, heads):
    model = build_classifier(Architecture(ensemble_of(name, 2), "cosine", 0.25, 1, 5), seed=0)
    assert len(model.head.experts) == heads
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 5)


def test_an_ensemble_costs_as_much_as_its_networks():
    one, three = (cost(Architecture(name, "linear", 0.5, 3, 10), 16, 16) for name in ("resnet8", "resnet8-3-networks"))
    assert (three.parameters, three.flops) == (3 * one.parameters, 3 * one.flops)


@pytest.mark.parametrize("name", [*BACKBONES, "resnet32-3-experts", "timm:vit_base_patch16_224.augreg_in21k"])
@pytest.mark.parametrize("networks", [2, MOST_NETWORKS])
def test_every_backbone_has_a_name_for_several(monkeypatch, name, networks):
    monkeypatch.setattr(backbones, "check_timm", lambda asked: asked == name or pytest.fail(asked))
    assert ensemble_parts(ensemble_of(name, networks)) == (name, networks)
    assert ensemble_parts(name) == (name, 1)
    check_backbone(ensemble_of(name, networks))


@pytest.mark.parametrize(
    "name", ["resnet9-3-networks", "resnet8-1-networks", "resnet8-100-networks", "resnet8-3-networks-2-networks"]
)
def test_what_is_no_ensemble_is_refused(name):
    with pytest.raises(UsageError, match="there is no backbone"):
        create_backbone(name)


def test_an_ensemble_is_not_trained():
    with pytest.raises(UsageError, match=r"an average of 3 trained runs; set it to \"resnet8\", train 3 seeds"):
        load_recipe("digits-lt/ce", [{"model": {"backbone": "resnet8-3-networks"}}])
