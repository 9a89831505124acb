"""The head that a stage starts with, made from the one that was trained."""

from functools import partial

import torch
from torch import Tensor

from tailcloud.calibration.held_out import HeldOutOutputs, predict_held_out
from tailcloud.calibration.implied_prior import implied_prior
from tailcloud.classifier import fresh_head
from tailcloud.head_transforms import TrainedModelView
from tailcloud.heads import Head
from tailcloud.recipe import head_kinds
from tailcloud.training.session import Session
from tailcloud.training.stages.factory import make_head_transform


def open_stage(session: Session, name: str) -> list[str]:
    """Before the first step of a stage: put its head into the model. What there is to say about that is returned."""
    stage, old = session.recipe.stages[name], session.model.head
    change = make_head_transform(stage, session.dataset.profile.counts.tolist())
    session.model.eval()
    new, said = _fresh(session, name), list[str]()
    held = partial(held_out_before, session, name)
    trained = TrainedModelView(session.loss(stage).scale, partial(features, session), held, said.append)
    with torch.no_grad():
        change.apply(old, new, trained)
    session.use_head(new)
    return [f"{name}: {sentence}" for sentence in said]


def shape_head(session: Session, name: str) -> None:
    """A head of the kind that a stage trains, for weights that will be loaded into it."""
    session.use_head(_fresh(session, name))


def _fresh(session: Session, name: str) -> Head:
    return fresh_head(session.model, head_kinds(session.recipe)[name], session.recipe.seed)


@torch.no_grad()
def features(session: Session) -> tuple[Tensor, Tensor]:
    """What the model sees in every training image as it is stored, and the classes."""
    session.model.eval()
    batches = session.images.seen.in_order(session.transform)
    return torch.cat([session.model.features(batch.images).float() for batch in batches]), session.images.train.labels


def held_out_before(session: Session, name: str) -> HeldOutOutputs | None:
    """What the model says about the validation images before a stage; None where they are too few."""
    counts = session.dataset.profile.counts.tolist()
    prior = implied_prior(session.recipe, counts, name)
    return predict_held_out(session.model, session.images.val, session.transform, prior)
