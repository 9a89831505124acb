"""The start of a stage: its head is made from the one that was trained before."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from tailcloud.calibration.held_out import HeldOutOutputs, predict_held_out
from tailcloud.calibration.run_calibration import implied_prior
from tailcloud.classifier import fresh_head, inference_head
from tailcloud.head_transforms.base import TrainedModelView, transform_head
from tailcloud.heads import Head, inference_kind
from tailcloud.recipe import head_kinds
from tailcloud.training.session import Session
from tailcloud.training.stages.factory import make_head_transform
from tailcloud.training.teachers import kernel_remarks, prior_remarks

PRIOR_TOLERANCE = 0.05


def start_stage(session: Session, name: str) -> list[str]:
    """Before the first step of a stage: transform the head and put it into the model. Returns remarks on that."""
    remarks = [*teacher_remarks(session, name), *expert_remarks(session, name), *session.enter_stage(name)]
    stage, old = session.recipe.stages[name], _trained_head(session, name)
    if session.features:
        session.features.load(train=stage.epochs > 0)
    transform = make_head_transform(stage, session.dataset.profile.counts.tolist())
    session.model.eval()
    new = _new_head(session, name)
    held = partial(held_out_before, session, name)
    trained = TrainedModelView(session.loss(stage).scale, partial(train_features, session), held, remarks.append)
    with torch.no_grad():
        transform_head(transform, old, new, trained)
    session.use_head(new)
    return [f"{name}: {remark}" for remark in remarks]


def teacher_remarks(session: Session, name: str) -> list[str]:
    """What a user should know about the teachers of a stage, if it has some."""
    recipe, counts = session.recipe, session.dataset.profile.counts.tolist()
    if (distill := recipe.distillation(name)) is None or (teachers := session.teachers) is None:
        return []
    size = session.dataset.shape[:2]
    slow = kernel_remarks(teachers, distill.teachers, *size) if session.fused else []
    later = [stage for other, stage in recipe.stages.items() if other != name and stage.epochs]
    own = implied_prior(recipe.until(name), counts)
    return [*teachers.remarks, *slow, *([] if later else prior_remarks(teachers, own))]


def expert_remarks(session: Session, name: str) -> list[str]:
    """A remark on experts whose mean logits prefer the rarest class: their loss balances classes, and their τ again."""
    recipe, counts = session.recipe, session.dataset.profile.counts
    objective = recipe.stages[name].objective
    if objective.name != "experts" or not recipe.stages[name].epochs:
        return []
    prior, frequent = implied_prior(recipe.until(name), counts.tolist()), int(counts.argmax())
    rare = int(np.where(counts > 0, counts, counts.max()).argmin())
    if prior[rare] <= prior[frequent] * (1 + PRIOR_TOLERANCE):
        return []
    taus = objective.options["taus"]
    centred = ",".join(str(round(tau - sum(taus) / len(taus), 3)) for tau in taus)
    return [
        f"{recipe.stages[name].loss.name} balances classes already, and the experts' taus adjust for their frequencies "
        f"once more: the mean logits take {session.dataset.class_names[rare]} for the most frequent class. Taus with "
        f"the mean 0 do not: --set {name}.objective.taus=[{centred}]"
    ]


def use_new_head(session: Session, name: str) -> None:
    """Give the model a head of the kind that a stage trains, to continue it; its weights are loaded afterwards."""
    session.enter_stage(name)
    session.use_head(_new_head(session, name))


def _trained_head(session: Session, name: str) -> Head:
    """The head of the model before a stage, without what only the training of an earlier stage needed."""
    kinds = head_kinds(session.recipe)
    earlier = list(kinds)[: list(kinds).index(name)]
    if not earlier or inference_kind(kinds[earlier[-1]]) == kinds[earlier[-1]]:
        return session.model.head
    return inference_head(session.model, inference_kind(kinds[earlier[-1]]))


def _new_head(session: Session, name: str) -> Head:
    return fresh_head(session.model, head_kinds(session.recipe)[name], session.recipe.seed)


@torch.no_grad()
def train_features(session: Session) -> tuple[Tensor, Tensor]:
    """The features of all training images without augmentation, and their classes."""
    session.model.eval()
    batches, network = session.inputs.train_as_test.in_order(session.transform), session.plain_network
    return torch.cat([network.features(batch.images).float() for batch in batches]), session.inputs.train.labels


def held_out_before(session: Session, name: str) -> HeldOutOutputs | None:
    """The model's outputs for the validation images before a stage; None if there are too few images."""
    counts = session.dataset.profile.counts.tolist()
    prior = implied_prior(session.recipe, counts, name)
    return predict_held_out(session.plain_network, session.inputs.val, session.transform, prior)
