"""The schema of a recipe: every table, every field, and what is allowed in it."""

import re
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tailcloud.data.read_options import Fit, LoaderKind, ReadOptions, Small


class Record(BaseModel):
    """A table of a recipe: every field known, nothing coerced, nothing changed later."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Part(BaseModel):
    """A loss, a sampler or another part by name, with its own options beside the name."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)
    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name."""
        return self.model_extra or {}


def named(value: object) -> object:
    """``sampler = "cb"`` is short for a table with that name."""
    return {"name": value} if isinstance(value, str) else value


def trainable(value: str) -> str:
    """What a stage may train: everything, or parts of the model."""
    part = r"(head|backbone)(\.\w+)*"
    if not re.fullmatch(rf"all|{part}(\+{part})*", value):
        raise ValueError(
            'should be "all", "head", a part of the model such as "head.scale", or some of them: "backbone.layer4+head"'
        )
    return value


def ascending(value: list[float]) -> list[float]:
    """The bounds of a range."""
    if value != sorted(value):
        raise ValueError("should be the lower bound, then the upper one")
    return value


NamedPart = Annotated[Part, BeforeValidator(named)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Strength = Annotated[float, Field(ge=0, le=4)]
PAIR, TRIPLE = Field(min_length=2, max_length=2), Field(min_length=3, max_length=3)


HOW_DATA_ARE_READ = {"loader", "cache"}  # without a change to any result


class Data(Record):
    """What is trained on. Most but ``spec`` is for images of one's own; see ``tailcloud.data.ReadOptions``."""

    spec: str
    size: Annotated[int, Field(ge=4, le=1024)] | None = None
    fit: Fit = "crop"
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    group: str | None = None
    min_count: Annotated[int, Field(ge=0)] = 0
    small: Small = "drop"
    loader: LoaderKind = "auto"
    cache: Annotated[str, Field(min_length=1)] = "none"  # of images that stay in their files: "none", "ram" or a folder

    @property
    def read_options(self) -> ReadOptions:
        """How the images are read."""
        return ReadOptions(**self.model_dump(exclude={"spec", "cache"}))


def specified(value: object) -> object:
    """``data = "digits-lt"`` is short for a table with that spec."""
    return {"spec": value} if isinstance(value, str) else value


class Model(Record):
    """What is trained."""

    backbone: str = "resnet32"
    branches: Literal[1, 2] = 1  # 2: the last block twice, for objectives that ask for it
    width: Annotated[float, Field(gt=0, le=64)] = 1.0
    head: str = "linear"
    weights: str | None = None  # a file of tensors that the backbone starts from
    weights_sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8,64}$")] | None = None  # or the first digits of it


class Augment(Record):
    """How training images are varied."""

    crop_padding: Annotated[int, Field(ge=0, le=64)] = 0
    flip: bool = False
    crop_area: Annotated[list[Share], PAIR, AfterValidator(ascending)] | None = None  # shares: random resized crops
    crop_ratio: Annotated[list[Positive], PAIR, AfterValidator(ascending)] | None = (
        None  # their width / height: 3/4 to 4/3
    )
    color_jitter: Annotated[list[Strength], TRIPLE] | None = None  # how much brightness, contrast and saturation change


class Stage(Record):
    """One stage of training: what is shown, what is minimised, what may move, and how fast."""

    epochs: Annotated[int, Field(ge=0, le=1_000_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    sampler: NamedPart = Part(name="ib")
    second_sampler: NamedPart | None = (
        None  # the sampler of a second stream of batches, for objectives that ask for one
    )
    mixup: Annotated[float, Field(ge=0)] = 0.0
    loss: NamedPart
    objective: NamedPart = Part(name="classify")
    train: Annotated[str, AfterValidator(trainable)] = "all"
    head_transform: NamedPart = Part(name="keep")  # what happens to the head before the first step
    batch_norm: Literal["moving", "frozen"] = "moving"
    lr: Annotated[float, Field(gt=0)] = 0.1
    lr_factors: dict[str, Annotated[float, Field(gt=0)]] = {}  # of parts, by name: {"head.inner" = 0.2}
    schedule: Literal["step", "cosine"] = "step"
    warmup: Annotated[int, Field(ge=0)] = 5
    milestones: list[Fraction] = [0.8, 0.9]
    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 2e-4
    optimizer: NamedPart = Part(name="sgd")  # "adamw" has no use for momentum
    clip: Annotated[float, Field(ge=0)] = 0.0  # the largest norm of the whole gradient; 0: any
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0  # decay of an average of weights, which is what counts; 0: none

    @property
    def parts(self) -> list[str]:
        """The names of what is trained, one by one."""
        return self.train.split("+")

    @property
    def backbone_parts(self) -> list[str]:
        """Of these, the parts of the backbone: all others of its parts then stay as they are."""
        return [part for part in self.parts if part.startswith("backbone.")]


class Selection(Record):
    """What is held out, how often the model is evaluated, and which epoch's weights a stage ends with."""

    split: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    pick: Literal["last", "best"] = "last"
    every: Annotated[int, Field(ge=1)] = 1


class Engine(Record):
    """How a run is computed. None of this changes what is computed, beyond rounding and what batch norm sees."""

    executor: Literal["auto", "eager", "compiled", "graphed"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    kernels: Literal["auto", "plain", "fused"] = "auto"
    threads: Annotated[int, Field(ge=0, le=4096)] = 0  # 0: one a core, or one if steps are small
    workers: Annotated[int, Field(ge=0, le=1024)] = 0  # processes that read image files; 0: by the cores
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # pieces that a process computes of a batch, in turn
    sync_batch_norm: bool = False  # over the processes that share a run
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 1.0  # between two at least, also within an epoch; 0: each epoch


class Logging(Record):
    """What is written down beside the result, for people; none of it changes the run."""

    gradients: bool = False  # mean |∂L/∂z_y| of each class after each evaluated epoch: softmax saturation
    tensorboard: bool = False  # events in RUN/tensorboard
    examples: bool = True  # test images that went wrong in the worst tail classes


class Recipe(Record):
    """Everything that decides a run."""

    format: Literal[1] = 1
    data: Annotated[Data, BeforeValidator(specified)] = Data(spec="digits-lt")
    root: str = "data"
    method: str = "gcl"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    model: Model = Model()
    augment: Augment = Augment()
    stage1: Stage
    stage2: Stage | None = None
    stage3: Stage | None = None
    selection: Selection = Selection()
    engine: Engine = Engine()
    logging: Logging = Logging()

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages in order, by name."""
        stages = {"stage1": self.stage1, "stage2": self.stage2, "stage3": self.stage3}
        return {name: stage for name, stage in stages.items() if stage}

    def substance(self) -> dict[str, Any]:
        """What decides the result: everything but where the data are, how the run is computed and what is watched."""
        return self._written(exclude={"root": True, "engine": True, "logging": True, "data": HOW_DATA_ARE_READ})

    def to_toml(self) -> str:
        """The resolved recipe as a file."""
        return tomli_w.dumps(self._written())

    def _written(self, exclude: dict[str, Any] | None = None) -> dict[str, Any]:
        """Everything, the data as their SPEC alone where nothing else was said about them."""
        table = self.model_dump(exclude=exclude, exclude_none=True)
        said = {name: value for name, value in table["data"].items() if name != "spec"}
        plain = all(value == Data.model_fields[name].default for name, value in said.items())
        return table | ({"data": self.data.spec} if plain else {})
