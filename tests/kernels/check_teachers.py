"""Teachers in fused kernels: the same mean logits as in PyTorch's, and those that do not fit stay as they are."""

import torch

from helpers.kernel_device import DEVICE, needs_somewhere
from tailcloud import kernels
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.kernels import FusedNetwork
from tailcloud.kernels.residual import FusedResNet
from tailcloud.training.teachers import Teachers, kernel_remarks

pytestmark = needs_somewhere

SIZE, CLASSES = (8, 8), 4


def model_of(backbone, seed, width=0.5):
    """A classifier whose batch norm has seen something."""
    model = build_classifier(Architecture(backbone, "linear", width, 3, CLASSES), seed)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    with torch.no_grad():
        model.train()(torch.randn(16, 3, *SIZE, generator=torch.Generator().manual_seed(seed)).to(DEVICE))
    return model


def exact(monkeypatch):
    """Maps in float32, so that only the kernels differ."""
    monkeypatch.setattr(FusedResNet.__init__, "__defaults__", (torch.float32,))


def images():
    return torch.randn(3, 3, *SIZE, generator=torch.Generator().manual_seed(9)).to(DEVICE)


def test_mean_logits_are_those_of_the_plain_models(monkeypatch):
    exact(monkeypatch)
    teachers = Teachers([model_of("resnet8", 0), model_of("resnet8", 1)], [1.0, 30.0], None)
    plain = teachers(images())
    teachers.use_fused_kernels(*SIZE)
    assert [type(network) for network in teachers.networks] == [FusedNetwork, FusedNetwork]
    with torch.no_grad():
        torch.testing.assert_close(teachers(images()), plain, rtol=1e-4, atol=1e-4)
    teachers.use_plain_kernels()
    assert torch.equal(teachers(images()), plain)


def test_a_teacher_that_does_not_fit_stays_in_plain_kernels(monkeypatch):
    exact(monkeypatch)
    wide, other = model_of("resnet8", 0, width=2.0), model_of("resnet8-2-experts", 1, width=2.0)
    teachers = Teachers([wide, other], [1.0, 1.0], None)
    teachers.use_fused_kernels(*SIZE)
    assert teachers.networks == [wide, other]


def test_an_average_is_computed_by_the_kernels_of_its_networks(monkeypatch):
    exact(monkeypatch)
    model = model_of("resnet8-2-networks", 0)
    teachers = Teachers([model, model_of("resnet8", 1)], [30.0, 1.0], None)
    plain = teachers(images())
    teachers.use_fused_kernels(*SIZE)
    assert [type(network) for network in teachers.networks] == [FusedNetwork, FusedNetwork]
    assert [type(network) for network in teachers.networks[0].backbone.networks] == [FusedResNet, FusedResNet]
    with torch.no_grad():
        torch.testing.assert_close(teachers(images()), plain, rtol=1e-4, atol=1e-4)


def test_a_teacher_in_plain_kernels_is_a_remark(monkeypatch):
    exact(monkeypatch)
    wide, average = model_of("resnet8", 0, width=2.0), model_of("resnet8-2-networks", 1, width=2.0)
    teachers = Teachers([wide, model_of("resnet8-2-networks", 2), average], [1.0, 1.0, 1.0], None)
    remarks = kernel_remarks(teachers, ["runs/wide", "runs/small", "runs/average"], *SIZE)
    assert len(remarks) == 2
    assert "runs/wide is computed by PyTorch's kernels" in remarks[0]
    assert "runs/average is computed by PyTorch's kernels" in remarks[1]
    assert "at most 64 channels" in remarks[1]


def test_a_teacher_whose_kernels_do_not_compile_stays_in_plain_kernels(monkeypatch):
    def fail(self, beside=()):
        raise kernels.CannotFuse("no compiler")

    monkeypatch.setattr(FusedResNet, "compile", fail)
    model = model_of("resnet8", 0)
    teachers = Teachers([model], [1.0], None)
    teachers.use_fused_kernels(*SIZE)
    assert teachers.networks == [model]


def test_teachers_have_no_gradient_and_do_not_change(monkeypatch):
    exact(monkeypatch)
    teachers = Teachers([model_of("resnet8", 0)], [1.0], None)
    teachers.use_fused_kernels(*SIZE)
    before = {name: value.clone() for name, value in teachers.state_dict().items()}
    teachers.train()
    assert not teachers(images()).requires_grad
    assert all(torch.equal(value, before[name]) for name, value in teachers.state_dict().items())
