"""How a run computes: executor, precision and kernels, from the recipe's ``[engine]`` table or chosen for "auto"."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

from tailcloud.classifier import Classifier
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.batch import WHOLE_BATCH
from tailcloud.data.loaders.images import Images
from tailcloud.errors import UsageError
from tailcloud.kernels import CannotFuse, FusedLayers, FusedNetwork, has_fused_layers, obstacle
from tailcloud.objectives import Network
from tailcloud.recipe import Recipe
from tailcloud.sampling import Sampler
from tailcloud.training.devices import environment
from tailcloud.training.distributed.sync_batch_norm import synchronise
from tailcloud.training.distributed.world import World
from tailcloud.training.executors.micro_batch import check_micro_batches
from tailcloud.training.model import cost_on
from tailcloud.training.stages.cost import total_flops
from tailcloud.training.stages.factory import make_loss, make_objective
from tailcloud.training.stages.trial_step import trial_step

COMPILE_FROM = 2e14  # FLOPs of a run on a CPU; see docs/performance.md
START_SOONER_BELOW = 1e15  # FLOPs of a run on a GPU below which the convolutions that start sooner pay off


def check_losses(recipe: Recipe, counts: Sequence[int]) -> None:
    """Refuse losses of trained stages that micro-batches cannot compute."""
    for name, stage in recipe.stages.items():
        if stage.epochs:
            check_micro_batches(make_objective(stage, make_loss(stage, counts), counts), name)


def unfused(failure: CannotFuse) -> str:
    """The note for a run whose fused kernels do not compile."""
    return f"The fused kernels do not compile here ({failure}); PyTorch's own kernels are used, which are slower."


class RunEngine:
    """The executor, precision and kernels of a run, and the micro-batches into which its batches are cut.

    What is impossible is refused; what a user may not expect is among the ``remarks``.
    """

    def __init__(self, recipe: Recipe, dataset: Dataset, images: Images, model: Classifier, world: World) -> None:
        self.recipe, self.dataset, self.images, self.model, self.world = recipe, dataset, images, model, world
        self.device = images.device
        self.share = world.share(recipe.engine.accumulate)
        self.remarks: list[str] = []
        self.executor = _unless_auto(recipe.engine.executor, self.automatic_executor)
        if self.executor == "graphed" and not images.capturable:
            raise UsageError(
                'engine.executor = "graphed" needs all images on the GPU, and these stay in their files; set it to '
                '"auto", or set data.loader = "resident"'
            )
        if self.uses_micro_batches:
            self.prepare_micro_batches()
        self.layers = self.fused_layers()
        self.fused = None if self.layers else self.fused_network()

    @property
    def automatic_executor(self) -> str:
        """CUDA graphs if all images are on a GPU; on a CPU compiled steps if the run is long enough; else eager."""
        if self.device.type == "cpu":
            return "compiled" if self.flops >= COMPILE_FROM else "eager"
        return "graphed" if self.device.type == "cuda" and self.images.capturable else "eager"

    @property
    def flops(self) -> int:
        """FLOPs of all training steps."""
        return total_flops(self.recipe, len(self.dataset.train), cost_on(self.model, self.dataset).flops)

    @property
    def feature_executor(self) -> str:
        """The same for a stage on features, which are on the device; its steps are too small to compile by default."""
        if self.uses_micro_batches or self.recipe.engine.executor != "auto":
            return self.executor
        return "graphed" if self.device.type == "cuda" else "eager"

    @property
    def precision(self) -> str:
        """What the model computes in: bfloat16 on CUDA, float32 elsewhere, unless the recipe says otherwise."""
        return _unless_auto(self.recipe.engine.precision, "bfloat16" if self.device.type == "cuda" else "float32")

    @property
    def uses_micro_batches(self) -> bool:
        """Whether batches are cut, for several ranks or for gradient accumulation."""
        return self.share != WHOLE_BATCH

    def prepare_micro_batches(self) -> None:
        """Refuse losses that cannot be cut. Steps are eager: graphs, compiled steps and fused kernels take batches."""
        with self.world.rank0_errors():
            check_losses(self.recipe, self.dataset.profile.counts.tolist())
            if self.recipe.engine.sync_batch_norm:
                synchronise(self.model, self.world)
        if self.executor != "eager":
            self.remarks.append(f"Batches are cut into micro-batches, so steps run eagerly and not {self.executor}.")
        self.executor = "eager"

    def fused_network(self) -> FusedNetwork | None:
        """The model in fused kernels, if they can compute it; otherwise a remark, or an error if they are required."""
        kernels, reason = self.recipe.engine.kernels, self.obstacle()
        if kernels == "fused" and reason:
            raise UsageError(f'engine.kernels = "fused" is not possible here: {reason}')
        if kernels == "plain" or reason:
            return None
        network = FusedNetwork(self.model, *self.dataset.shape[:2])
        try:
            network.backbone.compile(self.trial_steps(network))
        except CannotFuse as failure:
            self.remarks.append(unfused(failure))
            return None
        return network

    def trial_steps(self, network: FusedNetwork) -> list[Callable[[], None]]:
        """What compiles the kernels of each stage that the backbone does not have."""
        stages = [stage for stage in self.recipe.stages.values() if stage.epochs]
        return [partial(trial_step, network, stage, self.recipe.augment, self.dataset) for stage in stages]

    def fused_layers(self) -> FusedLayers | None:
        """Kernels for layers of the model, if there are some, the recipe allows them, and the run can.

        ``auto`` decides for norms and convolutions apart. Norms are faster wherever steps are captured; launched one by
        one, they would only wait for Python. Convolutions start ten seconds sooner than cuDNN's, but steps take a sixth
        longer: they are for short runs.
        """
        kernels = self.recipe.engine.kernels
        if kernels == "plain" or self.general_obstacle() or not has_fused_layers(self.model):
            return None
        flops = self.flops  # 0: it trains on features
        convolutions = kernels == "fused" or 0 < flops < START_SOONER_BELOW
        norms = kernels == "fused" or (flops > 0 and self.executor == "graphed")
        if not (convolutions or norms):
            return None
        layers = FusedLayers(self.model, convolutions=convolutions, norms=norms)
        try:
            layers.compile(*self.dataset.shape[:2])
        except CannotFuse as failure:
            layers.remove()
            self.remarks.append(unfused(failure))
            return None
        return layers

    def use_plain_kernels(self) -> None:
        """PyTorch's kernels compute from now on."""
        self.fused = None
        if self.layers:
            self.layers.remove()
            self.layers = None

    def general_obstacle(self) -> str | None:
        """Why this run cannot use any fused kernels."""
        reasons = {
            "they need --device cuda": self.device.type != "cuda",
            f'they compute in bfloat16, not in engine.precision = "{self.precision}"': self.precision != "bfloat16",
            'engine.executor = "compiled" makes its own kernels': self.executor == "compiled",
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def obstacle(self) -> str | None:
        """Why this run cannot be computed by a fused network; None if it can."""
        stages = self.recipe.stages.values()
        reasons = {
            "they compute whole batches, and engine.accumulate or several processes cut them": self.uses_micro_batches,
            "they need all images on the GPU, and these stay in their files": not self.images.capturable,
            "they train a backbone as a whole": any(stage.backbone_parts for stage in stages),
        }
        reason = self.general_obstacle() or next((reason for reason, holds in reasons.items() if holds), None)
        return reason or obstacle(self.model, *self.dataset.shape[:2])

    def loader(self, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]) -> Loader:
        """The training batches of a stage: assembled by a fused kernel, or as the images do it."""
        if self.fused:
            return self.fused.loader(self.images, sampler, transform, **options)
        return self.images.loader(sampler, transform, **options)

    @property
    def network(self) -> Network:
        """What computes the model's outputs: fused kernels, or the model itself."""
        return self.fused or self.model

    @property
    def kernels(self) -> str:
        """Which kernels compute: "fused" ones, or PyTorch's "plain" ones."""
        return "fused" if self.fused or self.layers else "plain"

    @property
    def environment(self) -> dict[str, Any]:
        """What bit-identical results depend on."""
        engine, ranks = self.recipe.engine, self.world.size
        return {
            **environment(self.device),
            "executor": self.executor,
            "loader": self.images.kind,
            "precision": self.precision,
            "kernels": self.kernels,
            "ranks": ranks,
            "accumulate": engine.accumulate,
            "sync_batch_norm": engine.sync_batch_norm and ranks > 1,
            **({"fused_layers": self.layers.kinds} if self.layers else {}),
        }


def _unless_auto(setting: str, automatic: str) -> str:
    return automatic if setting == "auto" else setting
