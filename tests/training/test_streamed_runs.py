"""Whole runs on images that stay in their files: they end where those on images in memory end."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from helpers.runs import Interrupted, StopAfter, Watcher, same_weights, small_recipe
from helpers.streamed_parts import files
from tailcloud.data import Dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.head_transforms import tuned_logit_adjust
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.training.distributed.world import World
from tailcloud.training.loop import train
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts

CPU = torch.device("cpu")


def datasets(root, count=48):
    """The same data twice: in files, and in memory."""
    parts = {"train": files(root / "train", count), "test": files(root / "test", 15, seed=1)}
    return [
        Dataset("photos", parts["train"][at], parts["test"][at], ["a", "b", "c"], [0.5] * 3, [0.3] * 3, fit="crop")
        for at in (0, 1)
    ]


def trained(folder, recipe, dataset):
    place = RunFolder(folder)
    place.create(recipe, "tailcloud train")
    return train(recipe, dataset, place, CPU, Watcher())


@pytest.mark.parametrize("method", ["gcl", "bbn"])
def test_a_streamed_run_ends_with_the_bits_of_a_resident_one(tmp_path, method):
    settings = {"model": {"width": 0.25}, "stage1": {"epochs": 2}, "logging": {"gradients": True}}
    recipe = load_recipe(f"digits-lt/{method}", [settings])
    streamed, resident = (
        (trained(tmp_path / str(number), recipe, dataset), load_file(tmp_path / str(number) / "model.safetensors"))
        for number, dataset in enumerate(datasets(tmp_path))
    )
    assert streamed[0].top1 == resident[0].top1
    assert streamed[0].calibrated == resident[0].calibrated
    assert all(torch.equal(streamed[1][key], value) for key, value in resident[1].items())
    logs = [RunFolder(tmp_path / str(number)).log() for number in (0, 1)]
    assert [line["gradients"] for line in logs[0]] == [line["gradients"] for line in logs[1]]


def test_a_streamed_head_is_levelled_to_the_bits_of_a_resident_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tuned_logit_adjust, "SIGNIFICANT_GAIN", -1.0)  # any bias counts as significant
    recipe = small_recipe({"stage3": {"head_transform": "tuned-logit-adjust"}})
    held = files(tmp_path / "val", 30, seed=2)
    heads = []
    for at, dataset in enumerate(datasets(tmp_path)):
        tail = np.flatnonzero(dataset.train.labels == 2)[3:]
        rows = np.setdiff1d(np.arange(len(dataset.train)), tail)
        result = trained(tmp_path / str(at), recipe, replace(dataset, train=dataset.train.take(rows), val=held[at]))
        assert "30 held-out images" in result.remarks[-1]
        heads.append(load_file(tmp_path / str(at) / "model.safetensors")["head.shift"])
    assert heads[0].any()
    assert torch.equal(*heads)


def test_a_run_goes_on_with_the_plane_it_was_started_on(tmp_path):
    (streamed, resident), recipe, place = datasets(tmp_path), small_recipe(), RunFolder(tmp_path / "run")
    place.create(recipe, "tailcloud train")
    with pytest.raises(Interrupted):
        train(recipe, resident, place, CPU, StopAfter(1))
    with pytest.raises(TailcloudError, match=r'was started with the loader "resident".*set data.loader = "resident"'):
        train(recipe, streamed, place, CPU, Watcher())
    assert train(recipe, resident, place, CPU, Watcher()).machine["loader"] == "resident"


def test_resized_crops_come_from_whole_pictures(tmp_path):
    recipe = small_recipe({"augment": {"crop_padding": 0, "crop_area": [0.2, 1.0], "color_jitter": [0.4, 0.4, 0.4]}})
    session = Session(recipe, datasets(tmp_path)[0], CPU)
    stored = session.images.train.reader.images
    assert (stored.side, stored.fit) == (7, "squash")  # 6 pixels a side, and a margin of 256 / 224
    batch = next(make_parts(session, "stage1").loader.epoch(0))
    assert batch.images.shape[2:] == (6, 6)
    assert next(session.images.train_as_test.in_order(session.transform)).images.shape[2:] == (6, 6)


def test_all_views_of_image_files_are_read_alike(tmp_path):
    streamed, resident = datasets(tmp_path)
    crops = {"crop_padding": 0, "crop_area": [0.2, 1.0]}
    width = {"model": {"width": 0.25}}
    one = load_recipe("digits-lt/bcl", [width, {"view_augment": crops}])
    with pytest.raises(UsageError, match=r"view_augment.crop_area needs uncropped images and \[augment\] does not"):
        Session(one, streamed, CPU)
    other = load_recipe("digits-lt/bcl", [width, {"augment": crops, "view_augment": {"crop_padding": 1}}])
    with pytest.raises(UsageError, match=r"set view_augment\.crop_area too"):
        Session(other, streamed, CPU)
    both = load_recipe("digits-lt/bcl", [width, {"augment": crops, "view_augment": crops}])
    for recipe, dataset in ((one, resident), (other, resident), (both, streamed)):
        batch = next(make_parts(Session(recipe, dataset, CPU), "stage1").loader.epoch(0))
        assert {images.shape[2:] for images in (batch.images, *batch.views)} == {(6, 6)}


def test_graphs_need_images_on_the_gpu(tmp_path):
    recipe = small_recipe({"engine": {"executor": "graphed"}})
    with pytest.raises(UsageError, match=r'needs all images on the GPU.*data.loader = "resident"'):
        Session(recipe, datasets(tmp_path)[0], CPU)


def test_fused_kernels_decline_streamed_images(tmp_path):
    session = Session(small_recipe(), datasets(tmp_path)[0], CPU)
    engine = session.engine
    engine.device = torch.device("cuda")
    engine.recipe = session.recipe.model_copy(update={"engine": replace_engine(session.recipe.engine)})
    assert "stay in their files" in engine.obstacle()


def replace_engine(engine):
    return engine.model_copy(update={"precision": "bfloat16"})


def test_a_cached_run_ends_with_the_same_bits_and_its_parts_are_all_cached(tmp_path):
    cached, plain = (
        load_recipe("digits-lt/gcl", [{"model": {"width": 0.25}, "stage1": {"epochs": 1}, "data": {"cache": cache}}])
        for cache in (str(tmp_path / "cache"), "none")
    )
    assert cached.substance() == plain.substance()
    data = datasets(tmp_path)
    trained(tmp_path / "first", cached, data[0])
    trained(tmp_path / "second", plain, data[0])
    assert same_weights(tmp_path / "first", tmp_path / "second")
    assert len([place for place in (tmp_path / "cache").iterdir() if place.is_dir()]) == 2
    assert "data.cache is not used" in Session(cached, data[1], CPU).remarks[0]


def test_a_result_names_what_another_process_could_not_read(tmp_path):
    streamed, _ = datasets(tmp_path)
    recipe, place = small_recipe(), RunFolder(tmp_path / "run")
    place.create(recipe, "tailcloud train")
    said = "\n".join(train(recipe, streamed, place, CPU, Watcher(), told_of([{7: "is cut short"}, {}])).remarks)
    assert "Training: 1 of 48 images could not be read" in said
    assert f"{streamed.train.images.path(7)} (is cut short)" in said


def told_of(met):
    """A world with another process, which met these faults in the parts of the data."""

    class Told(World):
        def gather(self, value):
            return [value, met] if isinstance(value, list) else [value]

    return Told()


def test_what_another_process_could_not_read_is_said_once_and_counts(tmp_path, caplog):
    streamed, _ = datasets(tmp_path)
    recipe, place, images = small_recipe(), RunFolder(tmp_path / "run"), streamed.train.images
    place.create(recipe, "tailcloud train")
    most = len(images) // 20
    train(recipe, streamed, place, CPU, Watcher(), told_of([dict.fromkeys(range(most), "is cut short"), {}]))
    assert caplog.text.count(f"{images.path(0)} cannot be read (is cut short)") == 1
    place = RunFolder(tmp_path / "worse")
    place.create(recipe, "tailcloud train")
    worse = told_of([dict.fromkeys(range(most + 1), "is cut short"), {}])
    with pytest.raises(TailcloudError, match=rf"^{most + 1} of {len(images)} images .* cannot be read"):
        train(recipe, streamed, place, CPU, Watcher(), worse)
    assert place.log() == []  # it did not wait for the end of the run


def test_features_of_files_are_those_of_the_same_images_in_memory(tmp_path):
    settings = {"model": {"width": 0.25}, "stage1": {"epochs": 2}, "stage2": {"epochs": 2, "views": 4}}
    crops = {"augment": {"crop_area": [0.4, 1.0], "crop_padding": 0, "flip": True}}
    recipe = load_recipe("digits-lt/crt", [settings, {"stage1": {"train": "head", "views": 3}}, crops])
    for number, dataset in enumerate(datasets(tmp_path)):
        trained(tmp_path / str(number), recipe, dataset)
    assert same_weights(tmp_path / "0", tmp_path / "1")
