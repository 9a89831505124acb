"""The schema of a recipe: every table, every field and its allowed values."""

import re
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tailcloud.backbones.adapters import AdapterKind
from tailcloud.data.augment import Augment
from tailcloud.data.read_options import SMALLEST_SIZE, Fit, LoaderKind, ReadOptions, Small
from tailcloud.evaluation.paired_difference import SelectionObjective


class RecipeTable(BaseModel):
    """A table of a recipe: immutable, without unknown fields, without type conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PartSpec(BaseModel):
    """A loss, a sampler or another part by name, with its options."""

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
    """Check ``train``: everything, or parts of the model."""
    part = r"(adapters|(head|backbone)(\.\w+)*)"
    if not re.fullmatch(rf"all|{part}(\+{part})*", value):
        raise ValueError(
            'should be "all", "head", a part of the model such as "head.scale", or some of them: '
            '"backbone.layer4+head", "adapters+head"'
        )
    return value


def interval(value: object) -> object:
    """Check ``every``: "auto", or a number of epochs."""
    if value != "auto" and (type(value) is not int or value < 1):
        raise ValueError('should be "auto" or a whole number of epochs, 1 or more')
    return value


NamedPart = Annotated[PartSpec, BeforeValidator(named)]
Fraction = Annotated[float, Field(ge=0, le=1)]
ADAPTERS = "adapters"  # a word of ``train``: all adapters of the model
LARGEST_SEED = 2**63 - 1  # that a TOML file can hold
WITHOUT_EFFECT = {"loader", "cache", "feature_cache"}  # fields of [data] that change no result


class Data(RecipeTable):
    """The training data. All but ``spec`` is mostly for your own images; see ``tailcloud.data.ReadOptions``."""

    spec: str
    size: Annotated[int, Field(ge=SMALLEST_SIZE, le=1024)] | None = None
    fit: Fit = "crop"
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    group: str | None = None
    min_count: Annotated[int, Field(ge=0)] = 0
    max_count: Annotated[int, Field(ge=0)] = 0
    small: Small = "drop"
    loader: LoaderKind = "auto"
    cache: Annotated[str, Field(min_length=1)] = "none"  # for images in files: "none", "ram" or a folder
    feature_cache: Annotated[str, Field(min_length=1)] = "auto"  # for stages with views: "auto", "none" or a folder

    @property
    def read_options(self) -> ReadOptions:
        """How the images are read."""
        return ReadOptions(**self.model_dump(exclude={"spec", "cache", "feature_cache"}))


def specified(value: object) -> object:
    """``data = "digits-lt"`` is short for a table with that spec."""
    return {"spec": value} if isinstance(value, str) else value


class Model(RecipeTable):
    """The model."""

    backbone: str = "resnet32"
    branches: Literal[1, 2] = 1  # 2: the last block twice, for objectives that need it
    experts: Annotated[int, Field(ge=1, le=16)] = 1  # the last two stages and the head so many times; means predict
    width: Annotated[float, Field(gt=0, le=64)] = 1.0
    head: str = "linear"
    adapter: AdapterKind = "none"  # in every block of a vision transformer; train = "adapters+head" trains them
    adapter_size: Annotated[int, Field(ge=0, le=4096)] = 0  # rank or bottleneck; 0: by LIFT's rule
    weights: str | None = None  # "pretrained", a tag of published weights, or a file; "none" as unset: from scratch
    weights_sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8,64}$")] | None = None  # or its first digits
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.0  # stochastic depth: rate of the last residual block

    @property
    def pretrained(self) -> str | None:
        """The weights that the backbone starts from; None if it is trained from scratch."""
        return None if self.weights == "none" else self.weights


class Stage(RecipeTable):
    """One stage of training: batches, loss, trained parameters, learning rate and optimiser."""

    epochs: Annotated[int, Field(ge=0, le=1_000_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    sampler: NamedPart = PartSpec(name="ib")
    second_sampler: NamedPart | None = None  # of a second batch per step, for objectives that need one
    mixup: Annotated[float, Field(ge=0)] = 0.0  # α of mixup; 0 disables
    cutmix: Annotated[float, Field(ge=0)] = 0.0  # α of CutMix; 0 disables; with mixup, each batch takes one of the two
    cutmix_sampler: NamedPart | None = None  # of the images that CutMix pastes; unset: those of the same batch
    cutmix_probability: Annotated[float, Field(gt=0, le=1)] | None = None  # of a batch; unset: 1, or 0.5 with mixup
    loss: NamedPart
    objective: NamedPart = PartSpec(name="classify")
    train: Annotated[str, AfterValidator(trainable)] = "all"
    views: Annotated[int, Field(ge=0, le=64)] = 0  # of each image, whose features train the head; 0: images do
    head_transform: NamedPart = PartSpec(name="keep")  # applied to the head before the first step
    batch_norm: Literal["moving", "frozen"] = "moving"
    lr: Annotated[float, Field(gt=0)] = 0.1
    lr_factors: dict[str, Annotated[float, Field(gt=0)]] = {}  # per part of the model: {"head.inner" = 0.2}
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # of the learning rate, for each layer below the head
    schedule: Literal["step", "cosine"] = "step"
    lr_interval: Literal["epoch", "step"] = "epoch"  # how often the learning rate follows the schedule
    warmup: Annotated[int | float, Field(ge=0)] = 5  # epochs; a fraction needs lr_interval = "step"
    milestones: list[Fraction] = [0.8, 0.9]
    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 2e-4
    decay_norms: bool = True  # false: no weight decay on norms and biases
    optimizer: NamedPart = PartSpec(name="sgd")  # "adamw" does not use momentum
    clip: Annotated[float, Field(ge=0)] = 0.0  # largest norm of all gradients together; 0 disables
    sam: Annotated[float, Field(ge=0)] = 0.0  # ρ of sharpness-aware minimisation, at twice the cost; 0 disables
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0  # EMA decay; the averaged weights are evaluated; 0 disables

    @property
    def parts(self) -> list[str]:
        """The names of the trained parts."""
        return self.train.split("+")

    @property
    def backbone_parts(self) -> list[str]:
        """The trained parts of the backbone; if there are any, its other parts are frozen."""
        return [part for part in self.parts if part == ADAPTERS or part.startswith("backbone.")]

    @property
    def trains_only_head(self) -> bool:
        """Whether the backbone stays as it is."""
        return not self.epochs or all(part.partition(".")[0] == "head" for part in self.parts)


class Distill(RecipeTable):
    """Distillation: in the first stage a run also learns from the mean logits of trained runs, its teachers."""

    teachers: Annotated[list[str], Field(min_length=1)]  # run folders
    sha256: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = []  # of their weights; a new run records them
    temperature: Annotated[float, Field(gt=0)] = 4.0  # T, by which the logits of both are divided
    weight: Annotated[float, Field(gt=0)] = 1.0  # of T²·KL(teacher ‖ student) beside the loss


class Selection(RecipeTable):
    """The validation share, how often the model is evaluated, and which epoch and stage the kept weights are of."""

    split: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    pick: Literal["last", "best"] = "last"  # the epoch of a stage
    stage: Literal["last", "best"] = "last"  # best: an earlier one if held-out accuracy does not rise
    objective: SelectionObjective | None = None  # what both compare; unset: stages "balanced", epochs "overall"
    every: Annotated[int | Literal["auto"], BeforeValidator(interval)] = "auto"  # epochs between two evaluations


class Engine(RecipeTable):
    """How a run computes. This changes no result, beyond rounding and the images that batch norm sees at a time."""

    executor: Literal["auto", "eager", "compiled", "graphed"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    kernels: Literal["auto", "plain", "fused"] = "auto"
    threads: Annotated[int, Field(ge=0, le=4096)] = 0  # 0: one per core, or one if steps are small
    workers: Annotated[int, Field(ge=0, le=1024)] = 0  # processes that decode image files; 0: one per core
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # micro-batches per process and step
    sync_batch_norm: bool = False  # over all processes of a run
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 10.0  # at least, also within an epoch; 0: every epoch


class Logging(RecipeTable):
    """What is recorded beside the result; it does not change the run."""

    gradients: bool = False  # mean |∂L/∂z_y| of each class after each evaluated epoch: softmax saturation
    tensorboard: bool = False  # events in RUN/tensorboard
    examples: bool = True  # misclassified test images of the worst tail classes


class Recipe(RecipeTable):
    """Everything that decides a run."""

    format: Literal[1] = 1
    data: Annotated[Data, BeforeValidator(specified)] = Data(spec="digits-lt")
    root: str = "data"
    method: str = "gcl"
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    model: Model = Model()
    augment: Augment = Augment()
    view_augment: Augment | None = None  # of the further views that an objective contrasts; unset: as augment
    stage1: Stage
    stage2: Stage | None = None
    stage3: Stage | None = None
    distill: Distill | None = None
    selection: Selection = Selection()
    engine: Engine = Engine()
    logging: Logging = Logging()

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages in order, by name."""
        stages = {"stage1": self.stage1, "stage2": self.stage2, "stage3": self.stage3}
        return {name: stage for name, stage in stages.items() if stage}

    def distillation(self, stage: str) -> Distill | None:
        """The teachers of a stage, if it has some: the first one may, later ones re-balance the head."""
        return self.distill if stage == "stage1" else None

    def until(self, last: str) -> "Recipe":
        """The recipe without the stages after ``last``."""
        names = list(self.stages)
        return self.model_copy(update=dict.fromkeys(names[names.index(last) + 1 :]))

    def substance(self) -> dict[str, Any]:
        """What decides the result: everything but where the data are, how the run computes, and what is logged.

        The digests of teachers are checked by themselves, when they are loaded.
        """
        return self._written(
            exclude={"root": True, "engine": True, "logging": True, "data": WITHOUT_EFFECT, "distill": {"sha256"}}
        )

    def training_substance(self) -> dict[str, Any]:
        """What decides the weights: how often they are evaluated does not, unless those of the best epoch are kept."""
        table = self.substance()
        if self.selection.pick == "last":
            del table["selection"]["every"]
        return table

    def to_toml(self) -> str:
        """The resolved recipe as a file."""
        return tomli_w.dumps(self._written())

    def _written(self, exclude: dict[str, Any] | None = None) -> dict[str, Any]:
        """All fields; the data as their SPEC alone if all other fields of [data] have their defaults."""
        table = self.model_dump(exclude=exclude, exclude_none=True)
        others = {name: value for name, value in table["data"].items() if name != "spec"}
        plain = all(value == Data.model_fields[name].default for name, value in others.items())
        return table | ({"data": self.data.spec} if plain else {})
