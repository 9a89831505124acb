"""A CIFAR ResNet computed by the fused kernels: the model's own parameters and buffers, fewer and larger kernels.

``FusedResNet`` is one chain of convolutions; ``branches`` has networks of several.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import torch
import triton
from torch import Tensor, nn

from tailcloud.backbones.cifar_resnet import BasicBlock, CifarResNet
from tailcloud.backbones.ensemble import Ensemble
from tailcloud.backbones.experts import ExpertResNet
from tailcloud.backbones.two_branch import TwoBranchResNet
from tailcloud.kernels import CannotFuse
from tailcloud.kernels import convolution as kernels
from tailcloud.kernels.compile_together import Compilation, compile_together
from tailcloud.kernels.launch import launch, reason
from tailcloud.side_stream import SideStream

TILE = 4096  # numbers of a feature map per program
PARTIALS = 4096  # numbers of partial results that are added at a time, by one program
TILES_PER_SPLIT = 8  # tiles over which one program adds weight gradients
CHUNK = 128  # pixels of a tile that a program loads at a time
BUFFERS = 3  # maps of one size that evaluation needs at a time: a block's input and two intermediate maps
ADD_BLOCK, ADD_SPLITS = 128, 16
LARGEST_BLOCK = 64  # channels
FITTING = (CifarResNet, TwoBranchResNet, ExpertResNet)  # backbones, and no others that are derived from them
PACKED_OUTPUTS = 16  # channels whose weights a program packs; every block is a multiple

Sizes = dict[str, int]


@dataclass(frozen=True)
class Registers:
    """How the kernels of ``gluon_convolution`` share a tile.

    So many warps share the output channels, the others the pixels; a thread loads ``contiguous`` channels at a time.
    """

    channel_warps: int
    contiguous: int

    @property
    def sizes(self) -> Sizes:
        """What the kernels are compiled for."""
        return {"CHANNEL_WARPS": self.channel_warps, "CONTIGUOUS": self.contiguous}


# By channels of a block, measured by benchmarks/kernel_passes.py. Where there is none, ``convolution`` is faster.
REGISTERS = {16: Registers(1, 2), 32: Registers(2, 8)}
PIXELS = {16: 2, 32: 2, 64: 1}  # output pixels in a row of a product that gives weight gradients
WARPS: Sizes = {"num_warps": 4, "num_stages": 1}
# Registers that a thread may take, measured by benchmarks/kernel_passes.py: so four programs fit on a multiprocessor.
# Kernels of some blocks of channels would keep too much in memory then; three of those fit.
FOUR_FIT, THREE_FIT = 128, 168
LARGE = {"convolve": {(32, 32)}, "convolve_back": {(16, 32), (32, 32), (32, 64)}}
EARLY_FROM = (9, 0)  # the compute capability from which a kernel can start while the one before it ends


def block_of(channels: int) -> int:
    """The next power of two, at least 16 as tensor cores need it."""
    return max(16, int(triton.next_power_of_2(channels)))


def aligned(numbers: int) -> int:
    """So many numbers of 32 bits, and as many more as fill 16 bytes."""
    return -(-numbers // 4) * 4


@dataclass(frozen=True)
class Layer:
    """A convolution, the batch norm after it, the size of its input maps, and which blocks have ``Registers``."""

    conv: nn.Conv2d
    norm: nn.BatchNorm2d
    height: int
    width: int
    known: Mapping[int, Registers]

    @cached_property
    def stride(self) -> int:
        """1 or 2."""
        return self.conv.stride[0]

    @cached_property
    def out(self) -> tuple[int, int]:
        """Height and width of the output maps."""
        return -(-self.height // self.stride), -(-self.width // self.stride)

    @cached_property
    def rows(self) -> int:
        """Output rows of a tile."""
        across = int(triton.next_power_of_2(self.out[1]))
        fitting = min(int(triton.next_power_of_2(self.out[0])), TILE // (across * block_of(self.conv.out_channels)))
        return max(1, fitting, 16 // across)

    @cached_property
    def tiles(self) -> int:
        """Tiles of a map."""
        return -(-self.out[0] // self.rows)

    @cached_property
    def blocks(self) -> Sizes:
        """The powers of two that the kernel works with."""
        inputs, outputs = block_of(self.conv.in_channels), block_of(self.conv.out_channels)
        across = int(triton.next_power_of_2(self.out[1]))
        return {"R": self.rows, "BCI": inputs, "BCO": outputs, "BWO": across, "BWI": across * self.stride}

    @cached_property
    def shape(self) -> Sizes:
        """What the kernels are compiled for."""
        sizes = {"H": self.height, "W": self.width, "S": self.stride}
        return {**sizes, "CI": self.conv.in_channels, "CO": self.conv.out_channels, **self.blocks}

    @cached_property
    def registers(self) -> Registers | None:
        """How ``gluon_convolution`` computes this layer; None if ``convolution`` does: with stride 2, or too small."""
        small, large = sorted((self.blocks["BCI"], self.blocks["BCO"]))
        found = self.known.get(large)
        if found is None or self.stride > 1:
            return None
        # an instruction has 16 channels and 8 pixels; 4 threads share the inputs
        wide = 16 * found.channel_warps <= small and 4 * found.contiguous <= small
        pixel_warps = WARPS["num_warps"] // found.channel_warps
        return found if wide and 8 * pixel_warps <= self.rows * self.blocks["BWO"] else None

    @property
    def kernels(self) -> Any:
        """The module that has the kernels of this layer."""
        if self.registers is None:
            return kernels
        from tailcloud.kernels import gluon_convolution  # experimental in Triton, so only where it is chosen

        return gluon_convolution

    @property
    def sizes(self) -> Sizes:
        """What they are compiled for, beside the shape."""
        return {**(self.registers.sizes if self.registers else {}), **WARPS}

    def limit(self, kernel: str) -> Sizes:
        """How many registers a thread of a kernel may take; nothing on AMD, where Triton has no such option."""
        blocks = self.blocks["BCI"], self.blocks["BCO"]
        return {} if torch.version.hip else {"maxnreg": THREE_FIT if blocks in LARGE[kernel] else FOUR_FIT}

    @cached_property
    def programs_per_sum(self) -> int:
        """Programs whose partial statistics of the output are added together."""
        return PARTIALS // self.blocks["BCO"]

    @cached_property
    def chunks(self) -> int:
        """Chunks of a tile whose weight gradients are added one after the other."""
        return max(1, min(self.rows, self.rows * self.blocks["BWO"] // CHUNK))

    @cached_property
    def pixels(self) -> int:
        """Output pixels in a row of a product that gives weight gradients."""
        wanted = PIXELS[max(self.blocks["BCI"], self.blocks["BCO"])]
        rows = self.rows * self.blocks["BWO"] // self.chunks // wanted  # a product has at least 16
        return wanted if self.stride == 1 and wanted <= self.blocks["BWO"] and rows >= 16 else 1

    @cached_property
    def bordered_in(self) -> int:
        """Numbers of an activation in tiles with borders, per image."""
        return self.tiles * (self.rows * self.stride + 2) * (self.width + 2) * self.blocks["BCI"]

    @cached_property
    def bordered_out(self) -> int:
        """Numbers of an output gradient in tiles with borders, per image."""
        return self.tiles * (self.rows + 2) * (self.out[1] + 2) * self.blocks["BCO"]

    @cached_property
    def numbers(self) -> int:
        """Numbers of the output maps, per image."""
        return self.out[0] * self.out[1] * self.conv.out_channels


Convolution = tuple[nn.Conv2d, nn.BatchNorm2d]  # and the norm after it


def convolutions_of(blocks: Iterable[nn.Module]) -> list[Convolution]:
    """Both convolutions of each block."""
    found: list[Convolution] = []
    for block in blocks:
        assert isinstance(block, BasicBlock)
        found += [(block.conv1, block.bn1), (block.conv2, block.bn2)]
    return found


def layers_of(
    convolutions: Sequence[Convolution], height: int, width: int, known: Mapping[int, Registers]
) -> list[Layer]:
    """Convolutions one after the other, the first on maps of that size."""
    layers: list[Layer] = []
    for conv, norm in convolutions:
        layers.append(Layer(conv, norm, height, width, known))
        height, width = layers[-1].out
    return layers


def fits(backbone: nn.Module) -> bool:
    """Whether these kernels can compute a backbone: small ResNets with float32 weights in channels-last."""
    if isinstance(backbone, Ensemble):
        return all(map(fits, backbone.networks))
    if type(backbone) not in FITTING or next(backbone.parameters()).dtype != torch.float32:
        return False
    convolutions = [module for module in backbone.modules() if isinstance(module, nn.Conv2d)]
    small = all(max(block_of(conv.in_channels), block_of(conv.out_channels)) <= LARGEST_BLOCK for conv in convolutions)
    return small and all(conv.weight.permute(0, 2, 3, 1).is_contiguous() for conv in convolutions)


def known_registers(dtype: torch.dtype) -> Mapping[int, Registers]:
    """``REGISTERS`` for maps of 16 bits; tensor cores do not multiply exact float32."""
    return REGISTERS if dtype.itemsize == 2 else {}


@dataclass(frozen=True)
class Packed:
    """The weights of a convolution as its kernel multiplies by them: a matrix of [inputs, outputs] per tap.

    ``gluon_convolution`` takes [outputs, inputs].
    """

    inputs: int
    outputs: int
    turned: bool

    @property
    def size(self) -> int:
        """Numbers of all matrices."""
        return self.place(9)

    @property
    def steps(self) -> tuple[int, int]:
        """Numbers from one input, and from one output, to the next."""
        return (1, self.inputs) if self.turned else (self.outputs, 1)

    def place(self, tap: int) -> int:
        """Where a tap starts."""
        return tap * self.inputs * self.outputs


class Workspace:
    """The memory that the kernels write for up to ``capacity`` images, at fixed addresses.

    Borders are zero from the start and never written. Without ``training``, only what the next layers read is kept.
    ``with_input``: the gradient of the input maps is wanted too.
    """

    def __init__(
        self, layers: Sequence[Layer], capacity: int, dtype: torch.dtype, *, training: bool, with_input: bool = False
    ) -> None:
        self.capacity, self.layers, self.passes = capacity, layers, 0
        self.device, self.dtype = layers[0].conv.weight.device, dtype
        last = layers[-1]
        self.raw = self._maps([layer.numbers for layer in layers], training=training)
        self.kept = [*self._maps([layer.bordered_in for layer in layers], training=training)]
        self.kept.append(self._zeros([capacity * last.numbers], dtype)[0])
        channels = [layer.conv.out_channels for layer in layers]
        self.saved = self._zeros([2 * count for count in channels])
        self.affine = self._zeros([2 * count for count in channels])
        programs = [
            capacity * max(layer.tiles, after.tiles) for layer, after in zip(layers, [*layers[1:], last], strict=True)
        ]
        sums = [-(-count // layer.programs_per_sum) for layer, count in zip(layers, programs, strict=True)]
        self.counter = self._zeros([aligned(1 + count) for count in sums], torch.int32)
        # two numbers of each channel from each program, three from each group of programs
        counts = [2 * count + 3 * added for count, added in zip(programs, sums, strict=True)]
        self.partial = self._zeros([aligned(count * channel) for count, channel in zip(counts, channels, strict=True)])
        self._prepare_packed()
        if training:
            self.gradient = self._maps([layer.numbers for layer in layers], training=True)
            inputs = layers[0].height * layers[0].width * layers[0].conv.in_channels if with_input else 0
            self.input_gradient = self._zeros([capacity * inputs], dtype)[0]
            self.bordered = self._maps([layer.bordered_out for layer in layers], training=True)
            self.sums = self._zeros([2 * count for count in channels])
            self.coefficients = self._zeros([3 * count for count in channels])
            self._prepare_weights()

    def _prepare_packed(self) -> None:
        """Weights in the layout of the kernels, and for each tap of each convolution its source and its targets."""
        blocks = [(layer.blocks["BCI"], layer.blocks["BCO"], layer.registers is not None) for layer in self.layers]
        onward = [Packed(*block) for block in blocks]
        mirrored = [Packed(outputs, inputs, turned) for inputs, outputs, turned in blocks]
        # a kernel reads one matrix past its last one, so a spare follows
        *self.onward, _ = self._zeros([one.size for one in [*onward, onward[-1]]], self.dtype)
        *self.mirrored, _ = self._zeros([one.size for one in [*mirrored, mirrored[-1]]], self.dtype)
        rows, start, start_back = [], 0, 0
        for layer, there, back in zip(self.layers, onward, mirrored, strict=True):
            for tap in range(9):
                source = layer.conv.weight.data_ptr(), tap, layer.conv.in_channels, layer.conv.out_channels
                target = start + there.place(tap), *there.steps
                target_back = start_back + back.place(8 - tap), *back.steps
                rows.append((*source, *target, *target_back))
            start, start_back = start + there.size, start_back + back.size
        self.pack_table = torch.tensor(rows, dtype=torch.int64).to(self.device)

    def _prepare_weights(self) -> None:
        """Adjacent layers of one shape compute their weight gradients in one launch, as several partial results."""
        same = groupby(range(len(self.layers)), lambda number: tuple(self.layers[number].shape.values()))
        self.groups = [list(group) for _, group in same]
        sizes = [layer.conv.weight.numel() for layer in self.layers]
        self.weights = self._zeros(sizes)
        self.group_sizes = [sum(sizes[number] for number in group) for group in self.groups]
        counts = [
            size * self.partials(group, self.capacity)
            for size, group in zip(self.group_sizes, self.groups, strict=True)
        ]
        self.weight_partials = self._zeros(counts)
        self._tables: dict[int, Tensor] = {}

    def splits(self, group: Sequence[int], images: int) -> int:
        """Programs that share the tiles of a group's weight gradients."""
        return -(-images * self.layers[group[0]].tiles // TILES_PER_SPLIT)

    def partials(self, group: Sequence[int], images: int) -> int:
        """Partial results of a group's weight gradients."""
        return self.splits(group, images) * self.layers[group[0]].pixels

    def table(self, images: int) -> Tensor:
        """For every program that adds partial weight gradients: source, target, size, stride, number of partials."""
        if images not in self._tables:
            rows, source, target = [], 0, 0
            for group, size, partials in zip(self.groups, self.group_sizes, self.weight_partials, strict=True):
                for start in range(0, size, ADD_BLOCK):
                    here = min(ADD_BLOCK, size - start)
                    rows.append((source + start, target + start, here, size, self.partials(group, images)))
                source, target = source + len(partials), target + size
            self._tables[images] = torch.tensor(rows, dtype=torch.int64).to(self.device)
        return self._tables[images]

    def _maps(self, sizes: Sequence[int], *, training: bool) -> list[Tensor]:
        """Maps of all layers; without training, maps of one size reuse a few buffers."""
        sizes = [self.capacity * size for size in sizes]
        if training:
            return self._zeros(sizes, self.dtype)
        buffers: dict[tuple[object, ...], Tensor] = {}
        for number, (layer, size) in enumerate(zip(self.layers, sizes, strict=True)):
            key = (*layer.shape.values(), number % BUFFERS)
            buffers.setdefault(key, self._zeros([size], self.dtype)[0])
        return [buffers[(*layer.shape.values(), number % BUFFERS)] for number, layer in enumerate(self.layers)]

    def _zeros(self, sizes: Sequence[int], dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """One allocation, split in order, with space at the end for tiles that read past it."""
        room = max(LARGEST_BLOCK**2, *(2 * max(layer.bordered_in, layer.bordered_out) for layer in self.layers))
        allocated = torch.zeros(sum(sizes) + room, device=self.device, dtype=dtype)
        return list(allocated[: sum(sizes)].split(list(sizes)))


_compiling: dict[tuple[object, ...], Mapping[int, Registers]] = {}  # by network, what compiles in this process


class FusedChain:
    """Convolutions one after the other: residual blocks, before them a single one if there is a ``stem``.

    With a stem, the input are images; without one, maps of another chain, whose gradient is computed too. The output
    are ``pooled`` features, or maps. All maps are [batch, height, width, channels], stored in ``dtype``. Batch norm
    moves its statistics if ``backbone`` is in training.
    """

    def __init__(
        self, backbone: nn.Module, convolutions: Sequence[Convolution], height: int, width: int, dtype: torch.dtype,
        *, stem: bool, pooled: bool,
    ) -> None:  # fmt: skip
        self.backbone, self.convolutions, self.dtype = backbone, convolutions, dtype
        self.stem, self.pooled = stem, pooled
        self.layers = layers_of(convolutions, height, width, known_registers(dtype))
        self.parameters = [p for layer in self.layers for p in (layer.conv.weight, layer.norm.weight, layer.norm.bias)]
        self._workspaces: dict[bool, list[Workspace]] = {True: [], False: []}
        self.launch: Callable[..., None] = launch

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides which kernels it has."""
        return *(tuple(layer.shape.values()) for layer in self.layers), self.stem, self.pooled

    def run(self, maps: Tensor) -> Tensor:
        """Features [batch, features] in float32, or maps, of input maps; differentiable if the parameters are."""
        if torch.is_grad_enabled() and self.parameters[0].requires_grad:
            result: Tensor = _Differentiable.apply(self, maps, *self.parameters)
            return result
        return self.forward(maps, training=False)

    def use(self, known: Mapping[int, Registers]) -> None:
        """Compute the blocks of channels that are ``known`` by ``gluon_convolution``."""
        self.layers = layers_of(self.convolutions, self.layers[0].height, self.layers[0].width, known)

    def compilations(self, known: Mapping[int, Registers]) -> list[Compilation]:
        """One call per kernel. Both passes run on a copy for two images, where launches are only recorded."""
        launches: dict[tuple[object, ...], Compilation] = {}

        def record(kernel: Any, grid: tuple[int, ...], *arguments: Any, **sizes: int) -> None:
            work = partial(kernel.warmup, *arguments, grid=grid, **sizes)
            launches.setdefault((kernel, *sorted(sizes.items())), work)

        first, mode = self.layers[0], nn.Module()
        trial = FusedChain(
            mode, deepcopy(self.convolutions), first.height, first.width, self.dtype, stem=self.stem, pooled=self.pooled
        )
        trial.use(known)
        trial.launch = record
        shape = 2, first.height, first.width, first.conv.in_channels
        maps = torch.zeros(shape, dtype=self.dtype, device=self.parameters[0].device)
        for training in (True, False):
            mode.train(training)
            result = trial.forward(maps, training=training)
        mode.train()
        trial.backward(maps, result)
        return list(launches.values())

    @cached_property
    def early(self) -> dict[str, bool]:
        """Whether convolutions start while the kernel before them ends, and wait inside."""
        device = self.parameters[0].device
        able = (
            device.type == "cuda" and not torch.version.hip and torch.cuda.get_device_capability(device) >= EARLY_FROM
        )
        return {"EARLY": True, "launch_pdl": True} if able else {"EARLY": False}

    @cached_property
    def widest(self) -> int:
        """The largest block of channels."""
        return max(max(layer.blocks["BCI"], layer.blocks["BCO"]) for layer in self.layers)

    def workspace(self, images: int, *, training: bool) -> Workspace:
        """A workspace that is large enough for a batch; never freed, since a captured step keeps writing there."""
        for workspace in self._workspaces[training]:
            if workspace.capacity >= images:
                return workspace
        made = Workspace(self.layers, images, self.dtype, training=training, with_input=not self.stem)
        self._workspaces[training].append(made)
        return self._workspaces[training][-1]

    def forward(self, images: Tensor, *, training: bool) -> Tensor:
        """Features or maps of images or maps [batch, H, W, channels]."""
        moving, count = self.backbone.training, len(images)
        workspace = self.workspace(count, training=training)
        self.launch(
            kernels.pack, (len(workspace.pack_table), self.widest // PACKED_OUTPUTS),
            workspace.pack_table, workspace.onward[0], workspace.mirrored[0],
            INPUTS=self.widest, OUTPUTS=PACKED_OUTPUTS,
        )  # fmt: skip
        for number, layer in enumerate(self.layers):
            self.launch(
                layer.kernels.convolve, (count * layer.tiles,),
                *self._input(workspace, number, images), workspace.onward[number], workspace.raw[number],
                *self._norm(workspace, max(number - 1, 0)), *self._norm(workspace, number),
                layer.norm.num_batches_tracked, workspace.partial[number], workspace.counter[number],
                count, layer.norm.eps, layer.norm.momentum,
                **layer.shape, BP=layer.programs_per_sum, NORM=number > 0, MOVING=moving,
                **self._shortcut(number), **layer.sizes, **layer.limit("convolve"), **self.early,
            )  # fmt: skip
        return self._pool(workspace, count) if self.pooled else self._emit(workspace, count)

    def _pool(self, workspace: Workspace, count: int) -> Tensor:
        """Features from the last raw maps."""
        moving, last, number = self.backbone.training, self.layers[-1], len(self.layers)
        features = torch.empty(count, last.conv.out_channels, device=workspace.device)
        self.launch(
            kernels.pool, (count,),
            *self._input(workspace, number, features), features, *self._norm(workspace, number - 1), last.norm.eps,
            H=last.out[0], W=last.out[1], C=last.conv.out_channels,
            BC=last.blocks["BCO"], BHW=triton.next_power_of_2(last.out[0] * last.out[1]),
            MOVING=moving, **self._shortcut(number),
        )  # fmt: skip
        return features

    def _emit(self, workspace: Workspace, count: int) -> Tensor:
        """The last activation; it stays in the workspace, where the backward pass reads it."""
        last, number = self.layers[-1], len(self.layers)
        raw, shortcut, maps = self._input(workspace, number, workspace.kept[-1])
        self.launch(
            kernels.emit, (count * last.tiles,),
            raw, shortcut, maps, *self._norm(workspace, number - 1), last.norm.eps, **self._tile(last),
            MOVING=self.backbone.training, **self._shortcut(number),
        )  # fmt: skip
        return maps[: count * last.numbers].view(count, *last.out, last.conv.out_channels)

    @staticmethod
    def _tile(last: Layer) -> Sizes:
        """A tile of the output maps."""
        blocks = {"BC": last.blocks["BCO"], "R": last.rows, "BW": last.blocks["BWO"]}
        return {"H": last.out[0], "W": last.out[1], "C": last.conv.out_channels, **blocks}

    def _input(self, workspace: Workspace, number: int, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raw map and shortcut that make activation ``number``, and where it is stored."""
        raw = workspace.raw[number - 1] if number else images
        return raw, workspace.kept[number - 2] if self._shortcut(number)["SHORTCUT"] else raw, workspace.kept[number]

    def _shortcut(self, number: int) -> Sizes:
        """The shortcut that is added to make activation ``number``: the input of the block that ends there."""
        if number < 2 or not self._starts_block(number - 2):
            return {"SHORTCUT": 0, "SH": 1, "SW": 1, "SC": 1, "SBC": 1, "SR": 1}
        start = self.layers[number - 2]
        inputs, same = start.conv.in_channels, start.stride == 1 and start.conv.in_channels == start.conv.out_channels
        return {
            "SHORTCUT": 1 if same else 2, "SH": start.height, "SW": start.width, "SC": inputs,
            "SBC": start.blocks["BCI"], "SR": start.rows * start.stride,
        }  # fmt: skip

    def _starts_block(self, number: int) -> bool:
        """Whether convolution ``number`` is the first of a block: with a stem these are 1, 3, 5 …"""
        return number % 2 == int(self.stem)

    def _norm(self, workspace: Workspace, number: int) -> tuple[Tensor | None, ...]:
        norm = self.layers[number].norm
        own = norm.weight, norm.bias, norm.running_mean, norm.running_var
        return workspace.affine[number], *own, workspace.saved[number]

    def backward(self, images: Tensor, gradient: Tensor) -> list[Tensor]:
        """The gradients of all parameters, from the gradient of what the last forward pass gave."""
        count, workspace = len(images), self.workspace(len(images), training=True)
        self._start_backward(workspace, gradient.contiguous(), count)
        firsts = {group[0]: number for number, group in enumerate(workspace.groups)}
        with SideStream(workspace.device) as beside:
            for number in reversed(range(len(self.layers))):
                self._layer_backward(workspace, number, count)
                if number in firsts:
                    beside.run(partial(self._weights_backward, workspace, firsts[number], count))
        table = workspace.table(count)
        self.launch(
            kernels.add_partials, (len(table),), workspace.weight_partials[0], workspace.weights[0], table,
            SPLITS=ADD_SPLITS, BLOCK=ADD_BLOCK,
        )  # fmt: skip
        return self._gradients(workspace)

    def _start_backward(self, workspace: Workspace, gradient: Tensor, images: int) -> None:
        """The gradient of the last norm's output, from that of the features or maps."""
        last, area = self.layers[-1], self.layers[-1].out[0] * self.layers[-1].out[1]
        maps = gradient, workspace.kept[-1], workspace.raw[-1], workspace.gradient[-1]
        arguments = *maps, *self._closing(workspace, len(self.layers) - 1), images
        common = {"BP": last.programs_per_sum, "MOVING": self.backbone.training}
        if self.pooled:
            sizes = {"HW": area, "C": last.conv.out_channels, "BC": last.blocks["BCO"]}
            block = triton.next_power_of_2(area)
            self.launch(kernels.unpool, (images,), *arguments, **sizes, BHW=block, **common)
        else:
            self.launch(kernels.absorb, (images * last.tiles,), *arguments, **self._tile(last), **common)

    def input_gradient(self, maps: Tensor) -> Tensor | None:
        """The gradient of the input maps of the last backward pass; None with a stem."""
        workspace = self.workspace(len(maps), training=True)
        return None if self.stem else workspace.input_gradient[: maps.numel()].view(maps.shape)

    def _layer_backward(self, workspace: Workspace, number: int, images: int) -> None:
        layer, below = self.layers[number], max(number - 1, 0)
        skip = self._shortcut(number + 2)["SHORTCUT"] if self._starts_block(number) else 0
        last, opened = number == 0 and self.stem, number == 0 and not self.stem
        own, sizes = (kernels, WARPS) if last else (layer.kernels, layer.sizes)  # the last one multiplies nothing
        self.launch(
            own.convolve_back, (images * layer.tiles,),
            workspace.gradient[number], workspace.raw[number], workspace.bordered[number], workspace.mirrored[number],
            workspace.coefficients[number], workspace.gradient[number + 1 if skip else number], workspace.kept[number],
            workspace.raw[below], workspace.input_gradient if opened else workspace.gradient[below],
            *self._closing(workspace, below), images,
            **layer.shape, BP=self.layers[below].programs_per_sum, MOVING=self.backbone.training, SKIP=skip,
            LAST=last, OPEN=opened, **sizes, **layer.limit("convolve_back"), **self.early,
        )  # fmt: skip

    def _weights_backward(self, workspace: Workspace, which: int, images: int) -> None:
        """The weight gradients of a group of layers, in partial results."""
        group = workspace.groups[which]
        layer, first = self.layers[group[0]], group[0]
        shape = {key: value for key, value in layer.shape.items() if key not in {"H", "BWI"}}
        self.launch(
            kernels.weigh, (workspace.splits(group, images), 3, len(group)),
            workspace.kept[first], workspace.bordered[first], workspace.weight_partials[which], images * layer.tiles,
            workspace.capacity * layer.bordered_in, workspace.capacity * layer.bordered_out,
            workspace.group_sizes[which],
            **shape, TILES=TILES_PER_SPLIT, CHUNKS=layer.chunks, P=layer.pixels, **WARPS,
        )  # fmt: skip

    def _closing(self, workspace: Workspace, number: int) -> tuple[Tensor, ...]:
        """The tensors that finish the backward pass of a batch norm."""
        kept = workspace.saved[number], workspace.sums[number], workspace.coefficients[number]
        return self.layers[number].norm.weight, *kept, workspace.partial[number], workspace.counter[number]

    def _gradients(self, workspace: Workspace) -> list[Tensor]:
        """Views, in the order and the memory layout of the parameters."""
        found: list[Tensor] = []
        for layer, weight, sums in zip(self.layers, workspace.weights, workspace.sums, strict=True):
            inputs, outputs = layer.conv.in_channels, layer.conv.out_channels
            found += [weight.view(outputs, 3, 3, inputs).permute(0, 3, 1, 2), sums[outputs:], sums[:outputs]]
        return found


class FusedResNet(FusedChain):
    """Computes the same as a ``CifarResNet``, from the same parameters; maps are stored in ``dtype``."""

    def __init__(self, backbone: CifarResNet, height: int, width: int, dtype: torch.dtype = torch.bfloat16) -> None:
        blocks = *backbone.layer1, *backbone.layer2, *backbone.layer3
        convolutions = [(backbone.conv1, backbone.bn1), *convolutions_of(blocks)]
        super().__init__(backbone, convolutions, height, width, dtype, stem=True, pooled=True)

    def __call__(self, images: Tensor) -> Tensor:
        """Features [batch, features] in float32 of normalised images [batch, channels, H, W]."""
        return self.run(as_maps(images, self.dtype))

    def compile(self, beside: Sequence[Compilation] = ()) -> None:
        """Compile every kernel of both passes, once per process; at their first launch they would be, one by one."""
        compile_chains([self], beside)


def as_maps(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Images [batch, channels, H, W] as the kernels read them."""
    return images.permute(0, 2, 3, 1).to(dtype).contiguous()


def compile_chains(chains: Sequence[FusedChain], beside: Sequence[Compilation]) -> None:
    """Compile every kernel of chains, once per process.

    If those of ``gluon_convolution`` do not compile here, the others compute all layers. What is compiled ``beside``
    them raises nothing.
    """
    unlike = {chain.shape: chain for chain in chains}  # ends of one shape have the same kernels
    key = *unlike, chains[0].dtype, chains[0].parameters[0].device
    if key not in _compiling:
        _compiling[key] = _compile_some(list(unlike.values()), beside)
    for chain in chains:
        chain.use(_compiling[key])


def _compile_some(chains: Sequence[FusedChain], beside: Sequence[Compilation]) -> Mapping[int, Registers]:
    """Compile with ``Registers``, or without if that fails; what is compiled."""
    known = chains[0].layers[0].known
    try:
        _compile_with(chains, known, beside)
    except CannotFuse:
        if not known:
            raise
        known = {}
        _compile_with(chains, known, beside)
    return known


def _compile_with(chains: Sequence[FusedChain], known: Mapping[int, Registers], beside: Sequence[Compilation]) -> None:
    try:
        compile_together([*(each for chain in chains for each in chain.compilations(known)), *beside])
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # no compiler, no driver, no Gluon, or a kernel that is too large
        raise CannotFuse(reason(error)) from error


class _Differentiable(torch.autograd.Function):
    """A chain as one node of PyTorch's graph."""

    @staticmethod
    def forward(context: Any, network: FusedChain, images: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ARG004
        context.network, context.workspace = network, network.workspace(len(images), training=True)
        context.workspace.passes += 1
        context.number = context.workspace.passes
        context.save_for_backward(images)
        return network.forward(images, training=True)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (images,) = context.saved_tensors
        workspace, before = context.workspace, context.network.parameters[0].grad
        added = before is not None and before.data_ptr() == workspace.weights[0].data_ptr()
        if added or workspace.passes != context.number:
            raise RuntimeError("fused kernels hold one batch: call backward(), step() and zero_grad() before the next")
        gradients = context.network.backward(images, gradient)
        return None, context.network.input_gradient(images), *gradients
