from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.photos import photos
from tailcloud.auto_recipe import choice, head_trial
from tailcloud.auto_recipe.head_trial import FOLDS, FoldFeatures, folds_of, try_heads
from tailcloud.auto_recipe.pretrained_draft import HEAD_METHODS
from tailcloud.auto_recipe.timing import HEAD_SECONDS, StepTiming
from tailcloud.data.loaders.features import FeatureImages
from tailcloud.errors import UsageError
from tailcloud.launch.train import train
from tailcloud.recipe import load_recipe
from tailcloud.training.features.embedder import Embedder
from tailcloud.training.session import Session

CPU = torch.device("cpu")


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_folds_have_a_third_of_each_class(counts):
    labels = np.random.RandomState(1).permutation(np.repeat(np.arange(len(counts)), counts))
    folds = folds_of(labels, len(counts))
    assert set(folds.tolist()) <= set(range(FOLDS))
    for label, count in enumerate(counts):
        sizes = [int(((folds == fold) & (labels == label)).sum()) for fold in range(FOLDS)]
        assert sum(sizes) == count
        assert max(sizes) - min(sizes) <= 1
    assert (folds == folds_of(labels, len(counts))).all()


def test_a_fold_has_the_features_of_its_own_images_alone():
    features = torch.arange(24, dtype=torch.float16).reshape(2, 6, 2)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    aside = np.array([True, False, False, True, False, False])
    fold = FoldFeatures(FeatureImages(features, labels), aside)
    assert torch.equal(fold.train.features, features[:, [1, 2, 4, 5]])
    assert fold.train.labels.tolist() == [1, 2, 1, 2]
    assert torch.equal(fold.test.features, features[:1, [0, 3]])  # of the view for evaluation
    assert fold.test.labels.tolist() == [0, 0]


def recipe(method, **tables):
    """A head on the features of a small network that nothing trains."""
    stage1 = {"train": "head", "views": 1, "epochs": 12, "lr": 0.05, "warmup": 0, "batch": 16, "mixup": 0.0}
    asked = {
        "data": {"spec": "./photos", "feature_cache": "none"},
        "method": method,
        "model": {"backbone": "resnet8", "width": 0.25},
        "stage1": stage1,
    }
    return load_recipe(None, [asked, tables])


class KnownFeatures:
    """Features that a test makes up, in place of a run's."""

    def __init__(self, train):
        self.train = train


@pytest.fixture
def session():
    """A session with features that are made up: those of a class lie around a point of its own."""
    counts = [40, 12, 6, 1]
    dataset, random = photos(counts, side=8), np.random.RandomState(0)
    session = Session(recipe("ce"), dataset, CPU)
    length = session.model.backbone.features
    features = random.randn(4, length)[dataset.train.labels] + 2 * random.randn(sum(counts), length)
    made_up = torch.from_numpy(features).to(torch.float16)[None]
    session.features = KnownFeatures(FeatureImages(made_up, torch.from_numpy(dataset.train.labels)))
    return session


MEANS = {"stage1": {"epochs": 0}, "stage2": {"epochs": 0, "views": 1}}


def balanced_accuracy(answers, labels):
    return 100 * np.mean([(answers[labels == label] == label).mean() for label in np.unique(labels)])


def nearest_means(train, there, test):
    """The class whose mean of centred features of length 1 is nearest."""
    centre = train.mean(axis=0)
    train, test = ((each - centre) / np.linalg.norm(each - centre, axis=1, keepdims=True) for each in (train, test))
    means = {label: train[there == label].mean(axis=0) for label in np.unique(there)}
    return [min(means, key=lambda label: ((each - means[label]) ** 2).sum()) for each in test]


def test_the_accuracy_of_class_means_is_that_of_a_few_plain_lines(session):
    trial = try_heads({"ncm": recipe("ncm", **MEANS)}, session, None)
    images = session.features.train
    features, labels = images.features[0].double().numpy(), images.labels.numpy()
    folds, answers = folds_of(labels, 4), np.zeros(len(labels), np.int64)
    for fold in range(FOLDS):
        aside = folds == fold
        answers[aside] = nearest_means(features[~aside], labels[~aside], features[aside])
    assert trial.accuracy["ncm"] == pytest.approx(balanced_accuracy(answers, labels), abs=0.01)
    assert 25 < trial.accuracy["ncm"] < 75  # neither by chance nor all of them: class 3 has one image
    assert (trial.folds, trial.images) == (FOLDS, 59)


@pytest.mark.parametrize("method", ["ce", "logit-adjust", "balanced-softmax", "gcl", "ldam"])
def test_a_head_learns_from_a_fold_that_lacks_a_class(session, method):
    tables = {"stage2": {"views": 1, "epochs": 2, "warmup": 0}} if method == "gcl" else {}
    trial = try_heads({method: recipe(method, **tables)}, session, None)
    assert 40 < trial.accuracy[method] <= 100  # 25 by chance


def test_the_better_head_wins_and_the_first_of_equal_ones(session):
    untrained = {"stage1": {"epochs": 0}}
    recipes = {"idle": recipe("ce", **untrained), "means": recipe("ncm", **MEANS), "again": recipe("ncm", **MEANS)}
    trial = try_heads(recipes, session, None)
    assert trial.accuracy["means"] == trial.accuracy["again"] > trial.accuracy["idle"]
    assert trial.best == "means"
    assert trial.reason().startswith("Head: means, the best of 3. Balanced accuracy on 59 training images")


@pytest.mark.parametrize(
    ("objective", "figure"), [("overall", "Top-1 accuracy"), ("few", "Accuracy of few-shot classes")]
)
def test_heads_are_compared_by_the_objective(session, objective, figure):
    balanced = try_heads({"ncm": recipe("ncm", **MEANS)}, session, None).accuracy["ncm"]
    selection = session.recipe.selection.model_copy(update={"objective": objective})
    session.recipe = session.recipe.model_copy(update={"selection": selection})
    trial = try_heads({"ncm": recipe("ncm", **MEANS)}, session, None)
    assert trial.accuracy["ncm"] != balanced
    assert f"{figure} on 59 training images" in trial.reason()


def test_the_objective_few_is_refused_without_few_shot_classes(session):
    selection = session.recipe.selection.model_copy(update={"objective": "few"})
    session.recipe = session.recipe.model_copy(update={"selection": selection})
    session.dataset = photos([40, 30, 20, 20], side=8)
    with pytest.raises(UsageError, match="the smallest has 20; use --objective balanced"):
        try_heads({"ncm": recipe("ncm", **MEANS)}, session, None)


def test_a_trial_changes_nothing_for_the_next_one_or_for_the_session(session):
    before = {name: value.clone() for name, value in session.model.backbone.state_dict().items()}
    features, dataset = session.features, session.dataset
    recipes = {"ce": recipe("ce"), "balanced-softmax": recipe("balanced-softmax")}
    one = try_heads(recipes, session, None)
    other = try_heads(dict(reversed(recipes.items())), session, None)
    assert one.accuracy == other.accuracy
    assert all(torch.equal(value, before[name]) for name, value in session.model.backbone.state_dict().items())
    assert session.features is features
    assert session.dataset is dataset


@pytest.mark.parametrize(("seconds", "folds"), [(None, 3), (0.0, 1), (1.9, 1), (2.0, 2), (2.9, 2), (3.0, 3)])
def test_no_fold_is_begun_that_would_not_end_in_time(session, monkeypatch, seconds, folds):
    clock = iter(range(100))
    ticking = SimpleNamespace(perf_counter=lambda: float(next(clock)))  # each fold takes one second
    monkeypatch.setattr(head_trial, "time", ticking)
    trial = try_heads({"ncm": recipe("ncm", **MEANS)}, session, seconds)
    assert trial.folds == folds
    assert trial.images == int((folds_of(session.dataset.train.labels, 4) < folds).sum())


def test_the_best_head_is_chosen_and_the_run_computes_no_feature_again(monkeypatch, tmp_path):
    """With real weights: the run after the choice finds the features of every split."""
    embedded, tried = [], []
    embed, real_trial = Embedder.__call__, choice.try_heads

    def counted(self, pixels, view):
        embedded.append(len(pixels))
        return embed(self, pixels, view)

    def recorded(*arguments):
        tried.append(real_trial(*arguments))
        return tried[-1]

    monkeypatch.setattr(Embedder, "__call__", counted)
    monkeypatch.setattr(choice, "try_heads", recorded)
    monkeypatch.setattr("tailcloud.auto_recipe.time_budget.time_features", slow_features)
    monkeypatch.setattr("tailcloud.auto_recipe.pretrained_draft.MAX_HEAD_EPOCHS", 3)
    images = tmp_path / "photos.npz"
    random = np.random.RandomState(0)
    labels = np.repeat(np.arange(3), [30, 20, 10])
    pixels = (60 * labels[:, None, None, None] + random.randint(0, 60, (60, 24, 24, 3))).astype(np.uint8)
    np.savez(images, images=pixels, labels=labels)
    for cache in ("auto", "none"):
        embedded.clear()
        run = train(
            data=images,
            out=tmp_path / f"run-{cache}",
            device="cpu",
            time_budget=100,
            settings={"data.feature_cache": cache if cache == "none" else str(tmp_path / "cache")},
        )
        assert sum(embedded) == 60
        assert run.recipe.stage1.views == 1
        assert run.recipe.method == tried[-1].best
        assert tried[-1].accuracy.keys() == HEAD_METHODS.keys()


def slow_features(recipe, dataset, side, device):
    return StepTiming(dict.fromkeys(recipe.stages, HEAD_SECONDS), 1.0, 0.0)
