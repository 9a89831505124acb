"""Any model of the timm library as a backbone: ``timm:convnext_tiny``. Needs the extra ``timm``."""

from importlib.util import find_spec

from torch import Tensor

from tailcloud.backbones.base import Backbone
from tailcloud.errors import UsageError

PREFIX = "timm:"
INSTALL = "pip install 'tailcloud[timm]'"


def timm_is_here() -> bool:
    """Whether the extra is installed; asking does not import it."""
    return find_spec("timm") is not None


def check_timm(name: str) -> None:
    """``timm:NAME`` can be made here: the library is there and has that model."""
    if not timm_is_here():
        raise UsageError(f'the backbone "{name}" needs the timm library; install it with "{INSTALL}"')
    import timm

    if not timm.is_model(name.removeprefix(PREFIX)):
        raise UsageError(
            f'timm {timm.__version__} has no model "{name.removeprefix(PREFIX)}"; timm.list_models() has them all'
        )


class TimmBackbone(Backbone):
    """A timm model without its classifier, and the normalisation that its published weights expect.

    Nothing is downloaded: weights come from a file, ``model.weights``.
    """

    def __init__(self, name: str, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        check_timm(name)
        if width != 1.0:
            raise UsageError(f"model.width = {width:g} is for our own backbones; timm names a model of each width")
        import timm

        kind = {"pretrained": False, "in_chans": channels, "num_classes": 0}
        try:
            self.model = timm.create_model(name.removeprefix(PREFIX), **kind, dynamic_img_size=True)
        except TypeError:  # convolutions take images of any size without being asked
            self.model = timm.create_model(name.removeprefix(PREFIX), **kind)
        self.features = int(getattr(self.model, "head_hidden_size", self.model.num_features))
        self.mean = tuple(map(float, self.model.pretrained_cfg["mean"]))
        self.std = tuple(map(float, self.model.pretrained_cfg["std"]))

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        features: Tensor = self.model(images)
        return features
