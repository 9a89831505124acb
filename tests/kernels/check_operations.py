"""The operations of a policy in one kernel against PyTorch's, on the same images."""

import numpy as np
import pytest
import torch

from helpers.kernel_device import DEVICE, INTERPRETED, needs_somewhere
from tailcloud.data.augment.image_ops import LUMINANCE, OPERATIONS
from tailcloud.data.augment.image_ops import apply_operations as plain
from tailcloud.kernels import image_operation_kernel, image_operations
from tailcloud.kernels.image_operations import apply_operations

pytestmark = needs_somewhere

STRENGTHS = {
    "shear_x": (-0.99, 0.123, 0.0),
    "shear_y": (-0.3, 0.7, 0.0),
    "translate_x": (-0.21, 0.4, 1.0),
    "translate_y": (-0.9, 0.123, 0.0),
    "rotate": (-135.0, 6.7, 0.0),
    "posterize": (0.0, 3.0, 6.0),
    "solarize": (0.0, 28.4, 256.0),
    **dict.fromkeys(["brightness", "color", "contrast", "sharpness"], (-1.0, 0.3, 0.0)),
}
TABLES = ("posterize", "solarize", "autocontrast", "equalize", "invert", "identity")  # whole levels: the same bits


def images_of(count, shape, seed=0):
    """Uneven levels, halves among them, and images of one level."""
    random = np.random.default_rng(seed)
    levels = (
        random.integers(0, 256, (count, *shape)) * random.random((count, 1, 1, shape[2])) + random.integers(0, 2) / 2
    )
    levels[::4] = np.floor(levels[::4])
    levels[-1] = 77
    return torch.from_numpy(levels.clip(0, 255).astype(np.float32)).to(DEVICE)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("shape", [(8, 8, 3), (7, 5, 1), (19, 18, 3), (2, 9, 3), (3, 3, 4)], ids=str)
def test_every_operation_is_the_plain_one(monkeypatch, name, shape):
    monkeypatch.setattr(image_operations, "BLOCK", 64)  # several blocks an image
    strengths = torch.tensor(STRENGTHS.get(name, (0.0, 1.0, 2.0)) * 3, device=DEVICE)
    operations = torch.full((9,), OPERATIONS.index(name), dtype=torch.uint8, device=DEVICE)
    images = images_of(9, shape)
    expected = plain(images, operations, strengths, fill=128.0)
    found = apply_operations(images, operations, strengths, fill=128.0)
    if name in TABLES:
        assert torch.equal(found, expected)
    elif name in ("shear_x", "shear_y", "translate_x", "translate_y", "rotate"):  # the border may be elsewhere
        assert ((found - expected).abs() > 1e-2).float().mean() < (0.01 if min(shape[:2]) > 2 else 0.1)
    else:
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)


def test_each_image_has_its_own_operation_and_strides_are_followed():
    shape = (8, 8, 3) if INTERPRETED else (32, 32, 3)
    random = np.random.default_rng(1)
    operations = torch.from_numpy(random.integers(0, len(OPERATIONS), (40, 2))).to(DEVICE, torch.uint8)
    strengths = torch.from_numpy(random.random((40, 2), np.float32)).to(DEVICE)
    images = images_of(40, shape)
    for number in (0, 1):
        some = operations[:, number], strengths[:, number]
        expected, found = plain(images, *some, fill=0.0), apply_operations(images, *some, fill=0.0)
        assert ((found - expected).abs() > 1e-2).float().mean() < 0.002
        images = expected


def test_the_kernel_numbers_operations_as_the_formulas_do():
    assert image_operation_kernel.OPERATIONS == OPERATIONS
    assert image_operation_kernel.LUMINANCE == LUMINANCE
