"""What registering refuses, because it would go wrong without a word later."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tailcloud.errors import UsageError
from tailcloud.head_transforms import HEAD_TRANSFORMS, HeadTransform
from tailcloud.heads import HEADS, Head
from tailcloud.losses import LOSSES, Loss
from tailcloud.objectives import OBJECTIVES, Classify, Objective
from tailcloud.optimizers import OPTIMIZERS, SGD, Optimizer
from tailcloud.plugins import register_head_transform, register_loss, register_objective, register_optimizer

KNOWN = [LOSSES, OBJECTIVES, HEAD_TRANSFORMS, OPTIMIZERS]


@pytest.fixture(autouse=True)
def forget():
    before = [set(known) for known in KNOWN]
    yield
    for known, names in zip(KNOWN, before, strict=True):
        for name in set(known) - names:
            del known[name]


def refusal(register, part):
    """The sentence with which a part is refused."""
    with pytest.raises(UsageError) as caught:
        register("mine", part)
    assert all("mine" not in known for known in KNOWN)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("register", "part"),
    [
        (register, part)
        for register, known in (
            (register_loss, LOSSES),
            (register_objective, OBJECTIVES),
            (register_head_transform, HEAD_TRANSFORMS),
            (register_optimizer, OPTIMIZERS),
        )
        for part in known.values()
    ],
)
def test_every_part_of_our_own_keeps_its_contract_and_leaves_random_numbers_alone(register, part):
    before = torch.get_rng_state()
    register("mine", part)
    assert torch.equal(torch.get_rng_state(), before)


class Learned(Loss):
    """A loss that hopes to be trained itself."""

    def __init__(self, counts):
        super().__init__(1.0)
        self.temperature = nn.Parameter(torch.ones(len(counts)))

    def forward(self, output, target, *, epsilon=None):
        return F.cross_entropy(output / self.temperature, target)


class Weighted(Loss):
    """A mean over images only where classes are as frequent as in the batch."""

    per_image = True

    def __init__(self, counts):
        super().__init__(1.0)
        self.register_buffer("weights", 1 / torch.tensor(counts), persistent=False)

    def forward(self, output, target, *, epsilon=None):
        return F.cross_entropy(output, target, self.weights)


def test_a_loss_with_parameters_is_refused_because_nobody_would_train_them():
    assert "Learned has the parameter temperature, which no stage trains or saves" in refusal(register_loss, Learned)


def test_a_loss_that_is_no_mean_over_images_may_not_say_so():
    assert refusal(register_loss, Weighted).startswith(
        "Weighted declares per_image = True, but the gradient of a batch"
    )
    Weighted.per_image = False
    register_loss("mine", Weighted)


class Plain(Objective):
    """The smallest objective; the others here differ in what is wrong with them."""

    mixes = False

    def draw(self, batch, generator):
        return self.loss.draw(batch.rows, batch.target.device, generator)

    def forward(self, network, batch, noise):
        return self.loss(network(batch.images), batch.target, epsilon=noise)


class NoDraw(Objective):
    """Without ``draw``."""

    def forward(self, network, batch, noise):
        return network(batch.images).sum()


class NoForward(Objective):
    """Without ``forward``."""

    def draw(self, batch, generator):
        return None


class ForgetsItsLoss(Plain):
    """The loss is under another name."""

    def __init__(self, loss, counts, features):
        nn.Module.__init__(self)
        self.criterion = loss


class OtherLoss(Plain):
    """A loss that is not the one of the recipe."""

    def __init__(self, loss, counts, features):
        super().__init__(LOSSES["ce"](), counts, features)


class Trained(Plain):
    """A module of its own."""

    def __init__(self, loss, counts, features, *, size: int = 8):
        super().__init__(loss, counts, features)
        self.projection = nn.Linear(features, size)


class Loose(Plain):
    """A tensor that is no buffer."""

    def __init__(self, loss, counts, features):
        super().__init__(loss, counts, features)
        self.margins = torch.tensor(counts)


class LateViews(Plain):
    """Views that recipes do not see."""

    def __init__(self, loss, counts, features):
        super().__init__(loss, counts, features)
        self.views = 2


class LateSecond(Plain):
    """A second batch that recipes do not see."""

    def __init__(self, loss, counts, features):
        super().__init__(loss, counts, features)
        self.second = True


class UnnamedHead(Head):
    """A head that is not registered."""


class NeedsUnnamed(Plain):
    """A head without a name."""

    needs = UnnamedHead


class NoScalar(Plain):
    """A value for each image."""

    def forward(self, network, batch, noise):
        return F.cross_entropy(network(batch.images), batch.target, reduction="none")


class NoGradient(Plain):
    """A figure to look at."""

    def forward(self, network, batch, noise):
        return super().forward(network, batch, noise).detach()


class Detached(Plain):
    """A value that depends on no weight."""

    def forward(self, network, batch, noise):
        return network.features(batch.images).detach().requires_grad_().mean()


class AloneIsNaN(Plain):
    """The usual slip of supervised contrasts: an image alone in its class has no positive."""

    def forward(self, network, batch, noise):
        features = F.normalize(network.features(batch.images), dim=1)
        positives = (batch.target[:, None] == batch.target).float() - torch.eye(len(batch.target))
        return -((features @ features.T * positives).sum(dim=1) / positives.sum(dim=1)).mean()


class Infinite(Plain):
    """An infinite value whose gradients are finite."""

    def forward(self, network, batch, noise):
        return super().forward(network, batch, noise) + (batch.target == 7).sum().log()


class RootOfZero(Plain):
    """A finite value whose gradient is not: the root has none at 0."""

    def forward(self, network, batch, noise):
        features = network.features(batch.images)
        distance = (features[:1] - features[:1]).square().sum().sqrt()
        return self.loss(network.head(features), batch.target, epsilon=noise) + distance


class EndsInNaN(Plain):
    """A value that is finite at the start of a stage only."""

    weight = 0.0

    def advance(self, share):
        super().advance(share)
        self.weight = 0.0 if share < 0.5 else float("inf")

    def forward(self, network, batch, noise):
        return super().forward(network, batch, noise) + self.weight


class Passes(Plain):
    """Passes of the network one after the other."""

    def forward(self, network, batch, noise):
        consistency = (network(batch.images) - network(batch.images.flip(3))).square().mean()
        return super().forward(network, batch, noise) + consistency


class PassesForMixed(Classify):
    """Another pass for images that are mixed."""

    def forward(self, network, batch, noise):
        value = super().forward(network, batch, noise)
        return value if batch.other is None else value + network(batch.images).square().mean()


class Queue(Plain):
    """A memory that no checkpoint has."""

    def __init__(self, loss, counts, features):
        super().__init__(loss, counts, features)
        self.register_buffer("queue", torch.zeros(features))

    def forward(self, network, batch, noise):
        features = network.features(batch.images)
        self.queue.lerp_(features.detach().mean(dim=0), 0.1)
        return self.loss(network.head(features - self.queue), batch.target, epsilon=noise)


class Undrawn(Plain):
    """The loss's random numbers are left out."""

    def forward(self, network, batch, noise):
        return self.loss(network(batch.images), batch.target)


class DrawsInside(Plain):
    """Random numbers that no seed decides."""

    def forward(self, network, batch, noise):
        return super().forward(network, batch, noise) * (1 + torch.rand(()))


class CountsSteps(Plain):
    """A number that no checkpoint has."""

    steps = 0

    def forward(self, network, batch, noise):
        self.steps += 1
        return super().forward(network, batch, noise) / self.steps


class DeafLoss(Plain):
    """The loss is not told how far the stage is."""

    def advance(self, share):
        pass


class Moves(Plain):
    """A new buffer in every epoch."""

    def __init__(self, loss, counts, features):
        super().__init__(loss, counts, features)
        self.register_buffer("alpha", torch.ones(()), persistent=False)

    def advance(self, share):
        super().advance(share)
        self.alpha = torch.tensor(1 - share)


class Accumulates(Moves):
    """What it sets depends on the epochs before."""

    def advance(self, share):
        super(Moves, self).advance(share)
        self.alpha.mul_(0.9)

    def forward(self, network, batch, noise):
        return self.alpha * super().forward(network, batch, noise)


class IgnoresPartners(Plain):
    """Mixed images with the classes of one of the two."""

    mixes = True


class Compares(Plain):
    """A contrast within the batch that says it has none."""

    per_image = True

    def forward(self, network, batch, noise):
        features = network.features(batch.images)
        return super().forward(lambda _: network.head(features - features.mean(dim=0)), batch, noise)


class Views(Classify):
    """Outputs of other images than those of the batch."""

    views = 1

    def with_outputs(self, network, batch, noise):
        outputs = network(torch.cat([batch.images, *batch.views]))
        return self.of_outputs(outputs[: len(batch.target)], batch, noise), outputs


class OnePrior(Plain):
    """A prior of one number."""

    def prior(self, first, second):
        return first.max()


OBJECTIVE_REFUSALS = {
    NoDraw: "NoDraw needs draw(self, batch, generator)",
    NoForward: "NoForward needs forward(self, network, batch, noise)",
    ForgetsItsLoss: "ForgetsItsLoss must keep its loss; call super().__init__(loss, counts, features)",
    OtherLoss: "OtherLoss must keep its loss; call super().__init__(loss, counts, features)",
    Trained: "Trained has the parameter projection.weight, which no stage trains or saves; put it into a head",
    Loose: 'Loose keeps the tensor margins where no GPU finds it; write self.register_buffer("margins"',
    LateViews: "LateViews must set views in the class",
    LateSecond: "LateSecond must set second in the class",
    NeedsUnnamed: "NeedsUnnamed needs the head UnnamedHead, which has no name yet; call tailcloud.register_head first",
    NoScalar: "NoScalar must return the value to minimise as a scalar tensor with a gradient",
    NoGradient: "NoGradient must return the value to minimise as a scalar tensor with a gradient",
    Detached: "the value of Detached does not depend on the network",
    AloneIsNaN: "AloneIsNaN has a value or a gradient that is NaN or infinite, for a batch of 6 images of which one is",
    Infinite: "Infinite has a value or a gradient that is NaN or infinite",
    RootOfZero: "RootOfZero has a value or a gradient that is NaN or infinite",
    EndsInNaN: "EndsInNaN has a value or a gradient that is NaN or infinite",
    PassesForMixed: "PassesForMixed computes features 2 times in a step",
    Passes: "Passes computes features 3 times in a step; join the images with torch.cat",
    Queue: "Queue changes its buffer queue in a step, which no checkpoint saves",
    Undrawn: "Undrawn calls its loss without random numbers",
    DrawsInside: "DrawsInside gives two values for the same weights, batch and random numbers",
    CountsSteps: "CountsSteps gives two values for the same weights, batch and random numbers",
    DeafLoss: "DeafLoss.advance does not tell its loss; call super().advance(share)",
    Moves: "Moves.advance must change the buffer alpha in place, as self.alpha.fill_(…) does",
    Accumulates: "Accumulates.advance depends on earlier calls, so a resumed run would differ",
    IgnoresPartners: "IgnoresPartners does not use the classes of the partners of mixed images (batch.other",
    Compares: "Compares declares per_image = True, but the gradient of a batch",
    Views: "Views.with_outputs gives outputs of shape (12, 2) for 6 images and 2 classes",
    OnePrior: "OnePrior.prior must return one share per class",
    nn.Linear: "the objective Linear must take loss, counts and features first",
    lambda loss, counts, features: Plain(loss): "must be a tailcloud.objectives.Objective; write class",
}


@pytest.mark.parametrize(("objective", "sentence"), OBJECTIVE_REFUSALS.items())
def test_an_objective_that_would_go_wrong_later_is_refused_by_a_sentence(objective, sentence):
    assert sentence in refusal(register_objective, objective)


def test_the_smallest_objective_is_accepted_with_its_random_numbers_and_without_mixing():
    register_objective("mine", Plain)
    assert OBJECTIVES["mine"] is Plain


class Consistent(Plain):
    """A mean over images, each with a view of its own."""

    per_image = True
    views = 1

    def forward(self, network, batch, noise):
        outputs, others = network(torch.cat([batch.images, *batch.views])).chunk(2)
        return self.loss(outputs, batch.target, epsilon=noise) + (outputs - others).square().mean()


def test_pieces_of_a_batch_have_the_views_of_their_images():
    register_objective("mine", Consistent)
    assert OBJECTIVES["mine"] is Consistent


class Keep(HeadTransform):
    """The smallest head transform; the others here differ in what is wrong with them."""

    def apply(self, old, new, trained):
        new.load_state_dict(old.state_dict())


class Counts(HeadTransform):
    """Forgets its counts."""

    def __init__(self, counts):
        pass

    apply = Keep.apply


class Picky(Keep):
    """Nothing is good enough."""

    def head_after(self, before):
        raise ValueError(f"no {before} head, please")


class Nowhere(Keep):
    """A head that nobody knows."""

    def head_after(self, before):
        return "linaer"


class LinearOnly(HeadTransform):
    """It accepts every head and fills one kind."""

    def apply(self, old, new, trained):
        new.weight.copy_(old.weight)
        new.bias.copy_(old.bias)


class Linear(Keep):
    """Base of those that fill linear heads."""

    def head_after(self, before):
        if before != "linear":
            raise ValueError("linear heads only")
        return before


class NeedsHeldOut(Linear):
    """It takes held-out images for granted."""

    def apply(self, old, new, trained):
        new.weight.copy_(old.weight * float(trained.held_out().outputs.std()))


class Noisy(Linear):
    """Random weights that no seed decides."""

    def apply(self, old, new, trained):
        new.weight.copy_(old.weight + torch.randn_like(old.weight))


class ChangesOld(Linear):
    """It writes into the trained head."""

    def apply(self, old, new, trained):
        new.load_state_dict(old.state_dict())
        old.bias.zero_()


class ChangesLabels(Linear):
    """It writes into the labels of the data."""

    def apply(self, old, new, trained):
        trained.features()[1].clamp_(max=0)


class Reshapes(Linear):
    """A head that a saved model cannot be read with."""

    def apply(self, old, new, trained):
        new.bias = None


class Divides(Linear):
    """0 / 0."""

    def apply(self, old, new, trained):
        new.weight.copy_((old.weight - old.weight) / 0)


class TransformPrior(Keep):
    """A prior that is negative."""

    def prior(self, before):
        return -before


TRANSFORM_REFUSALS = {
    HeadTransform: "HeadTransform needs apply(self, old, new, trained), which fills the new head",
    Counts: "Counts has no counts; call super().__init__(counts)",
    Picky: "Picky.head_after refuses every head: no linear head, please",
    Nowhere: 'Nowhere.head_after("linear") is "linaer", which is no head',
    LinearOnly: "LinearOnly fails on a cosine head (AttributeError: ",
    NeedsHeldOut: "NeedsHeldOut fails on a linear head without held-out images (AttributeError: ",
    Noisy: "Noisy gives a linear head other weights each time",
    ChangesOld: "ChangesOld changes bias of the trained model; fill the new head alone",
    ChangesLabels: "ChangesLabels changes labels of the trained model",
    Reshapes: "Reshapes changes names or shapes of tensors of a linear head",
    Divides: "Divides makes a linear head whose outputs are NaN, from a linear head",
    TransformPrior: "TransformPrior.prior must return one share per class",
    nn.Linear: "the head transform Linear must take counts first",
    lambda counts: counts: "must return a tailcloud.head_transforms.HeadTransform",
}


@pytest.mark.parametrize(("transform", "sentence"), TRANSFORM_REFUSALS.items())
def test_a_head_transform_that_would_go_wrong_later_is_refused_by_a_sentence(transform, sentence):
    assert sentence in refusal(register_head_transform, transform)


def test_a_transform_may_refuse_heads_and_is_tried_on_the_others():
    register_head_transform("mine", Linear)
    register_head_transform("kept", Keep)
    assert {"mine", "kept"} <= set(HEAD_TRANSFORMS)
    assert len(HEADS) > 10


class Descent(Optimizer):
    """The smallest optimiser; the others here differ in what is wrong with them."""

    buffer_names = ()

    def update_unfused(self, names, rate, decay):
        for name in names:
            self.parameters[name].sub_(rate * self.parameters[name].grad)


class NoUpdate(Optimizer):
    """Without an update."""

    buffer_names = ()


class NoNames(Optimizer):
    """Without the names of buffers."""

    update_unfused = Descent.update_unfused


class Everything(Descent):
    """It decays what has no gradient, too."""

    def update_unfused(self, names, rate, decay):
        super().update_unfused(names, rate, decay)
        for parameter in self.parameters.values():
            parameter.mul_(1 - rate * decay)


class Matrices(Descent):
    """It leaves out what is no matrix."""

    def update_unfused(self, names, rate, decay):
        super().update_unfused([name for name in names if self.parameters[name].ndim > 1], rate, decay)


class NeverCounts(Descent):
    """A bias correction of 0."""

    def update_unfused(self, names, rate, decay):
        for name in names:
            self.parameters[name].sub_(rate * self.parameters[name].grad / self.count)


class Replaces(Descent):
    """New memory in each update."""

    def update_unfused(self, names, rate, decay):
        for name in names:
            self.parameters[name].data = self.parameters[name] - rate * self.parameters[name].grad


class Langevin(Descent):
    """Noise that no seed decides."""

    def update_unfused(self, names, rate, decay):
        super().update_unfused(names, rate, decay)
        for name in names:
            self.parameters[name].add_(rate * torch.randn_like(self.parameters[name]))


class OtherFused(Descent):
    """Another update on some devices."""

    def update_fused(self, names, rate, decay):
        super().update_unfused(names, 2 * rate, decay)


class OwnCount(Descent):
    """A number of updates that no checkpoint has."""

    done = 0

    def update_unfused(self, names, rate, decay):
        self.done += 1
        super().update_unfused(names, rate / self.done, decay)


class OwnRate(Descent):
    """No schedule has an effect."""

    def update_unfused(self, names, rate, decay):
        super().update_unfused(names, 0.01, decay)


class Alpha(Descent):
    """The usual way to write it, which reads the learning rate."""

    def update_unfused(self, names, rate, decay):
        for name in names:
            self.parameters[name].add_(self.parameters[name].grad, alpha=-rate)


class Trusts(Descent):
    """A condition on a tensor."""

    def update_unfused(self, names, rate, decay):
        large = self.parameters[names[0]].grad.norm() > 1
        super().update_unfused(names, rate if large else 2 * rate, decay)


OPTIMIZER_REFUSALS = {
    NoUpdate: "NoUpdate needs update_unfused(self, names, rate, decay)",
    NoNames: "NoNames needs the class attribute buffer_names",
    Everything: "Everything updates a parameter without a gradient; update those of names alone",
    Matrices: "Matrices does not update every parameter of names",
    NeverCounts: "NeverCounts makes weights that are NaN or infinite; write counts = True",
    Replaces: "Replaces must update layer.weight in place",
    Langevin: "Langevin gives two results for the same weights and gradients",
    OtherFused: "update_fused and update_unfused of OtherFused differ",
    OwnCount: "OwnCount remembers something that a checkpoint does not save",
    OwnRate: "OwnRate does not use the learning rate",
    Alpha: "Alpha reads the value of a tensor in Python, as item() and alpha= do",
    Trusts: "Trusts reads the value of a tensor in Python",
    torch.optim.SGD: "the optimiser SGD must take settings, parameters, device and layers first",
    lambda settings, parameters, device, layers: None: "must be a tailcloud.optimizers.Optimizer; write class",
}


@pytest.mark.parametrize(("optimizer", "sentence"), OPTIMIZER_REFUSALS.items())
def test_an_optimiser_that_would_go_wrong_later_is_refused_by_a_sentence(optimizer, sentence):
    assert sentence in refusal(register_optimizer, optimizer)


def test_an_optimiser_needs_one_update_only_and_may_count():
    class Counting(Descent):
        counts = True

        def update_unfused(self, names, rate, decay):
            super().update_unfused(names, rate / self.count, decay)

    for name, optimizer in {"mine": Descent, "counting": Counting}.items():
        register_optimizer(name, optimizer)
        assert OPTIMIZERS[name] is optimizer


def test_a_name_is_taken_once_and_the_same_part_may_come_again():
    register_optimizer("mine", Descent)
    register_optimizer("mine", Descent)
    with pytest.raises(UsageError, match='there is an optimiser "mine" already; give yours another name'):
        register_optimizer("mine", SGD)
    with pytest.raises(UsageError, match='"my/own" is not a valid name for an objective'):
        register_objective("my/own", Plain)
