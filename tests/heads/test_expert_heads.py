"""One head for each expert: mean outputs against a naive mean, and head transforms of each by itself."""

import pytest
import torch

from tailcloud.classifier import Architecture, build_classifier, fresh_head, meta_classifier
from tailcloud.head_transforms import HEAD_TRANSFORMS, TrainedModelView
from tailcloud.head_transforms.base import transform_head
from tailcloud.heads import HEADS, CosineHead, ExpertHeads, LinearHead

FEATURES, CLASSES, COUNTS = 12, 4, [40, 9, 2, 1]


@pytest.mark.parametrize("kind", ["linear", "cosine", "causal", "scaled-linear", "disalign-cosine"])
@pytest.mark.parametrize("experts", [2, 3])
def test_outputs_are_the_mean_over_experts(kind, experts):
    torch.manual_seed(0)
    head = ExpertHeads(HEADS[kind], experts, FEATURES, CLASSES).double()
    features = torch.randn(5, FEATURES, dtype=torch.float64)
    size, found = FEATURES // experts, head(features)
    for row in range(5):
        for j in range(CLASSES):
            outputs = [
                one(features[row : row + 1, number * size : (number + 1) * size])[0, j].item()
                for number, one in enumerate(head.experts)
            ]
            assert found[row, j].item() == pytest.approx(sum(outputs) / experts, rel=1e-12)
    assert head.cosine == HEADS[kind].cosine
    assert head(features[:0]).shape == (0, CLASSES)


def test_a_model_of_experts_has_a_head_for_each_and_fresh_ones_follow_from_the_seed():
    architecture = Architecture("resnet8-3-experts", "cosine", 0.25, 1, 5)
    model = build_classifier(architecture, 0)
    assert [type(head) for head in model.head.experts] == [CosineHead] * 3
    first, again, other = (fresh_head(model, "linear", seed) for seed in (3, 3, 4))
    assert [type(head) for head in first.experts] == [LinearHead] * 3
    assert torch.equal(first.experts[2].weight, again.experts[2].weight)
    assert not torch.equal(first.experts[2].weight, other.experts[2].weight)
    assert not torch.equal(first.experts[1].weight, first.experts[2].weight)
    hollow = meta_classifier(architecture)
    hollow.load_state_dict(model.state_dict(), assign=True)
    images = torch.randn(3, 1, 8, 8)
    assert torch.equal(hollow.eval()(images), model.eval()(images))


@pytest.mark.parametrize("name", ["keep", "tau-norm", "logit-adjust", "nearest-mean", "unit"])
def test_a_transform_changes_the_head_of_each_expert_with_its_own_features(name):
    torch.manual_seed(1)
    transform = HEAD_TRANSFORMS[name](COUNTS)
    before = "cosine" if name == "unit" else "linear"
    features, labels = torch.randn(52, FEATURES), torch.tensor([0] * 40 + [1] * 9 + [2] * 2 + [3])
    old = ExpertHeads(HEADS[before], 3, FEATURES, CLASSES)
    new = ExpertHeads(HEADS[transform.head_after(before)], 3, FEATURES, CLASSES)
    with torch.no_grad():
        transform_head(transform, old, new, TrainedModelView(1.0, lambda: (features, labels)))
        for number in range(3):
            own = features[:, 4 * number : 4 * number + 4]
            expected = HEADS[transform.head_after(before)](4, CLASSES)
            expected.load_state_dict(new.experts[number].state_dict())
            transform.apply(old.experts[number], expected, TrainedModelView(1.0, lambda own=own: (own, labels)))
            torch.testing.assert_close(expected(own), new.experts[number](own))


def test_a_note_of_a_transform_is_said_once():
    notes, transform = [], HEAD_TRANSFORMS["tuned-logit-adjust"](COUNTS)
    old, new = (ExpertHeads(LinearHead, 3, FEATURES, CLASSES) for _ in range(2))
    with torch.no_grad():
        transform_head(transform, old, new, TrainedModelView(1.0, lambda: None, add_note=notes.append))
    assert len(notes) == 1
    assert torch.equal(new.experts[2].weight, old.experts[2].weight)
