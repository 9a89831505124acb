"""Head and loss in one kernel against the plain objective and the float64 formulas: values, gradients, clouds."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from helpers.kernel_device import DEVICE, INTERPRETED, needs_somewhere
from helpers.oracles import clouds
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import HEADS, CosineHead, LinearHead
from tailcloud.kernels import FusedNetwork
from tailcloud.kernels.head_loss import LARGEST, ROWS, FusedClassify, fits
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.losses.gcl import SIGMA
from tailcloud.objectives import Classify

pytestmark = needs_somewhere

TOLERANCE = 2e-5 if INTERPRETED else 5e-3  # tensor cores multiply ten bits


class Network(FusedNetwork):
    """Features that are given, and a head."""

    def __init__(self, head, features):
        self.model, self.given = SimpleNamespace(head=head), features

    def features(self, images):
        return self.given


def counts_of(classes):
    return [max(1, int(500 * 0.7**number)) for number in range(classes)]


def batch_of(rows, classes, *, mixed):
    generator = torch.Generator().manual_seed(rows)
    target, other = (torch.randint(classes, (rows,), generator=generator).to(DEVICE) for _ in range(2))
    images = torch.zeros(rows, 1, device=DEVICE)
    return Batch(images, target, other, torch.tensor(0.3, device=DEVICE)) if mixed else Batch(images, target)


def features_of(rows, size):
    """The second one is zero, and has no direction."""
    features = torch.rand(rows, size, generator=torch.Generator().manual_seed(rows)) - 0.2
    features[min(1, rows - 1)] = 0
    return features.to(DEVICE)


def head_of(name, size, classes):
    torch.manual_seed(0)
    return HEADS[name](size, classes).to(DEVICE)


def computed(kind, loss, head, features, batch, *, factor=1.0):
    """The loss and all gradients of ``factor`` times it."""
    features = features.clone().requires_grad_()
    head.zero_grad()
    objective = kind(loss)
    noise = objective.draw(batch, torch.Generator(DEVICE).manual_seed(5))
    value = objective(Network(head, features), batch, noise)
    (factor * value).backward()
    return {"loss": value.detach(), "features": features.grad, **{n: p.grad for n, p in head.named_parameters()}}


def check_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        difference = (found[name] - value).abs().max() / value.abs().max().clamp(min=1e-9)
        assert difference < TOLERANCE, f"{name} differs by {difference:.1e}"


@pytest.mark.parametrize("mixed", [False, True], ids=["plain", "mixed"])
@pytest.mark.parametrize(("margin", "focal"), [(0.0, 0.0), (0.1, 0.0), (0.0, 2.0), (0.1, 1.0)])
@pytest.mark.parametrize("granularity", ["entry", "sample", "class"])
def test_clouded_cosines(granularity, margin, focal, mixed):
    loss = GCLLoss(counts_of(5), scale=20.0, margin=margin, focal=focal, granularity=granularity).to(DEVICE)
    case = loss, head_of("cosine", 10, 5), features_of(7, 10), batch_of(7, 5, mixed=mixed)
    check_same(computed(FusedClassify, *case), computed(Classify, *case))


@pytest.mark.parametrize("mixed", [False, True], ids=["plain", "mixed"])
@pytest.mark.parametrize(("name", "scale"), [("linear", 1.0), ("cosine", 30.0)])
def test_cross_entropy(name, scale, mixed):
    loss = CrossEntropyLoss(scale=scale)
    case = loss, head_of(name, 12, 6), features_of(9, 12), batch_of(9, 6, mixed=mixed)
    check_same(computed(FusedClassify, *case), computed(Classify, *case))


@pytest.mark.parametrize("name", ["cosine", "linear"])
@pytest.mark.parametrize("rows", [1, ROWS, ROWS + 1, 2 * ROWS + 5])
def test_any_number_of_samples(rows, name):
    loss = GCLLoss(counts_of(20), margin=0.1).to(DEVICE) if name == "cosine" else CrossEntropyLoss()
    case = loss, head_of(name, 16, 20), features_of(rows, 16), batch_of(rows, 20, mixed=True)
    check_same(computed(FusedClassify, *case), computed(Classify, *case))


@pytest.mark.parametrize(("size", "classes"), [(16, 1), (3, 2), (64, 100), (LARGEST, LARGEST)])
def test_any_number_of_classes(size, classes):
    loss = GCLLoss(counts_of(classes), focal=1.0).to(DEVICE)
    case = loss, head_of("cosine", size, classes), features_of(6, size), batch_of(6, classes, mixed=False)
    check_same(computed(FusedClassify, *case), computed(Classify, *case))


def test_an_anchor_without_a_direction():
    head = head_of("cosine", 10, 5)
    with torch.no_grad():
        head.weight[3] = 0
    case = GCLLoss(counts_of(5)).to(DEVICE), head, features_of(7, 10), batch_of(7, 5, mixed=False)
    check_same(computed(FusedClassify, *case), computed(Classify, *case))


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_gradients_scale_with_what_comes_from_above(name):
    case = CrossEntropyLoss(scale=5.0), head_of(name, 10, 5), features_of(7, 10), batch_of(7, 5, mixed=True)
    check_same(computed(FusedClassify, *case, factor=-3.0), computed(Classify, *case, factor=-3.0))


@pytest.mark.parametrize("granularity", ["entry", "sample", "class"])
def test_the_loss_is_the_formula(granularity):
    options = {"scale": 12.0, "noise": 0.8, "margin": 0.1, "focal": 1.5, "strategy": "pow3"}
    counts = [90, 20, 6, 1]
    objective = FusedClassify(GCLLoss(counts, granularity=granularity, **options).to(DEVICE))
    head, features, batch = head_of("cosine", 10, 4), features_of(6, 10), batch_of(6, 4, mixed=True)
    noise = objective.draw(batch, torch.Generator(DEVICE).manual_seed(1))
    noise[0][0, 0] = 4.0  # beyond 3σ, where a cloud ends
    cosine = (normalize(features.double(), dim=1) @ normalize(head.weight.double(), dim=1).T).tolist()
    first, second = (
        clouds.gcl_loss(cosine, target.tolist(), (drawn.double() / 3).clamp(-1, 1).tolist(), counts, **options)
        for target, drawn in zip((batch.target, batch.other), noise, strict=True)
    )
    value = objective(Network(head, features), batch, noise).item()
    assert value == pytest.approx(0.3 * first + 0.7 * second, rel=TOLERANCE)


@pytest.mark.parametrize("granularity", ["entry", "sample", "class"])
def test_the_same_generator_draws_the_same_clouds(granularity):
    loss, batch = GCLLoss(counts_of(5), granularity=granularity).to(DEVICE), batch_of(7, 5, mixed=True)
    plain, fused = (
        kind(loss).draw(batch, torch.Generator(DEVICE).manual_seed(2)) for kind in (Classify, FusedClassify)
    )
    for epsilon, drawn in zip(plain, fused, strict=True):
        assert torch.equal(drawn.mul(SIGMA).abs().clamp(max=1.0), epsilon)
    assert FusedClassify(loss).draw(batch_of(7, 5, mixed=False), torch.Generator(DEVICE))[1] is None
    assert FusedClassify(CrossEntropyLoss()).draw(batch, torch.Generator(DEVICE)) == (None, None)


@pytest.mark.parametrize("name", ["cosine", "linear"])
def test_nan_in_a_feature_reaches_the_loss(name):
    features = features_of(7, 10)
    features[4, 2] = torch.nan
    found = computed(
        FusedClassify, CrossEntropyLoss(scale=5.0), head_of(name, 10, 5), features, batch_of(7, 5, mixed=False)
    )
    assert found["loss"].isnan()


def test_only_the_head_may_learn():
    """As in a second stage: the features have no gradient to receive."""
    head, batch = head_of("cosine", 10, 5), batch_of(7, 5, mixed=False)
    objective = FusedClassify(GCLLoss(counts_of(5)).to(DEVICE))
    objective(Network(head, features_of(7, 10)), batch, objective.draw(batch, torch.Generator(DEVICE))).backward()
    assert head.weight.grad.abs().sum() > 0


class OtherLoss(GCLLoss):
    """Its formula may be another one."""


class OtherHead(CosineHead):
    """Its cosines may be others."""


@pytest.mark.parametrize(
    ("head", "loss", "fit"),
    [
        (CosineHead(64, 100), GCLLoss(counts_of(100)), True),
        (LinearHead(LARGEST, LARGEST), CrossEntropyLoss(), True),
        (CosineHead(64, LARGEST + 1), GCLLoss(counts_of(LARGEST + 1)), False),
        (CosineHead(LARGEST + 1, 10), GCLLoss(counts_of(10)), False),
        (CosineHead(64, 100), OtherLoss(counts_of(100)), False),
        (OtherHead(64, 100), GCLLoss(counts_of(100)), False),
        (LinearHead(64, 10), CrossEntropyLoss(counts_of(10), weights="inverse"), False),
        (LinearHead(64, 10), CrossEntropyLoss(smoothing=0.1), False),
        (CosineHead(64, 10), GCLLoss(counts_of(10), tau=1.0), False),
    ],
    ids=[
        "usual",
        "largest",
        "too many classes",
        "too many features",
        "another loss",
        "another head",
        "class weights",
        "smoothed labels",
        "logit adjustment",
    ],
)
def test_what_fits(head, loss, fit):
    assert fits(head, loss) == fit
    model = build_classifier(Architecture("resnet8", "cosine", 0.25, 1, 3), 0).to(memory_format=torch.channels_last)
    network = FusedNetwork(model, 4, 4)
    network.model.head = head
    assert type(network.objective(Classify(loss))) is (FusedClassify if fit else Classify)
