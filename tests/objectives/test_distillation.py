"""Distillation: the divergence against a naive one in float64, its edge cases, and what it asks of the network."""

from dataclasses import replace

import pytest
import torch

from helpers.networks import Flat
from helpers.oracles import objectives as oracle
from helpers.three_views import three_views
from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import BCLHead, CosineHead, LinearHead
from tailcloud.losses import CrossEntropyLoss, GCLLoss
from tailcloud.objectives import BCL, Classify, FeatureNoise
from tailcloud.objectives.distillation import Distillation, soft_divergence
from tailcloud.objectives.drop_path import DropPath

COUNTS, FEATURES, ROWS = [40, 9, 2, 1], 6, 7


def logits(seed, rows=ROWS, classes=4):
    return 3 * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_divergence_is_the_naive_one(temperature, classes):
    student, teacher = logits(0, classes=classes), logits(1, classes=classes)
    found = soft_divergence(student, teacher, temperature)
    expected = oracle.soft_divergence(student.tolist(), teacher.tolist(), temperature)
    torch.testing.assert_close(found.item(), expected, rtol=1e-10, atol=1e-12)


def test_a_class_that_the_teacher_never_predicts_adds_nothing_and_no_nan():
    student, teacher = logits(0).requires_grad_(), logits(1)
    teacher[:, 2] = -torch.inf
    found = soft_divergence(student, teacher, 4.0)
    assert found.item() == pytest.approx(oracle.soft_divergence(student.tolist(), teacher.tolist(), 4.0))
    found.backward()
    assert student.grad.isfinite().all()


def test_a_student_that_agrees_up_to_a_constant_has_no_loss_and_no_gradient():
    student = logits(0).requires_grad_()
    value = soft_divergence(student, logits(0) + 5, 4.0)
    value.backward()
    assert abs(value.item()) < 1e-12
    assert student.grad.abs().max() < 1e-12


def test_the_gradient_keeps_its_size_when_the_temperature_grows():
    sizes = []
    for temperature in (20.0, 200.0):
        student = logits(0).requires_grad_()
        soft_divergence(student, logits(1), temperature).backward()
        sizes.append(student.grad.norm().item())
    assert sizes[0] == pytest.approx(sizes[1], rel=0.1)


def test_an_empty_batch_costs_nothing():
    assert soft_divergence(logits(0, rows=0), logits(1, rows=0), 4.0).item() == 0


class FixedTeacher(torch.nn.Module):
    """Logits that are a fixed function of the images."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(logits(9, rows=FEATURES))

    def forward(self, images):
        return images @ self.weight.to(images)


def batch_of(dtype=torch.float64, *, mixed=False):
    generator = torch.Generator().manual_seed(3)
    batch = Batch(
        torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64).to(dtype),
        torch.randint(4, (ROWS,), generator=generator),
    )
    return replace(batch, other=batch.target.flip(0), lam=torch.tensor(0.3, dtype=dtype)) if mixed else batch


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("kind", ["ce", "gcl", "feature-noise"])
def test_the_objective_is_the_other_one_and_the_weighted_divergence_of_the_scaled_outputs(kind, mixed):
    torch.manual_seed(0)
    head = (CosineHead if kind == "gcl" else LinearHead)(FEATURES, 4).double()
    loss = GCLLoss(COUNTS, scale=10.0) if kind == "gcl" else CrossEntropyLoss(COUNTS, scale=2.0)
    plain = FeatureNoise(loss, COUNTS, FEATURES) if kind == "feature-noise" else Classify(loss)
    teacher, batch = FixedTeacher(), batch_of(mixed=mixed)
    whole = Distillation(plain, teacher, temperature=3.0, weight=0.7)
    noise = whole.draw(batch, torch.Generator().manual_seed(5))
    network = Flat(head)
    student = loss.scale * head(batch.images)
    expected = plain(network, batch, noise).item() + 0.7 * oracle.soft_divergence(
        student.tolist(), teacher(batch.images).tolist(), 3.0
    )
    value = whole(network, batch, noise)
    assert value.item() == pytest.approx(expected, rel=1e-9)
    value.backward()
    assert teacher.weight.grad is None
    assert head.weight.grad.norm() > 0


def test_half_precision_outputs_are_compared_in_float32():
    head = LinearHead(FEATURES, 4).bfloat16()
    whole, batch = Distillation(Classify(CrossEntropyLoss(COUNTS)), FixedTeacher()), batch_of(torch.bfloat16)
    value = whole(Flat(head), batch, whole.draw(batch, torch.Generator()))
    assert value.dtype == torch.float32
    assert value.isfinite()


def test_the_student_computes_its_outputs_once():
    calls = []

    class Counting(Flat):
        def __call__(self, images):
            calls.append(1)
            return super().__call__(images)

    whole, batch = Distillation(Classify(CrossEntropyLoss(COUNTS)), FixedTeacher()), batch_of()
    whole(Counting(LinearHead(FEATURES, 4).double()), batch, whole.draw(batch, torch.Generator()))
    assert calls == [1]


@pytest.mark.parametrize("dropping", [False, True])
def test_teachers_that_were_asked_ahead_are_not_asked_again(dropping):
    asked = []

    class Teacher(FixedTeacher):
        def forward(self, images):
            asked.append(1)
            return super().forward(images)

    whole, batch = Distillation(Classify(CrossEntropyLoss(COUNTS)), Teacher()), batch_of()
    network, noise = Flat(LinearHead(FEATURES, 4).double()), whole.draw(batch, torch.Generator())
    expected = whole(network, batch, noise)
    ahead = (DropPath(whole, [0.0]) if dropping else whole).precompute(batch)
    assert not ahead.teacher_logits.requires_grad
    assert torch.equal(whole(network, ahead, noise), expected)
    assert len(asked) == 2


def test_teachers_see_the_view_that_is_classified():
    """L_bcl + T²·KL for the outputs of the first view."""
    head, seen = BCLHead(FEATURES, 4).double(), []
    batch = three_views(1, 6, 4)

    class Teacher(torch.nn.Module):
        def forward(self, images):
            seen.append(images)
            return images[:, :4]

    plain = BCL(CrossEntropyLoss(COUNTS))
    whole = Distillation(plain, Teacher(), temperature=2.0, weight=0.5)
    noise = whole.draw(batch, torch.Generator())
    own = plain(Flat(head), batch, noise).item()
    divergence = oracle.soft_divergence(head(batch.images).tolist(), batch.images[:, :4].tolist(), 2.0)
    assert whole(Flat(head), batch, noise).item() == pytest.approx(own + 0.5 * divergence, rel=1e-9)
    assert len(seen) == 1
    assert torch.equal(seen[0], batch.images)
