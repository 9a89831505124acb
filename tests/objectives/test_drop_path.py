"""Drop path: a naive network in float64, the rates and the mean of its weights, and what it must leave alone."""

from itertools import chain

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from tailcloud.backbones.efficientnet_lite import EfficientNetLite
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import Classify, cut
from tailcloud.objectives.drop_path import DropPath, DropPathNetwork, drop_rates


@pytest.fixture
def backbone():
    torch.manual_seed(0)
    network = EfficientNetLite(0.25, 1.0).double().train()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0  # or the features of random weights would vanish
    network(torch.randn(8, 3, 40, 40, dtype=torch.float64))
    return network.eval()


def naive_features(backbone, image, weights):
    """One image through the network, block by block; a block with a shortcut is x + w·f(x)."""
    x, left = F.relu6(backbone.bn1(backbone.conv_stem(image[None]))), list(weights)
    for block in chain(*backbone.blocks):
        kept, block.shortcut = block.shortcut, False
        branch = block(x)
        block.shortcut = kept
        x = x + left.pop(0) * branch if kept else branch
    assert not left
    return F.relu6(backbone.bn2(backbone.conv_head(x))).mean(dim=(2, 3))[0]


def test_each_branch_of_each_image_has_its_weight(backbone):
    images, blocks = torch.randn(5, 3, 40, 40, dtype=torch.float64), backbone.residual_blocks()
    weights = torch.rand(5, len(blocks)) * (torch.rand(5, len(blocks)) > 0.5)
    expected = torch.stack(
        [naive_features(backbone, image, row.double()) for image, row in zip(images, weights, strict=True)]
    )
    torch.testing.assert_close(backbone(images, weights), expected, rtol=1e-10, atol=1e-12)
    assert len(blocks) == 9
    assert not torch.allclose(backbone(images), expected)
    assert torch.equal(backbone(images), backbone(images, torch.ones_like(weights)))


def test_rates_grow_with_the_depth_where_blocks_are_trained(backbone):
    blocks = backbone.residual_blocks()
    assert drop_rates(blocks, 0.18) == pytest.approx([0.02 * number for number in range(1, 10)])
    backbone.requires_grad_(False)
    blocks[4].bn1.requires_grad_(True)
    assert drop_rates(blocks, 0.18) == pytest.approx([0, 0, 0, 0, 0.1, 0, 0, 0, 0])


class WeightsOfNetwork(Classify):
    """An objective that returns the weights of its network."""

    def __init__(self):
        super().__init__(CrossEntropyLoss([2, 1]))

    def forward(self, network, batch, noise):
        return network.weights


@pytest.fixture
def recorded(monkeypatch):
    """What an objective with these rates gives the network."""
    monkeypatch.setattr("tailcloud.objectives.drop_path.Classifier", object)

    def record(rates, batch, seed=0):
        objective = DropPath(WeightsOfNetwork(), rates)
        return objective(object(), batch, objective.draw(batch, torch.Generator().manual_seed(seed)))

    return record


def test_a_branch_is_dropped_at_its_rate_and_its_mean_stays(recorded):
    images = 40_000
    batch = Batch(torch.zeros(images, 1), torch.zeros(images, dtype=torch.int64))
    rates = torch.tensor([0.0, 0.1, 0.5, 0.9])
    weights = recorded(rates.tolist(), batch)
    deviation = (rates * (1 - rates) / images).sqrt()
    assert ((weights == 0).float().mean(0) - rates <= 5 * deviation).all()
    assert ((weights == 0).float().mean(0) - rates >= -5 * deviation).all()
    assert ((weights.mean(0) - 1).abs() <= 5 * deviation / (1 - rates)).all()
    for column, rate in zip(weights.unbind(1), rates, strict=True):
        assert set(column.unique().tolist()) <= {0.0, float(1 / (1 - rate))}
    dropped = (weights[:, 1:] == 0).double()
    assert (torch.corrcoef(dropped.T) - torch.eye(3)).abs().max() < 5 / images**0.5  # blocks are independent


def test_every_view_and_second_batch_has_draws_of_its_own(recorded):
    images = torch.zeros(4, 1)
    plain = Batch(images, torch.zeros(4, dtype=torch.int64))
    three = Batch(images, plain.target, views=(images,), second=plain)
    assert len(recorded([0.5] * 20, plain)) == 4
    weights = recorded([0.5] * 20, three)
    assert len(weights.unique(dim=0)) == 12


def test_micro_batches_drop_what_the_whole_batch_drops(recorded):
    target = torch.zeros(7, dtype=torch.int64)
    whole = Batch(torch.zeros(7, 1), target)
    expected = recorded([0.5] * 9, whole)
    objective = DropPath(WeightsOfNetwork(), [0.5] * 9)
    found = []
    for start, end in ((0, 3), (3, 7)):
        piece = Batch(torch.zeros(end - start, 1), target[start:end], place=start, whole=target)
        noise = objective.draw(piece, torch.Generator().manual_seed(0))
        found.append(objective(object(), piece, cut(noise, piece)))
    assert torch.equal(torch.cat(found), expected)


def test_the_loss_is_that_of_the_other_objective_on_the_network_with_weights():
    model = build_classifier(Architecture("efficientnet_lite0", "cosine", 1.0, 1, 3), 0).double().eval()
    plain = Classify(GCLLoss([9, 3, 1]))
    batch = Batch(torch.randn(6, 1, 32, 32, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2]))
    rates = drop_rates(model.backbone.residual_blocks(), 0.5)
    objective = DropPath(plain, rates)
    found = objective(model, batch, objective.draw(batch, torch.Generator().manual_seed(3)))
    generator = torch.Generator().manual_seed(3)
    noise = plain.draw(batch, generator)
    uniform = torch.rand((6, len(rates)), generator=generator)
    weights = torch.tensor(
        [[0.0 if u < p else 1 / (1 - p) for u, p in zip(row, rates, strict=True)] for row in uniform]
    )
    features = model.backbone(batch.images, weights)
    expected = plain.loss(model.head(features), batch.target, epsilon=noise[0])
    torch.testing.assert_close(found, expected)
    assert torch.equal(DropPathNetwork(model, weights)(batch.images), model.head(features))
    assert not torch.allclose(found, plain(model, batch, noise))
