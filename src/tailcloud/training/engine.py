"""How a run computes: as the ``[engine]`` table of its recipe says, and where that says "auto", as is best here."""

from typing import Any

import torch

from tailcloud.classifier import Classifier
from tailcloud.data import Dataset
from tailcloud.data.loaders.batch_share import WHOLE
from tailcloud.data.loaders.placement import is_streamed
from tailcloud.errors import UsageError
from tailcloud.kernels import CannotFuse, FusedNetwork, obstacle
from tailcloud.objectives import Network
from tailcloud.recipe import Recipe
from tailcloud.training.devices import environment
from tailcloud.training.distributed.sync_batch_norm import synchronise
from tailcloud.training.distributed.world import World
from tailcloud.training.executors.micro_batch import check_pieces
from tailcloud.training.model import cost_on
from tailcloud.training.stages.cost import flops_in_all
from tailcloud.training.stages.factory import make_loss, make_objective

COMPILING_PAYS = 2e14  # FLOPs of a whole run on a CPU; see docs/performance.md


def unfused(failure: CannotFuse) -> str:
    """What the person at the keyboard should know."""
    return f"The fused kernels do not compile here ({failure}); PyTorch's own are used, which are slower."


def _chosen(asked: str, automatic: str) -> str:
    return automatic if asked == "auto" else asked


class RunEngine:
    """The executor, precision and kernels of a run, and the pieces into which its batches are cut.

    What cannot be is refused; what is other than people may expect is among the ``remarks``.
    """

    def __init__(self, recipe: Recipe, dataset: Dataset, model: Classifier, device: torch.device, world: World) -> None:
        self.recipe, self.dataset, self.model, self.device, self.world = recipe, dataset, model, device, world
        self.streamed = is_streamed(dataset.train)
        self.share = world.share(recipe.engine.accumulate)
        self.remarks: list[str] = []
        self.executor = _chosen(recipe.engine.executor, self.automatic_executor)
        if self.executor == "graphed" and self.streamed:
            raise UsageError(
                'engine.executor = "graphed" needs all images on the GPU, and these stay in their files; leave it at '
                '"auto", or set data.loader = "resident"'
            )
        if self.in_pieces:
            self.prepare_pieces()
        self.fused = self.fused_network()

    @property
    def automatic_executor(self) -> str:
        """How steps are run unless the recipe says: as CUDA graphs; on a CPU compiled if the run is long enough.

        Graphs need all images on the device.
        """
        if self.device.type == "cpu":
            flops = cost_on(self.model, self.dataset).flops
            work = flops_in_all(self.recipe, len(self.dataset.train), flops)
            return "compiled" if work >= COMPILING_PAYS else "eager"
        return "graphed" if self.device.type == "cuda" and not self.streamed else "eager"

    @property
    def precision(self) -> str:
        """What the model computes in: bfloat16 on CUDA, float32 elsewhere, unless the recipe says otherwise."""
        return _chosen(self.recipe.engine.precision, "bfloat16" if self.device.type == "cuda" else "float32")

    @property
    def in_pieces(self) -> bool:
        """Whether batches are computed in pieces, by several processes or one after the other."""
        return self.share != WHOLE

    def prepare_pieces(self) -> None:
        """Refuse what cannot be cut; steps are eager, since graphs, compiled steps and fused kernels take batches."""
        counts = self.dataset.profile.counts.tolist()
        with self.world.one_voice():
            for name, stage in self.recipe.stages.items():
                if stage.epochs:
                    loss = make_loss(stage, counts)
                    check_pieces(make_objective(stage, loss, counts, self.model.backbone.features), name)
            if self.recipe.engine.sync_batch_norm:
                synchronise(self.model, self.world)
        if self.executor != "eager":
            self.remarks.append(f"Batches are computed in pieces here, so steps run eagerly and not {self.executor}.")
        self.executor = "eager"

    def fused_network(self) -> FusedNetwork | None:
        """The model in fused kernels, where these can compute it; if they should and cannot, a remark or an error."""
        asked, reason = self.recipe.engine.kernels, self.obstacle()
        if asked == "fused" and reason:
            raise UsageError(f'engine.kernels = "fused" is not possible here: {reason}')
        if asked == "plain" or reason:
            return None
        network = FusedNetwork(self.model, *self.dataset.shape[:2])
        try:
            network.backbone.compile()
        except CannotFuse as failure:
            self.remarks.append(unfused(failure))
            return None
        return network

    def obstacle(self) -> str | None:
        """Why this run cannot be computed by fused kernels, if so."""
        augment, stages = self.recipe.augment, self.recipe.stages.values()
        reasons = {
            "they need --device cuda": self.device.type != "cuda",
            f'they compute in bfloat16, not in engine.precision = "{self.precision}"': self.precision != "bfloat16",
            "they compute whole batches, and engine.accumulate or several processes cut them": self.in_pieces,
            'engine.executor = "compiled" makes kernels of its own': self.executor == "compiled",
            "they take images that are on the GPU, and these stay in their files": self.streamed,
            "they train a backbone as a whole": any(stage.backbone_parts for stage in stages),
            "they know no augment.crop_area and no augment.color_jitter": bool(
                augment.crop_area or augment.color_jitter
            ),
        }
        found = next((reason for reason, holds in reasons.items() if holds), None)
        return found or obstacle(self.model, *self.dataset.shape[:2])

    @property
    def network(self) -> Network:
        """What computes the model's outputs: fused kernels, or the model itself."""
        return self.fused or self.model

    @property
    def kernels(self) -> str:
        """Whose kernels compute: "fused" ones of our own, or "plain" ones."""
        return "fused" if self.fused else "plain"

    @property
    def environment(self) -> dict[str, Any]:
        """What a bit-for-bit repetition depends on."""
        engine, ranks = self.recipe.engine, self.world.size
        return {
            **environment(self.device),
            "executor": self.executor,
            "loader": "stream" if self.streamed else "resident",
            "precision": self.precision,
            "kernels": self.kernels,
            "ranks": ranks,
            "accumulate": engine.accumulate,
            "sync_batch_norm": engine.sync_batch_norm and ranks > 1,
        }
