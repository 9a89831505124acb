"""Updates of all optimisers against naive ones in float64, and what is done around them."""

import copy

import numpy as np
import pytest
import torch

from helpers.oracles import optimizers as naive
from tailcloud.classifier import Architecture, build_classifier
from tailcloud.optimizers import OPTIMIZERS, SGD, AdamW
from tailcloud.recipe import Stage

CPU = torch.device("cpu")
LRS = [0.3, 0.2, 0.1, 0.25]


def staged(**settings):
    return Stage.model_validate(
        {"epochs": 1, "loss": "gcl", "lr": 0.3, "momentum": 0.8, "weight_decay": 0.05, **settings}
    )


STAGE = staged()


@pytest.fixture
def model():
    return build_classifier(Architecture("resnet8", "linear", 0.25, 1, 3), 0).double()


def moved(model, optimizer, steps=4):
    """Some steps along random gradients: where each parameter was before, its gradients, and where it went."""
    parameters = dict(model.named_parameters())
    start = {name: p.detach().clone().numpy() for name, p in parameters.items()}
    generator = torch.Generator().manual_seed(0)
    gradients = {name: [] for name in parameters}
    after = {name: [] for name in parameters}
    for lr in LRS[:steps]:
        optimizer.set_rate(lr)
        for name, parameter in parameters.items():
            parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            gradients[name].append(parameter.grad.numpy().copy())
        optimizer.step()
        for name, parameter in parameters.items():
            after[name].append(parameter.detach().numpy().copy())
    return start, gradients, after


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("kernel", ["cpu", "nothing"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_sgd_moves_every_parameter_by_the_formula(model, steps, kernel, nesterov, monkeypatch):
    monkeypatch.setattr("tailcloud.optimizers.base.FUSED_DEVICES", {kernel})
    optimizer = SGD(STAGE, dict(model.named_parameters()), CPU, nesterov=nesterov)
    start, gradients, after = moved(model, optimizer, steps)
    assert {"backbone.bn1.weight", "backbone.bn1.bias", "head.weight", "head.bias"} <= after.keys()
    for name in start:
        settings = {"lrs": LRS[:steps], "momentum": 0.8, "decay": 0.05, "nesterov": nesterov}
        expected, velocity = naive.sgd(start[name], gradients[name], **settings)
        np.testing.assert_allclose(after[name], expected, rtol=1e-10)
        np.testing.assert_allclose(optimizer.buffers["momentum"][name].numpy(), velocity, rtol=1e-10)


@pytest.mark.parametrize("kernel", ["cpu", "nothing"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nesterov_momentum_is_pytorchs(model, kernel, dtype, monkeypatch):
    monkeypatch.setattr("tailcloud.optimizers.base.FUSED_DEVICES", {kernel})
    model.to(dtype)
    twin = copy.deepcopy(model)
    theirs = torch.optim.SGD(twin.parameters(), lr=0.3, momentum=0.8, weight_decay=0.05, nesterov=True)
    _, gradients, _ = moved(model, SGD(STAGE, dict(model.named_parameters()), CPU, nesterov=True))
    for step, lr in enumerate(LRS):
        theirs.param_groups[0]["lr"] = lr
        for name, parameter in twin.named_parameters():
            parameter.grad = torch.from_numpy(gradients[name][step])
        theirs.step()
    for (name, parameter), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter, other, msg=name)


def test_nesterov_momentum_without_momentum_is_refused():
    with pytest.raises(ValueError, match="nesterov = true needs a momentum greater than 0"):
        SGD(staged(momentum=0.0), {}, CPU, nesterov=True)


@pytest.mark.parametrize("options", [{}, {"beta1": 0.0, "beta2": 0.9, "epsilon": 0.1}])
@pytest.mark.parametrize("kernel", ["cpu", "nothing"])
def test_adamw_moves_every_parameter_by_the_formula(model, options, kernel, monkeypatch):
    monkeypatch.setattr("tailcloud.optimizers.base.FUSED_DEVICES", {kernel})
    start, gradients, after = moved(model, AdamW(STAGE, dict(model.named_parameters()), CPU, **options))
    full = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **options}
    for name in ("backbone.bn1.weight", "head.weight", "head.bias"):
        for place in np.ndindex(start[name].shape):
            numbers = [gradient[place] for gradient in gradients[name]]
            expected = naive.adamw(start[name][place], numbers, lrs=LRS, decay=0.05, **full)
            np.testing.assert_allclose([step[place] for step in after[name]], expected, rtol=1e-5)  # counts in float32


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_by_one_is_the_same_update_as_one_kernel(model, monkeypatch, name):
    twin = copy.deepcopy(model)
    for one, kernel in ((model, "cpu"), (twin, "nothing")):
        monkeypatch.setattr("tailcloud.optimizers.base.FUSED_DEVICES", {kernel})
        moved(one, OPTIMIZERS[name](STAGE, dict(one.named_parameters()), CPU))
    for first, second in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_remembered_is_there_before_the_first_step_and_zero(model, name):
    parameters = dict(model.named_parameters())
    optimizer = OPTIMIZERS[name](STAGE, parameters, CPU)
    for memory in optimizer.buffers.values():
        assert memory.keys() == parameters.keys()
        assert all((memory[name] == 0).all() and memory[name].shape == p.shape for name, p in parameters.items())
    assert all((value == 0).all() for value in optimizer.state.values())


def test_the_first_learning_rate_is_that_of_the_stage(model):
    (group,) = SGD(STAGE, dict(model.named_parameters()), CPU).groups
    assert group.rate == 0.3


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parts_with_a_factor_learn_by_so_much_more(model, name):
    stage = staged(lr_factors={"head": 0.1, "head.bias": 3.0})
    optimizer = OPTIMIZERS[name](stage, dict(model.named_parameters()), CPU)
    optimizer.set_rate(0.5)
    rates = {name: group.rate for group in optimizer.groups for name in group.names}
    assert rates.keys() == dict(model.named_parameters()).keys()
    assert (rates["head.weight"], rates["head.bias"], rates["backbone.bn1.bias"]) == (0.05, 1.5, 0.5)


def test_a_backbone_can_learn_more_slowly_than_its_head(model):
    """The first step of AdamW without decay is η times the sign of the gradient."""
    stage = staged(lr_factors={"backbone": 0.1}, weight_decay=0.0)
    start, gradients, after = moved(model, AdamW(stage, dict(model.named_parameters()), CPU), steps=1)
    for name, step in (("backbone.conv1.weight", 0.03), ("head.weight", 0.3)):
        np.testing.assert_allclose(after[name][0] - start[name], -step * np.sign(gradients[name][0]), rtol=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_parameter_without_a_gradient_stays(model, name):
    parameters = dict(model.named_parameters())
    optimizer = OPTIMIZERS[name](staged(clip=1.0), parameters, CPU)
    before = parameters["head.weight"].detach().clone()
    optimizer.step()
    parameters["head.bias"].grad = torch.ones_like(parameters["head.bias"])
    optimizer.step()
    assert torch.equal(parameters["head.weight"], before)
    assert torch.isfinite(parameters["head.bias"]).all()


@pytest.mark.parametrize("largest", [0.5, 1e6])
def test_the_gradient_as_a_whole_is_bounded(model, largest):
    start, gradients, after = moved(model, SGD(staged(clip=largest), dict(model.named_parameters()), CPU))
    shorter = [naive.clipped([gradients[name][step] for name in start], largest) for step in range(len(LRS))]
    for place, name in enumerate(start):
        own = [step[place] for step in shorter]
        expected, _ = naive.sgd(start[name], own, lrs=LRS, momentum=0.8, decay=0.05)
        np.testing.assert_allclose(after[name], expected, rtol=1e-9)


def test_a_gradient_of_zero_stays_zero(model):
    optimizer = SGD(staged(clip=1.0, weight_decay=0.0), dict(model.named_parameters()), CPU)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("decay", [0.9, 0.9999])
def test_the_average_weighs_the_latest_weights_most(model, name, decay):
    optimizer = OPTIMIZERS[name](staged(ema=decay), dict(model.named_parameters()), CPU)
    _, _, after = moved(model, optimizer)
    for part, history in after.items():
        expected = naive.average(history, decay)
        np.testing.assert_allclose(optimizer.average.weights[part].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_average_stands_in_for_the_weights_and_goes(model):
    optimizer = SGD(staged(ema=0.5), dict(model.named_parameters()), CPU)
    _, _, after = moved(model, optimizer)
    places = [parameter.data_ptr() for parameter in model.parameters()]
    with optimizer.averaged():
        within = model.head.weight.detach().clone()
        assert places == [parameter.data_ptr() for parameter in model.parameters()]
    np.testing.assert_allclose(within.numpy(), naive.average(after["head.weight"], 0.5), rtol=1e-5)
    np.testing.assert_array_equal(model.head.weight.detach().numpy(), after["head.weight"][-1])
    optimizer.use_average()
    assert torch.equal(model.head.weight.detach(), within)


def test_without_an_average_the_weights_stand_for_themselves(model):
    optimizer = SGD(STAGE, dict(model.named_parameters()), CPU)
    before = model.head.weight.detach().clone()
    with optimizer.averaged():
        assert torch.equal(model.head.weight, before)
    optimizer.use_average()
    assert torch.equal(model.head.weight, before)
    assert {key.partition(".")[0] for key in optimizer.state} == {"momentum"}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_optimizer_goes_on_bit_for_bit(model, name):
    stage = staged(ema=0.9, clip=2.0)
    make = OPTIMIZERS[name]
    optimizer = make(stage, dict(model.named_parameters()), CPU)
    moved(model, optimizer)
    twin = copy.deepcopy(model)
    other = make(stage, dict(twin.named_parameters()), CPU)
    other.restore({key: value.clone() for key, value in optimizer.state.items()})
    moved(model, optimizer)
    moved(twin, other)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), twin.parameters(), strict=True))
    assert all(torch.equal(value, other.state[key]) for key, value in optimizer.state.items())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"beta1": 1.0}, "beta1 = 1 must be"), ({"beta2": -0.1}, "beta2 = -0.1"), ({"epsilon": 0.0}, "epsilon = 0 must")],
)
def test_options_out_of_bounds_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        AdamW(STAGE, {}, CPU, **options)
