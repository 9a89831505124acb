"""The names that others rely on are there after ``import tailcloud`` alone, and importing it costs nothing."""

import subprocess
import sys

PIECES = """
import sys
import tailcloud
assert "torch" not in sys.modules
tailcloud.cloud_sizes([100, 1], strategy="log")
tailcloud.losses.GCLLoss([100, 1], scale=30.0, noise=0.5, margin=0.0, focal=0.0, strategy="log", granularity="entry")
tailcloud.sampling.sample_weights("cben", [100, 1], a=0.999, b=0.0009)
from tailcloud.data.longtail import exponential_counts
exponential_counts(5000, 10, 100)
tailcloud.data.open_dataset("digits-lt", root="data")
tailcloud.backbones.create_backbone("resnet32", channels=3, width=1.0)
tailcloud.heads.CosineHead(64, 10)
tailcloud.load
"""


def test_every_promised_name_is_there():
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_loading_a_model_leaves_the_global_generator_alone(finished_run):
    import torch

    import tailcloud

    before = torch.random.get_rng_state()
    tailcloud.load(finished_run)
    assert torch.equal(before, torch.random.get_rng_state())
