"""From images to features, by a frozen backbone."""

from functools import cached_property
from hashlib import sha256

import torch
from torch import Tensor, nn

from tailcloud.classifier import Classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.resident import evaluation_batch
from tailcloud.training.features.batch_norm_folding import folded_for, images_at_once
from tailcloud.training.features.views import View

LARGEST = 65504.0  # of float16


class Embedder:
    """The backbone of a model as it is now, in evaluation mode, and what its features depend on.

    Features are computed in float32 and rounded to float16, whether they are kept on disk or not. All batches have the
    same size, since the last bits may depend on it.

    Args:
        model: the classifier.
        name: of its backbone.
        transform: the normalisation.
        shape: height, width and channels of an image.
        threads: with which a CPU computes features.
    """

    def __init__(
        self, model: Classifier, name: str, transform: Normalise, shape: tuple[int, int, int], *, threads: int = 1
    ) -> None:
        self.threads = threads
        self.model, self.name, self.transform, self.shape = model, name, transform, shape
        self.device = next(model.parameters()).device
        pixels = shape[0] * shape[1]
        on_cpu = self.device.type == "cpu"
        self.batch = images_at_once(pixels) if on_cpu else evaluation_batch(self.device, pixels)

    @cached_property
    def key(self) -> str:
        """A digest of everything but the image that a feature depends on."""
        digest = sha256(f"{self.name} {self.shape} {self.device.type} {torch.__version__}".encode())
        digest.update(f"{self.transform.mean} {self.transform.std}".encode())
        for name, value in sorted(self.model.backbone.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @cached_property
    def backbone(self) -> nn.Module:
        """The backbone, in its fastest form."""
        plain = self.model.backbone
        return folded_for(plain, self.transform, self.shape) if self.device.type == "cpu" else plain

    def __call__(self, pixels: Tensor, view: View) -> Tensor:
        """Features [batch, D] as float16 of a view of uint8 images [batch, H, W, C], at most ``self.batch`` of them."""
        self.backbone.eval()
        missing = self.batch - len(pixels)
        filled = torch.cat([pixels, pixels[-1:].expand(missing, *pixels.shape[1:])]) if missing else pixels
        with torch.inference_mode():
            features: Tensor = self.backbone(view(filled, self.transform))
            return features[: len(pixels)].float().clamp(-LARGEST, LARGEST).half()
