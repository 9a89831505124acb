"""Adapters: a few trained weights inside of a frozen vision transformer, as in LIFT (Shi et al., ICML 2024).

A fresh adapter adds zero, so that the network starts as its pretrained weights left it. The layers around it keep the
names of their parameters: files of the plain network load, and a merged network is the plain one again.
"""

from math import log2, sqrt
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tailcloud.backbones.base import Backbone
from tailcloud.backbones.ensemble import Ensemble
from tailcloud.backbones.timm_models import TimmBackbone
from tailcloud.errors import UsageError

AdapterKind = Literal["none", "lora", "adaptformer"]
NEEDED = {"norm1", "attn", "norm2", "mlp"}
ORDER = ("norm1", "attn", "ls1", "drop_path1", "norm2", "mlp", "ls2", "drop_path2")


class Adapter(nn.Module):
    """What ``train = "adapters"`` trains."""


class LoRA(Adapter):
    """x ↦ α / r · B A x, with A [r, inputs] and B [outputs, r] = 0 (Hu et al., ICLR 2022).

    LIFT takes α = 1 and draws A from U(−1/√r, 1/√r).
    """

    def __init__(self, inputs: int, outputs: int, rank: int, *, alpha: float = 1.0) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, inputs).uniform_(-1 / sqrt(rank), 1 / sqrt(rank)))
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        self.factor = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the output of the frozen layer."""
        return self.factor * F.linear(F.linear(x, self.down), self.up)

    def delta(self) -> Tensor:
        """What is added to the weight of the frozen layer, to the same effect."""
        return self.factor * self.up @ self.down


class AdaptFormer(Adapter):
    """x ↦ s · (U ReLU(D LN(x) + d) + u), with U = 0, d = u = 0 and s = 1 at first (Chen et al., NeurIPS 2022).

    s is trained, as in LIFT.
    """

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        self.scale = nn.Parameter(torch.ones(1))
        nn.init.kaiming_normal_(self.down.weight, a=sqrt(5))
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zero)

    def forward(self, x: Tensor) -> Tensor:
        """What is added to the output of the frozen MLP, from the input of its norm."""
        y: Tensor = self.scale * self.up(F.relu(self.down(self.norm(x))))
        return y


class LoRAProjection(nn.Module):
    """The projection of an attention layer to queries, keys and values, with LoRA on queries and values."""

    def __init__(self, plain: nn.Linear, rank: int) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias
        shape = plain.in_features, plain.out_features // 3
        self.query, self.value = LoRA(*shape, rank), LoRA(*shape, rank)

    def forward(self, x: Tensor) -> Tensor:
        """Queries, keys and values [batch, tokens, 3 · width]."""
        query, key, value = F.linear(x, self.weight, self.bias).chunk(3, dim=-1)
        return torch.cat([query + self.query(x), key, value + self.value(x)], dim=-1)

    def merged_weight(self) -> Tensor:
        """The weight of a plain layer with the same outputs."""
        query, key, value = self.weight.chunk(3)
        return torch.cat([query + self.query.delta(), key, value + self.value.delta()])


class AdaptedBlock(nn.Module):
    """A pre-norm transformer block with an AdaptFormer beside its MLP: y = x + MLP(norm(x)) + AdaptFormer(x)."""

    def __init__(self, plain: nn.Module, bottleneck: int) -> None:
        super().__init__()
        parts = dict(plain.named_children())
        self.norm1, self.attn, self.ls1, self.drop_path1 = (parts.get(name, nn.Identity()) for name in ORDER[:4])
        self.norm2, self.mlp, self.ls2, self.drop_path2 = (parts.get(name, nn.Identity()) for name in ORDER[4:])
        self.adaptformer = AdaptFormer(projection(plain).in_features, bottleneck)

    def forward(self, x: Tensor, *options: Any, **named: Any) -> Tensor:
        """Tokens [batch, tokens, width]; options, such as a mask, are those of the attention layer."""
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x), *options, **named)))
        y: Tensor = x + self.drop_path2(self.ls2(self.mlp(self.norm2(x)))) + self.adaptformer(x)
        return y


def bottleneck_size(classes: int, blocks: int) -> int:
    """LIFT's rule: about as many adapter parameters as the head has, 2^max(0, ⌊log2(C / 2L)⌋)."""
    return int(2 ** max(0, int(log2(classes / (2 * blocks)))))


def insert_adapters(backbone: Backbone, kind: AdapterKind, *, size: int, classes: int) -> None:
    """Give every block of a vision transformer a fresh adapter of this size; 0: ``bottleneck_size``."""
    if isinstance(backbone, Ensemble):
        for network in backbone.networks:
            insert_adapters(cast(Backbone, network), kind, size=size, classes=classes)
        return
    blocks = transformer_blocks(backbone, kind)
    size = size or bottleneck_size(classes, len(blocks))
    for number, block in enumerate(blocks):
        if kind == "lora":
            block.get_submodule("attn").qkv = LoRAProjection(projection(block), size)
        else:
            blocks[number] = AdaptedBlock(block, size)


def transformer_blocks(backbone: Backbone, kind: AdapterKind) -> nn.Sequential | nn.ModuleList:
    """The blocks of a vision transformer; another backbone is refused."""
    network = backbone.model if isinstance(backbone, TimmBackbone) else backbone
    blocks = getattr(network, "blocks", None)
    if not isinstance(blocks, nn.Sequential | nn.ModuleList) or not blocks or not all(map(is_pre_norm, blocks)):
        raise UsageError(
            f'model.adapter = "{kind}" needs a vision transformer of plain pre-norm blocks, which '
            f"{type(network).__name__} is not; set model.backbone to one, such as "
            '"timm:vit_base_patch16_224", or model.adapter = "none"'
        )
    return blocks


def is_pre_norm(block: nn.Module) -> bool:
    """Whether a block is x + attention(norm1(x)), then x + MLP(norm2(x)): its parts are in this order.

    Blocks and attention layers with parameters of their own, as in EVA and BEiT, compute something else.
    """
    parts = dict(block.named_children())
    if list(parts) != [name for name in ORDER if name in parts] or not parts.keys() >= NEEDED:
        return False
    layer = getattr(parts["attn"], "qkv", None)
    own = [*block.parameters(recurse=False), *parts["attn"].parameters(recurse=False)]
    return isinstance(layer, nn.Linear) and layer.out_features % 3 == 0 and not own


def projection(block: nn.Module) -> nn.Linear:
    """The layer that computes queries, keys and values."""
    layer = block.get_submodule("attn.qkv")
    assert isinstance(layer, nn.Linear)
    return layer


def adapter_names(model: nn.Module) -> list[str]:
    """The names of all adapters in a model."""
    return [name for name, module in model.named_modules() if isinstance(module, Adapter)]


def merged_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of the plain network that computes the same as a network with LoRA."""
    weights: dict[str, Tensor] = model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, LoRAProjection):
            weights[f"{name}.weight"] = module.merged_weight().detach()
        elif isinstance(module, LoRA):
            for parameter, _ in module.named_parameters(prefix=name):
                del weights[parameter]
    return weights
