"""A network for objectives whose features are its images, and norms in which every number matters."""

from torch import nn


class Flat:
    """Features are the images; counts how often they were asked for."""

    def __init__(self, head):
        self.head, self.calls = head, 0

    def features(self, images):
        self.calls += 1
        return images

    def __call__(self, images):
        return self.head(self.features(images))


def vary_norms(backbone):
    """No weight of a batch norm is one, no bias or running mean zero: a kernel that leaves one out is wrong."""
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            for positive in (module.weight, module.running_var):
                nn.init.uniform_(positive, 0.5, 1.5)
            for any_sign in (module.bias, module.running_mean):
                nn.init.normal_(any_sign, 0, 0.3)
