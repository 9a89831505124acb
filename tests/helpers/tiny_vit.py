"""A vision transformer that is built like timm's, small enough for digits."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tailcloud.backbones import Backbone

WIDTH, HEADS, BLOCKS = 12, 2, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        images, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(images, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(0.3), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TinyViT(Backbone):
    """Patches of 4 × 4 pixels, two blocks, the mean of the tokens."""

    features = WIDTH

    def __init__(self, *, channels=3, width=1.0):
        super().__init__()
        self.patches = nn.Conv2d(channels, WIDTH, 4, 4)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        return self.norm(self.blocks(tokens)).mean(dim=1)


def shake(model, generator):
    """Give every parameter a random value, so that no adapter is zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
