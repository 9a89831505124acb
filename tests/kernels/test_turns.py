"""What a network in fused kernels holds is written over by the next batch: what must not go on at the same time."""

from importlib.util import find_spec

import pytest
import torch

from tailcloud.backbones import create_backbone

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="there is no triton here")


@pytest.fixture
def network():
    """A network that computes nothing."""
    from tailcloud.kernels.residual import FusedResNet

    made = FusedResNet(create_backbone("resnet8", width=0.25).to(memory_format=torch.channels_last), 4, 4)
    made.launch = lambda *arguments, **sizes: None
    return made


def test_batches_one_after_the_other(network):
    for count in (3, 2, 3):
        network(torch.zeros(count, 3, 4, 4)).sum().backward()
        network.backbone.zero_grad()


def test_going_backward_after_the_next_batch_came_is_refused(network):
    first = network(torch.zeros(2, 3, 4, 4))
    network(torch.zeros(1, 3, 4, 4))
    with pytest.raises(RuntimeError, match="fused kernels hold one batch"):
        first.sum().backward()


def test_adding_to_the_gradients_of_another_batch_is_refused(network):
    """They are where the next ones would be written."""
    network(torch.zeros(2, 3, 4, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="fused kernels hold one batch"):
        network(torch.zeros(2, 3, 4, 4)).sum().backward()
