"""Features once: a stage that trains only the head takes features, computed once and kept."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file

from helpers.runs import Interrupted, StopAfter, Watcher, run, same_weights
from tailcloud.data import open_dataset
from tailcloud.data.augment import Augment
from tailcloud.data.augment.normalize import Normalise
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.training import signals
from tailcloud.training.features import run_features
from tailcloud.training.features.run_features import forget_features
from tailcloud.training.features.views import View, numbered_views
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.session import Session
from tailcloud.training.stages.start import start_stage

CPU = torch.device("cpu")
SMALL = {
    "model": {"backbone": "resnet8", "width": 0.5},
    "augment": {"flip": True, "crop_padding": 1},
    "selection": {"split": 0.1},
    "engine": {"checkpoint_seconds": 0.0},
}
FROZEN = {"stage1": {"epochs": 3, "train": "head", "views": 4, "lr": 0.5, "warmup": 0}}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAILCLOUD_CACHE", str(tmp_path / "cache"))
    forget_features()


def frozen(*settings, name="digits-lt/ce"):
    return load_recipe(name, [SMALL, FROZEN, *settings])


def session_of(recipe, dataset=None):
    session = Session(recipe, dataset or open_dataset("digits-lt"), CPU)
    session.heard = []
    session.note = session.heard.append
    return session


def files(tmp_path):
    return sorted((tmp_path / "cache" / "features").glob("*/*.safetensors"))


def test_views_are_plain_mirrored_and_then_augmented_the_same_way_for_all_images():
    augment = Augment(flip=True, crop_padding=2)
    views = numbered_views(augment, 5)
    assert [view.key for view in views[:2]] == ["plain", "mirrored"]
    assert len({view.key for view in views}) == 5
    pixels = torch.randint(1, 256, (3, 6, 6, 1), dtype=torch.uint8)
    levels = Normalise([0.0], [1 / 255])
    plain, mirrored, *others = (view(pixels, levels) for view in views)
    assert torch.equal(plain, pixels.float().permute(0, 3, 1, 2))
    assert torch.equal(mirrored, plain.flip(3))
    assert any(not torch.equal(other, plain) for other in others)
    for view, other in zip(views[2:], others, strict=True):
        assert torch.equal(other, torch.cat([view(image[None], levels) for image in pixels]))
        black = (other == 0).all(dim=1)
        assert torch.equal(black[0], black[1])  # the same crop


def test_fewer_views_than_asked_for_if_there_are_no_more_different_ones():
    assert [view.key for view in numbered_views(Augment(flip=True), 8)] == ["plain", "mirrored"]
    assert numbered_views(Augment(), 8) == [View()]
    session = session_of(frozen({"augment": {"flip": False, "crop_padding": 0}}))
    assert start_stage(session, "stage1") == [
        "stage1: views = 4, but [augment] makes only 1 different; these are used."
    ]


def naive_features(session, views):
    """One image at a time through the plain model, rounded to half precision."""
    model, images = session.model.eval(), torch.from_numpy(session.dataset.train.images)
    with torch.no_grad():
        return torch.stack(
            [torch.cat([model.features(view(image[None], session.transform)) for image in images]) for view in views]
        )


def test_the_head_learns_what_a_plain_loop_learns_from_features_of_each_view():
    recipe = frozen({"stage1": {"momentum": 0.9, "weight_decay": 1e-3, "batch": 50}})
    session = session_of(recipe)
    start_stage(session, "stage1")
    features = naive_features(session, numbered_views(recipe.augment, 4))
    assert torch.allclose(session.inputs.train.features.float(), features, rtol=2e-3, atol=1e-4)

    weight, bias = (value.detach().double().clone() for value in session.model.head.parameters())
    parts = prepare_stage(session, "stage1", Watcher())
    momenta = [torch.zeros_like(weight), torch.zeros_like(bias)]
    exact, labels = session.inputs.train.features.double(), session.inputs.train.labels
    for epoch in range(2):
        train_epoch(session, parts, epoch, [0.5] * parts.loader.steps)
        plan = parts.loader.plan(epoch)
        for start in range(0, len(labels), 50):
            rows = [(int(v), int(i)) for v, i in zip(plan.draws["views"], plan.order, strict=True)][start : start + 50]
            x, y = torch.stack([exact[row] for row in rows]), labels[[image for _, image in rows]]
            with torch.enable_grad():
                leaves = [weight.requires_grad_(), bias.requires_grad_()]
                gradients = torch.autograd.grad(F.cross_entropy(x @ weight.T + bias, y), leaves)
            with torch.no_grad():
                for number, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
                    momenta[number] = 0.9 * momenta[number] + gradient + 1e-3 * leaf
                    leaf.sub_(0.5 * momenta[number])
    found = session.model.head
    assert torch.allclose(found.weight.double(), weight, atol=1e-4)
    assert torch.allclose(found.bias.double(), bias, atol=1e-4)
    assert len(torch.unique(plan.draws["views"])) == 4


def test_no_image_goes_through_the_backbone_twice(tmp_path):
    recipe = frozen({"logging": {"gradients": True}, "stage2": {"epochs": 2, "views": 4}}, name="digits-lt/crt")
    place, seen = tmp_path / "run", []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda module, inputs: seen.append(len(inputs[0])) if type(module).__name__ == "CifarResNet" else None
    )
    try:
        run(place, recipe, watcher := Watcher())
    finally:
        hook.remove()
    assert "Features of 298\xa0training images × 4\xa0views: 1,192 computed, 0 from the cache" in watcher.notes[0]
    assert len([note for note in watcher.notes if note.startswith("Features")]) == 3
    whole_batches = 256 * sum(-(-count // 256) for count in (298, 298, 298, 298, 33, 500))
    assert sum(count for count in seen if count > 2) == whole_batches


@pytest.mark.parametrize("cached", ["auto", "none"])
def test_computed_read_and_remembered_features_are_the_same_bits(tmp_path, cached):
    recipe = frozen({"data": {"feature_cache": cached}})
    first = session_of(recipe)
    first.enter_stage("stage1")
    computed = first.features.train.features
    assert bool(files(tmp_path)) == (cached == "auto")
    again = session_of(recipe, first.dataset)
    again.enter_stage("stage1")
    assert torch.equal(again.features.train.features, computed)
    assert again.heard == []  # they were in memory
    forget_features()
    later = session_of(recipe)
    later.enter_stage("stage1")
    assert torch.equal(later.features.train.features, computed)
    assert (": 0 computed, 1,324 from the cache" in later.heard[0]) == (cached == "auto")


def test_an_added_image_costs_its_own_embedding_and_other_views_their_own(tmp_path):
    dataset = open_dataset("digits-lt")
    fewer = open_dataset("digits-lt")
    object.__setattr__(fewer, "train", fewer.train.take(np.arange(len(fewer.train) - 1)))
    for data in (fewer, dataset):
        session = session_of(frozen(), data)
        session.enter_stage("stage1")
        features = session.features.train.features
    assert ": 4 computed, 1,320 from the cache" in session.heard[0]
    forget_features()
    plain = session_of(frozen({"data": {"feature_cache": "none"}}), dataset)
    plain.enter_stage("stage1")
    assert torch.equal(plain.features.train.features, features)
    forget_features()
    other = session_of(frozen({"augment": {"crop_padding": 2}}), dataset)
    other.enter_stage("stage1")
    other.features.load()
    assert ": 662 computed, 662 from the cache" in other.heard[0]  # the plain and the mirrored view are known


def test_other_weights_have_other_features(tmp_path):
    for seed in (0, 1):
        session = session_of(frozen({"seed": seed}))
        session.enter_stage("stage1")
        session.features.load()
    assert ": 1,324 computed, 0 from the cache" in session.heard[0]


@pytest.mark.parametrize("damage", [b"", b"damaged", None])
def test_a_damaged_file_is_noted_and_computed_again(tmp_path, damage):
    first = session_of(frozen())
    first.enter_stage("stage1")
    computed = first.features.train.features
    file = files(tmp_path)[0]
    content = bytearray(file.read_bytes())
    content[-1] ^= 1  # one bit of a feature
    file.write_bytes(content if damage is None else damage)
    forget_features()
    again = session_of(frozen())
    again.enter_stage("stage1")
    assert torch.equal(again.features.train.features, computed)
    assert again.heard[0].startswith(f"{file} in the cache of features is damaged")
    assert ": 331 computed, 993 from the cache" in again.heard[1]


def test_a_folder_that_cannot_be_written_is_noted_once_and_training_goes_on(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    session = session_of(frozen())
    session.enter_stage("stage1")
    session.features.load()
    assert len([note for note in session.heard if "cannot be used (" in note]) == 1
    assert "computed" in session.heard[-1]


def test_a_full_disk_is_noted_once_and_leaves_nothing(tmp_path, monkeypatch):
    from tailcloud.training.features import feature_cache

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(feature_cache, "write_atomically", full)
    session = session_of(frozen())
    session.enter_stage("stage1")
    session.features.load()
    assert len([note for note in session.heard if "(No space left on device)" in note]) == 1
    assert files(tmp_path) == []


def test_a_backbone_that_was_trained_here_is_not_kept_on_disk(tmp_path):
    recipe = load_recipe("digits-lt/crt", [SMALL, {"stage1": {"epochs": 1}, "stage2": {"epochs": 1, "views": 2}}])
    run(tmp_path / "run", recipe, watcher := Watcher())
    assert any("× 2\xa0views: 596 computed (" in note for note in watcher.notes)
    assert files(tmp_path) == []


@pytest.mark.parametrize("after", [1, 3, 4])
@pytest.mark.parametrize("train", ["all", "head"])
def test_a_killed_run_ends_with_the_same_bits(tmp_path, after, train):
    stage1 = {"epochs": 2, "train": train, "views": 3 if train == "head" else 0}
    recipe = load_recipe("digits-lt/gcl", [SMALL, {"stage1": stage1, "stage2": {"epochs": 3, "views": 4}}])
    run(tmp_path / "whole", recipe)
    forget_features()
    with pytest.raises(Interrupted):
        run(tmp_path / "killed", recipe, StopAfter(after))
    forget_features()
    run(tmp_path / "killed", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize(
    "method", ["crt", "lws", "tau-norm", "ncm", "disalign", "mislas", "gcl", "logit-adjust-posthoc"]
)
def test_every_second_stage_works_on_features_and_leaves_the_backbone_alone(tmp_path, method):
    few = {} if load_recipe(f"digits-lt/{method}").stage2.epochs == 0 else {"epochs": 1}
    settings = [SMALL, {"stage1": {"epochs": 2}, "stage2": {"views": 1, **few}, "augment": {"flip": False}}]
    for views in (0, 1):
        recipe = load_recipe(f"digits-lt/{method}", [*settings, {"stage2": {"views": views, "batch_norm": "frozen"}}])
        run(tmp_path / str(views), recipe)
    images, features = (load_file(tmp_path / str(views) / "model.safetensors") for views in (0, 1))
    backbone = [name for name in images if name.startswith("backbone")]
    assert all(torch.equal(images[name], features[name]) for name in backbone)
    if not few:  # the same head, up to the rounding of features
        assert all(torch.allclose(images[name], features[name], rtol=1e-2, atol=1e-3) for name in images)


def test_gcl_with_mixup_learns_on_features_of_a_cosine_head(tmp_path):
    settings = {"stage1": {"epochs": 15, "mixup": 0.2, "lr": 0.1}, "augment": {"flip": False, "crop_padding": 0}}
    result = run(tmp_path / "run", load_recipe("digits-lt/gcl", [SMALL, FROZEN, settings, {"stage2": {"epochs": 0}}]))
    assert result.top1.last > 40


def test_micro_batches_have_the_gradient_of_the_whole_batch(tmp_path):
    for parts in (1, 3):
        run(tmp_path / str(parts), frozen({"engine": {"accumulate": parts}, "stage1": {"mixup": 0.5}}))
    one, three = (load_file(tmp_path / str(parts) / "model.safetensors") for parts in (1, 3))
    assert all(torch.allclose(one[name], three[name], atol=1e-4) for name in one)


def test_a_stage_that_needs_images_is_refused_in_one_sentence():
    with pytest.raises(UsageError, match=r'stage1\.views = 2 takes features of a frozen backbone, and train = "all"'):
        load_recipe("digits-lt/ce", [{"stage1": {"views": 2}}])
    with pytest.raises(UsageError, match=r'objective = "contrastive" needs images; set views = 0'):
        load_recipe(
            "digits-lt/ce",
            [
                {"model": {"head": "contrastive"}},
                {"stage1": {"views": 2, "train": "head", "objective": "contrastive", "second_sampler": "cb"}},
            ],
        )


def test_what_was_computed_before_a_stop_is_kept(tmp_path, monkeypatch):
    asked = []

    def stop_later():
        asked.append(1)
        if len(asked) > 4:
            raise signals.Terminated("stopped by SIGTERM")

    monkeypatch.setattr(signals, "raise_if_stopped", stop_later)
    session = session_of(frozen())
    session.enter_stage("stage1")
    with pytest.raises(signals.Terminated):
        session.features.load()
    monkeypatch.undo()
    monkeypatch.setenv("TAILCLOUD_CACHE", str(tmp_path / "cache"))
    again = session_of(frozen())
    again.enter_stage("stage1")
    again.features.load()
    assert ": 556 computed, 768 from the cache" in again.heard[0]


def test_there_is_a_sign_of_life_while_features_are_computed(monkeypatch, caplog):
    monkeypatch.setattr(run_features, "SECONDS_BETWEEN_NOTES", 0.0)
    session = session_of(frozen())
    session.enter_stage("stage1")
    with caplog.at_level("INFO"):
        session.features.load()
    assert "256 of 1,324 features of training images computed" in caplog.text


def test_steps_use_one_thread_and_images_afterwards_as_many_as_before(monkeypatch):
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    recipe = load_recipe("digits-lt/crt", [SMALL, {"stage1": {"train": "head", "views": 1}}])
    session = session_of(recipe)
    session.cores = 7
    monkeypatch.setattr(Session, "step_flops", 1e12)
    session.enter_stage("stage1")
    session.enter_stage("stage2")
    assert used == [1, 7]
