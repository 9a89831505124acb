"""How far a stage is: losses and samplers hear it before each epoch, whatever runs the steps, and after a resume."""

import pytest
import torch

from helpers.runs import Interrupted, StopAfter, Watcher, run, small_recipe
from tailcloud.losses import LOSSES, CrossEntropyLoss
from tailcloud.sampling import ShuffledSampler
from tailcloud.training.executors import compiled


class Told(CrossEntropyLoss):
    """Cross-entropy that grows with the share of a stage, and remembers what it was told."""

    def __init__(self, counts=None, *, scale: float = 30.0):
        super().__init__(counts, scale=scale)
        self.register_buffer("factor", torch.ones(()), persistent=False)
        self.shares = []
        made.append(self)

    def advance(self, share):
        self.shares.append(share)
        self.factor.fill_(1 + share)

    def forward(self, output, target, *, epsilon=None):
        return self.factor * super().forward(output, target)


made = []


@pytest.fixture(autouse=True)
def told(monkeypatch):
    made.clear()
    monkeypatch.setitem(LOSSES, "told", Told)


def recipe(epochs, **settings):
    stage = {"loss": {"name": "told"}, "epochs": epochs}
    return small_recipe({"stage1": stage, "stage2": {"epochs": 1}, **settings})


def heard():
    return [share for loss in made for share in loss.shares]


def test_each_epoch_begins_with_the_share_that_is_done(tmp_path):
    run(tmp_path / "run", recipe(4))
    assert heard() == [0.0, 0.25, 0.5, 0.75]


def test_a_resumed_run_hears_what_it_would_have_heard(tmp_path):
    with pytest.raises(Interrupted):
        run(tmp_path / "run", recipe(4), StopAfter(2))
    made.clear()
    run(tmp_path / "run", recipe(4))
    assert heard() == [0.5, 0.75]


def test_a_compiled_step_sees_it_without_being_compiled_again(tmp_path, monkeypatch):
    torch._dynamo.reset()
    seen = []

    def count(graph, inputs):
        seen.append(graph)
        return graph.forward

    monkeypatch.setattr(compiled, "BACKEND", count)
    losses = {}
    for executor in ("eager", "compiled"):
        watcher = Watcher()
        run(tmp_path / executor, recipe(3, engine={"executor": executor}), watcher)
        losses[executor] = [line["loss"] for line in watcher.lines if line["stage"] == "stage1"]
    assert losses["compiled"] == pytest.approx(losses["eager"], rel=1e-4)
    assert len(seen) == 4  # two sizes of batch in each of two stages
    torch._dynamo.reset()


def test_samplers_hear_it_too(tmp_path, monkeypatch):
    shares, draw = [], ShuffledSampler.draw

    def noted(self, generator, share=0.0):
        shares.append(share)
        return draw(self, generator, share)

    monkeypatch.setattr(ShuffledSampler, "draw", noted)
    run(tmp_path / "run", recipe(4))
    assert shares == [0.0, 0.25, 0.5, 0.75]
