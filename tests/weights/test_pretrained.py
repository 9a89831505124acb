import errno
import hashlib
import io
import os
import pickle
from contextlib import suppress
from unittest import mock
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from helpers.runs import Watcher, small_recipe
from tailcloud.backbones import create_backbone
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder
from tailcloud.training.loop import train
from tailcloud.weights.load import load_pretrained, read_tensors
from tailcloud.weights.resolve import find_file, from_file, resolve_weights


@pytest.fixture
def published():
    """A backbone as somebody else trained it, with a classifier."""
    torch.manual_seed(1)
    weights = create_backbone("resnet18", width=0.05).state_dict()
    return {**weights, "fc.weight": torch.zeros(5, 26), "fc.bias": torch.zeros(5)}


def fresh(**options):
    return create_backbone("resnet18", width=0.05, **options)


@pytest.mark.parametrize(
    "wrapped",
    [lambda w: w, lambda w: {"state_dict": w, "epoch": 3}, lambda w: {"module." + k: v for k, v in w.items()}],
)
def test_pytorch_files_load_however_they_were_saved(published, wrapped, tmp_path):
    torch.save(wrapped(published), tmp_path / "w.pth")
    backbone = fresh()
    load_pretrained(backbone, from_file(str(tmp_path / "w.pth")), 3)
    for name, value in backbone.state_dict().items():
        assert value.equal(published[name]), name


def test_safetensors_load_and_say_what_they_are(published, tmp_path):
    file = tmp_path / "w.safetensors"
    save_file(published, file)
    backbone = fresh()
    start = load_pretrained(backbone, from_file(str(file)), 3)
    assert backbone.conv1.weight.equal(published["conv1.weight"])
    assert start.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert start.mean == [0.485, 0.456, 0.406]


def test_grey_images_are_seen_as_equal_colours(published, tmp_path):
    save_file(published, tmp_path / "w.safetensors")
    grey, colour = fresh(channels=1).eval(), fresh().eval()
    start = load_pretrained(grey, from_file(str(tmp_path / "w.safetensors")), 1)
    load_pretrained(colour, from_file(str(tmp_path / "w.safetensors")), 3)
    image = torch.randn(2, 1, 32, 32)
    torch.testing.assert_close(grey(image), colour(image.expand(-1, 3, -1, -1)))
    assert start.mean == [pytest.approx(0.449)]


def test_weights_of_another_backbone_are_refused(published, tmp_path):
    save_file(published, tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match="of shape"):
        load_pretrained(create_backbone("resnet18", width=0.1), from_file(str(tmp_path / "w.safetensors")), 3)
    with pytest.raises(UsageError, match=r"has no layer1\.2"):
        load_pretrained(create_backbone("resnet34", width=0.05), from_file(str(tmp_path / "w.safetensors")), 3)


class Evil:
    def __reduce__(self):
        return os.system, ("touch hacked",)


@pytest.mark.parametrize("content", [pickle.dumps(Evil()), b"", b"not a file of weights", pickle.dumps([1, 2])])
def test_a_file_that_is_no_weights_fails_and_runs_nothing(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").write_bytes(content)
    (tmp_path / "w.safetensors").write_bytes(content)
    for name in ("w.pth", "w.safetensors"):
        with pytest.raises(TailcloudError):
            read_tensors(tmp_path / name)
    assert not (tmp_path / "hacked").exists()


def test_a_zipped_pickle_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"conv1.weight": Evil()}, tmp_path / "w.pth")
    with pytest.raises(TailcloudError, match="contains more than tensors"):
        read_tensors(tmp_path / "w.pth")
    assert not (tmp_path / "hacked").exists()


def test_a_run_starts_from_weights_and_records_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(2)
    weights = create_backbone("resnet8", channels=1, width=0.25).state_dict()
    save_file(weights, tmp_path / "w.safetensors")
    settings = {"model": {"weights": "w.safetensors"}, "stage1": {"epochs": 0}, "stage2": {"epochs": 0}}
    recipe, folder = small_recipe(settings), RunFolder(tmp_path / "run")
    folder.create(recipe, "tailcloud train")
    result = train(recipe, open_dataset("digits-lt"), folder, torch.device("cpu"), Watcher())
    model = read_tensors(folder.weights_file)
    assert all(model[f"backbone.{name}"].equal(value) for name, value in weights.items())
    assert result.machine["weights"] == hashlib.sha256((tmp_path / "w.safetensors").read_bytes()).hexdigest()
    assert result.recipe["model"]["weights"] == "w.safetensors"


def test_a_file_with_another_digest_is_refused(published, tmp_path):
    file = tmp_path / "w.safetensors"
    save_file(published, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    for right in (digest, digest[:8], digest.upper()):
        assert resolve_weights("resnet18", str(file), sha256=right).sha256 == digest
    with pytest.raises(TailcloudError, match=rf"has the SHA-256 {digest}, but model.weights_sha256 is 00000000;"):
        resolve_weights("resnet18", str(file), sha256="00000000")


def test_a_digest_is_checked_before_a_run_is_made(published, tmp_path):
    save_file(published, tmp_path / "w.safetensors")
    arguments = ["train", "digits-lt/ce", "--dry-run", "--set", f"model.weights={tmp_path / 'w.safetensors'}"]
    outcome = CliRunner().invoke(app, [*arguments, "--set", "model.weights_sha256='0123456789abcdef'"])
    assert "but model.weights_sha256 is" in str(outcome.exception)


def test_a_digest_has_digits():
    with pytest.raises(UsageError, match="weights_sha256"):
        small_recipe({"model": {"weights_sha256": "no digest"}})


def test_a_relative_name_is_looked_for_here_and_then_beside_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root" / "weights").mkdir(parents=True)
    assert find_file("weights/w.pth", "root") == "weights/w.pth"
    (tmp_path / "root" / "weights" / "w.pth").write_bytes(b"")
    assert find_file("weights/w.pth", "root") == "root/weights/w.pth"
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.pth").write_bytes(b"")
    assert find_file("weights/w.pth", "root") == "weights/w.pth"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_damaged_file_of_old_pytorch_is_refused_whatever_pytorch_raises(tmp_path):
    whole, random = io.BytesIO(), np.random.default_rng(0)
    torch.save({"conv.weight": torch.ones(2, 3), "step": 3}, whole, _use_new_zipfile_serialization=False)
    for _ in range(300):
        damaged = bytearray(whole.getvalue())
        for place in random.integers(0, len(damaged), 3):
            damaged[place] = random.integers(0, 256)
        (tmp_path / "w.pth").write_bytes(damaged)
        with suppress(TailcloudError):
            read_tensors(tmp_path / "w.pth")


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path):
    torch.save({"weight": torch.zeros(1 << 20)}, tmp_path / "plain.pth")
    assert read_tensors(tmp_path / "plain.pth").keys() == {"weight"}
    with ZipFile(tmp_path / "plain.pth") as plain, ZipFile(tmp_path / "bomb.pth", "w", ZIP_DEFLATED) as bomb:
        for entry in plain.infolist():
            bomb.writestr(entry.filename, plain.read(entry))
    with pytest.raises(TailcloudError, match="is damaged or contains more than tensors"):
        read_tensors(tmp_path / "bomb.pth")


def test_an_archive_at_which_pytorch_blames_the_system_is_damaged(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "w.pth")
    invalid = OSError(errno.EINVAL, os.strerror(errno.EINVAL))  # PyTorch seeks to where no file can be
    with (
        mock.patch("torch.load", side_effect=invalid),
        pytest.raises(TailcloudError, match="is damaged or contains more than tensors"),
    ):
        read_tensors(tmp_path / "w.pth")
