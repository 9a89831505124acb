"""The schema of a recipe: every table, every field and its allowed values.

``tests/helpers/recipe_page.py`` writes docs/recipe.md from it. What a field means is under "Attributes" of its table.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

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
    """The training data; most fields are for your images. ``data = "SPEC"`` is short for a table with its ``spec``.

    The fields of ``tailcloud.data.ReadOptions`` are explained there.

    Attributes:
        spec: the name of a data set, with its imbalance ratio (``cifar10-lt:100``), or the path of your own images.
        cache: where decoded images are kept if they are streamed from files: "none", "ram", or a folder.
        feature_cache: where the features of stages with ``views`` are kept: "auto" is ``$TAILCLOUD_CACHE/features``, or
            else the cache of the user, "none" keeps nothing, and anything else is a folder.
    """

    spec: str
    size: Annotated[int, Field(ge=SMALLEST_SIZE, le=1024)] | None = None
    fit: Fit = "crop"
    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    group: str | None = None
    min_count: Annotated[int, Field(ge=0)] = 0
    max_count: Annotated[int, Field(ge=0)] = 0
    small: Small = "drop"
    loader: LoaderKind = "auto"
    cache: Annotated[str, Field(min_length=1)] = "none"
    feature_cache: Annotated[str, Field(min_length=1)] = "auto"

    @property
    def read_options(self) -> ReadOptions:
        """How the images are read."""
        return ReadOptions(**self.model_dump(exclude={"spec", "cache", "feature_cache"}))


def specified(value: object) -> object:
    """``data = "digits-lt"`` is short for a table with that spec."""
    return {"spec": value} if isinstance(value, str) else value


class Model(RecipeTable):
    """The network, and the weights that it starts from.

    Attributes:
        backbone: the network that computes the features, by name.
        branches: 2 has the last block of a ResNet twice, for the objective "bbn".
        experts: the last two stages of a ResNet and its head are there so many times, on a shared trunk; the mean of
            their logits predicts.
        width: a factor on the number of channels of every layer.
        head: the classifier on the features.
        adapter: small modules in every block of a vision transformer, which ``train = "adapters+head"`` trains alone.
        adapter_size: the rank of LoRA, or the bottleneck of AdaptFormer; 0 takes LIFT's rule, by classes and blocks.
        weights: what the backbone starts from: "pretrained", a tag of published weights, or a file. Unset, or "none":
            from scratch.
        weights_sha256: the SHA-256 of the file of weights, or its first digits; another file is refused.
        drop_path: stochastic depth: the probability with which an image skips the last residual block of an
            EfficientNet-Lite. It rises linearly from block to block.
    """

    backbone: str = "resnet32"
    branches: Literal[1, 2] = 1
    experts: Annotated[int, Field(ge=1, le=16)] = 1
    width: Annotated[float, Field(gt=0, le=64)] = 1.0
    head: str = "linear"
    adapter: AdapterKind = "none"
    adapter_size: Annotated[int, Field(ge=0, le=4096)] = 0
    weights: str | None = None
    weights_sha256: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8,64}$")] | None = None
    drop_path: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def pretrained(self) -> str | None:
        """The weights that the backbone starts from; None if it is trained from scratch."""
        return None if self.weights == "none" else self.weights


class Stage(RecipeTable):
    """One stage of training: batches, loss, trained parameters, learning rate and optimiser.

    Attributes:
        epochs: passes over the training images; 0 trains nothing, which leaves the head transform.
        batch: images per step, over all processes of a run.
        sampler: how often an image of each class is drawn.
        second_sampler: the sampler of a second batch per step, for objectives that need one, such as "bbn".
        mixup: α of mixup: the share of an image in its mixture is drawn from Beta(α, α); 0 disables it.
        cutmix: α of CutMix; 0 disables it. With mixup, each batch takes one of the two.
        cutmix_sampler: the sampler of the images from which CutMix pastes a box. Unset: they are of the same batch.
        cutmix_probability: how likely a batch gets CutMix. Unset: 1, or 0.5 with mixup.
        loss: what is minimised on the outputs.
        objective: what is computed on a batch, and which outputs the loss gets.
        train: the parts of the model that are trained: "all", "head", a part such as "backbone.layer4" or
            "head.scale", "adapters", or some of them joined by "+".
        views: augmented views of each image, whose features are computed once by the frozen backbone and train the
            head; 0 trains on images.
        head_transform: what is done to the head before the first step.
        batch_norm: "moving" normalises with the statistics of the batch and updates the running ones, "frozen"
            normalises with the running ones and keeps them.
        lr: the learning rate, after the warm-up.
        lr_factors: factors on the learning rate for parts of the model, such as ``{"head.inner" = 0.2}``.
        layer_decay: the factor on the learning rate from each layer to the one before it, from the head down.
        schedule: "step" multiplies the learning rate by ``decay`` at each milestone, "cosine" lowers it to almost 0 in
            half a cosine.
        lr_interval: whether the learning rate follows the schedule once an epoch, or in every step.
        warmup: epochs in which the learning rate rises linearly, at most a fifth of the stage; a fraction needs
            ``lr_interval = "step"``.
        milestones: when "step" lowers the learning rate, in shares of the stage.
        decay: the factor on the learning rate at a milestone.
        momentum: the momentum of "sgd"; "adamw" has ``beta1`` instead.
        weight_decay: the L2 penalty of "sgd", or the decoupled weight decay of "adamw".
        decay_norms: whether norms and biases have weight decay, too.
        optimizer: what updates the weights.
        clip: the largest norm of all gradients together; longer ones are scaled down. 0 never does so.
        sam: ρ of sharpness-aware minimisation, which takes twice the time; 0 disables it.
        ema: the decay, per step, of an exponential moving average of the weights, such as 0.999; the averaged weights
            are evaluated and kept. 0 disables it.
    """

    epochs: Annotated[int, Field(ge=0, le=1_000_000)]
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    sampler: NamedPart = PartSpec(name="ib")
    second_sampler: NamedPart | None = None
    mixup: Annotated[float, Field(ge=0)] = 0.0
    cutmix: Annotated[float, Field(ge=0)] = 0.0
    cutmix_sampler: NamedPart | None = None
    cutmix_probability: Annotated[float, Field(gt=0, le=1)] | None = None
    loss: NamedPart
    objective: NamedPart = PartSpec(name="classify")
    train: Annotated[str, AfterValidator(trainable)] = "all"
    views: Annotated[int, Field(ge=0, le=64)] = 0
    head_transform: NamedPart = PartSpec(name="keep")
    batch_norm: Literal["moving", "frozen"] = "moving"
    lr: Annotated[float, Field(gt=0)] = 0.1
    lr_factors: dict[str, Annotated[float, Field(gt=0)]] = {}
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    schedule: Literal["step", "cosine"] = "step"
    lr_interval: Literal["epoch", "step"] = "epoch"
    warmup: Annotated[int | float, Field(ge=0)] = 5
    milestones: list[Fraction] = [0.8, 0.9]
    decay: Annotated[float, Field(gt=0, le=1)] = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Annotated[float, Field(ge=0)] = 2e-4
    decay_norms: bool = True
    optimizer: NamedPart = PartSpec(name="sgd")
    clip: Annotated[float, Field(ge=0)] = 0.0
    sam: Annotated[float, Field(ge=0)] = 0.0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0

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

    @model_validator(mode="before")
    @classmethod
    def _name_default_parts(cls, table: object) -> object:
        """Options without a name, as of ``--set stage1.optimizer.nesterov=true``, are those of the default part."""
        if not isinstance(table, Mapping):
            return table
        defaults = {
            key: field.default for key, field in cls.model_fields.items() if isinstance(field.default, PartSpec)
        }
        nameless = {key for key in defaults if isinstance(table.get(key), Mapping) and "name" not in table[key]}
        return {**table, **{key: {"name": defaults[key].name, **table[key]} for key in nameless}}


class Distill(RecipeTable):
    """Distillation: in the first stage a run also learns from the mean logits of trained runs, its teachers.

    Attributes:
        teachers: the run folders of the teachers.
        sha256: the SHA-256 of the weights of each teacher. A new run records them, and is resumed only with the same.
        temperature: T, by which the logits of teacher and student are divided.
        weight: the weight of T²·KL(teacher ‖ student) beside the loss.
    """

    teachers: Annotated[list[str], Field(min_length=1)]
    sha256: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = []
    temperature: Annotated[float, Field(gt=0)] = 4.0
    weight: Annotated[float, Field(gt=0)] = 1.0


class Selection(RecipeTable):
    """The validation share, how often the model is evaluated, and which epoch and stage the kept weights are of.

    Attributes:
        split: the share of the training images of each class that is held out for validation, if the data have no
            validation split; 0 holds none out.
        pick: which epoch of a stage is kept: the last one, or the best on held-out images (without any: on test
            images, and the result says so).
        stage: which stage is kept: the last one, or "best", an earlier one if held-out accuracy does not rise.
        objective: what decides: "balanced" accuracy, in which all classes weigh the same, "overall", in which all
            images do, or that of "few"-shot classes. Unset: "balanced" for stages, "overall" for epochs.
        every: epochs from one evaluation to the next; "auto" evaluates each epoch if that is cheap, else the first,
            every fifth and those at the end.
    """

    split: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    pick: Literal["last", "best"] = "last"
    stage: Literal["last", "best"] = "last"
    objective: SelectionObjective | None = None
    every: Annotated[int | Literal["auto"], BeforeValidator(interval)] = "auto"


class Engine(RecipeTable):
    """How a run computes. This changes no result, beyond rounding and the images that batch norm sees at a time.

    Attributes:
        executor: how a step runs: operation by operation ("eager"), by ``torch.compile`` ("compiled"), or captured as a
            CUDA graph ("graphed"); "auto" takes the fastest for device and length of the run.
        precision: the number format of the step; "auto" is bfloat16 on CUDA, by autocast, and float32 elsewhere.
        kernels: Triton kernels of several layers at once ("fused"), or PyTorch's ("plain"); "auto" takes fused ones
            where they fit.
        threads: threads of PyTorch on a CPU; 0 takes one per core, or one if steps are small.
        workers: processes that decode image files; 0 takes one per core.
        accumulate: micro-batches into which each process cuts its share of a batch, for less memory.
        sync_batch_norm: whether batch norm has the statistics of all processes of a run.
        checkpoint_seconds: the least time between two checkpoints, also within an epoch; 0 saves every epoch.
    """

    executor: Literal["auto", "eager", "compiled", "graphed"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    kernels: Literal["auto", "plain", "fused"] = "auto"
    threads: Annotated[int, Field(ge=0, le=4096)] = 0
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    sync_batch_norm: bool = False
    checkpoint_seconds: Annotated[float, Field(ge=0)] = 10.0


class Logging(RecipeTable):
    """What is recorded beside the result; it does not change the run.

    Attributes:
        gradients: whether each evaluated epoch logs the mean |∂L/∂z_y| of each class: the saturation of softmax.
        tensorboard: whether events for TensorBoard are written to ``RUN/tensorboard``.
        examples: whether images are kept for the report: samples of classes, errors and uncertain test images.
    """

    gradients: bool = False
    tensorboard: bool = False
    examples: bool = True


class Recipe(RecipeTable):
    """Everything that decides a run.

    Attributes:
        format: the version of this schema.
        root: the folder with the files of data sets, and the start of paths in a list of images.
        method: the method, whose settings the fields of the recipe override; two can be joined, ``gcl+crt``.
        seed: everything random follows from it.
    """

    format: Literal[1] = 1
    data: Annotated[Data, BeforeValidator(specified)] = Data(spec="digits-lt")
    root: str = "data"
    method: str = "gcl"
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    model: Model = Model()
    augment: Augment = Augment()
    view_augment: Augment | None = None
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
