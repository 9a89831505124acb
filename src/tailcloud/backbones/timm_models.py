"""Any model of the timm library as a backbone: ``timm:convnext_tiny``, or with the tag of its weights
``timm:convnext_tiny.in12k_ft_in1k``. Needs the extra ``timm``.
"""

from importlib.util import find_spec

from torch import Tensor

from tailcloud.backbones.base import Backbone
from tailcloud.errors import UsageError

TIMM_PREFIX = "timm:"
INSTALL_TIMM = "pip install 'tailcloud[timm]'"


def timm_is_installed() -> bool:
    """Whether timm is installed, without importing it."""
    return find_spec("timm") is not None


def check_timm(name: str) -> None:
    """Refuse ``timm:NAME`` or ``timm:NAME.TAG`` if timm is not installed, or has no such model or tag."""
    if not timm_is_installed():
        raise UsageError(f'the backbone "{name}" needs the timm library; install it with "{INSTALL_TIMM}"')
    import timm

    model, _, tag = name.removeprefix(TIMM_PREFIX).partition(".")
    if not timm.is_model(model):
        raise UsageError(f'timm {timm.__version__} has no model "{model}"; timm.list_models() lists all')
    if tag and f"{model}.{tag}" not in (known := timm.list_pretrained(f"{model}.*")):
        tags = ", ".join(each.partition(".")[2] for each in known)
        raise UsageError(f'timm {timm.__version__} has no weights "{tag}" of {model}; known: {tags or "none"}')


class TimmBackbone(Backbone):
    """A timm model without its classifier, and the normalisation that the weights of its tag expect.

    Nothing is downloaded here: ``tailcloud.weights`` finds the file that ``model.weights`` means.
    """

    def __init__(self, name: str, *, channels: int = 3, width: float = 1.0) -> None:
        super().__init__()
        check_timm(name)
        if width != 1.0:
            raise UsageError(f"model.width = {width:g} does not apply to timm models; set it to 1")
        import timm

        kind = {"pretrained": False, "in_chans": channels, "num_classes": 0}
        try:
            self.model = timm.create_model(name.removeprefix(TIMM_PREFIX), **kind, dynamic_img_size=True)
        except TypeError:  # convolutional models have no such option: they take any image size
            self.model = timm.create_model(name.removeprefix(TIMM_PREFIX), **kind)
        self.features = int(getattr(self.model, "head_hidden_size", self.model.num_features))
        self.mean = tuple(map(float, self.model.pretrained_cfg["mean"]))
        self.std = tuple(map(float, self.model.pretrained_cfg["std"]))

    def forward(self, images: Tensor) -> Tensor:
        """Features of a batch of normalised images."""
        features: Tensor = self.model(images)
        return features

    def layers(self) -> list[list[str]]:
        """The stem and the blocks of a transformer, or the stages of a convolutional network, as timm groups them."""
        from timm.models import group_parameters

        layers: dict[int, list[str]] = {}
        for name, number in group_parameters(self.model, self.model.group_matcher(coarse=True), reverse=True).items():
            layers.setdefault(number, []).append(f"model.{name}")
        return [layers[number] for number in sorted(layers)]
