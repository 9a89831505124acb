import errno
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import save
from typer.testing import CliRunner

from helpers.runs import Watcher, small_recipe
from tailcloud.backbones import create_backbone
from tailcloud.cli import app
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder
from tailcloud.training.loop import train
from tailcloud.weights import available
from tailcloud.weights.catalogue import CATALOGUE, HubFile
from tailcloud.weights.resolve import resolve_entry, resolve_weights

COMMIT, REPO = "1234567890" * 4, "somebody/small.v1"
FOLDER = "models--somebody--small.v1"


@pytest.fixture
def published(hub):
    """Weights that a small run can start from, as the hub has them."""
    torch.manual_seed(4)
    weights = create_backbone("resnet8", channels=1, width=0.25).state_dict()
    hub.content = save(weights)
    return weights


def files_in(cache):
    """Everything in the cache that is a file, without locks and the tag of the folder."""
    return [path for path in cache.rglob("*") if path.is_file() and path.suffix not in {".lock", ".TAG"}]


def nothing_is_left(hub):
    return not [path for path in files_in(hub.cache) if path.parent.name != "refs"] and not available("resnet8")


def test_a_file_is_downloaded_once_and_then_found_without_a_request(hub, published):
    assert not available("resnet8")
    with pytest.raises(TailcloudError, match=r'resnet8 are not here \(0\.1 MB, MIT, from hub .*"tailcloud weights get'):
        resolve_weights("resnet8", "pretrained")
    first = resolve_weights("resnet8", "pretrained", download=True)
    assert Path(first.file).read_bytes() == hub.content
    assert (first.sha256, first.revision, first.licence) == (hub.sha256, COMMIT, "MIT")
    assert (first.name, first.trained_on, first.source) == ("resnet8.v1", "made-up images", f"hub {REPO}")
    asked = len(hub.requests)
    assert available("resnet8")
    assert resolve_weights("resnet8", "v1", download=True) == first
    assert len(hub.requests) == asked


def test_size_and_licence_are_said_before(hub, published, caplog):
    caplog.set_level("INFO", "tailcloud")
    resolve_entry(hub.entry, download=True)
    size = f"{len(hub.content) / 1e6:.1f} MB"
    assert caplog.messages == [f"downloading the weights resnet8: {size}, MIT, from {hub.url}/{REPO}"]


def test_a_run_downloads_first_and_records_what_it_started_from(hub, published, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "model.width=0.25", "--set", "stage1.epochs=0", "--weights", "pretrained"]
    outcome = CliRunner().invoke(app, ["train", "digits-lt/ce", *settings, "--out", "run"])
    assert outcome.exit_code == 0, outcome.output
    folder = RunFolder(tmp_path / "run")
    about = {
        "name": "resnet8.v1",
        "source": f"hub {REPO}",
        "sha256": hub.sha256,
        "licence": "MIT",
        "trained_on": "made-up images",
        "revision": COMMIT,
        "pixels": 8,
    }
    assert folder.result().model.weights.model_dump() == about
    mean = sum(hub.entry.mean) / 3
    assert f'"mean": [{mean}]' in folder.model_file.read_text()
    card = CliRunner().invoke(app, ["export", "run", "--to", "card"])
    assert card.exit_code == 0, card.output
    text = (tmp_path / "run" / "model-card.md").read_text()
    assert "| trained on | made-up images |" in text
    assert "| licence | MIT |" in text
    assert (
        "resnet8.v1, trained on made-up images, licence MIT, from hub" in (tmp_path / "run" / "report.html").read_text()
    )


def test_a_trained_model_needs_no_weights(hub, published, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    resolve_entry(hub.entry, download=True)
    recipe = small_recipe({"model": {"weights": "v1"}, "stage1": {"epochs": 0}, "stage2": {"epochs": 0}})
    folder = RunFolder(tmp_path / "run")
    folder.create(recipe, "tailcloud train")
    train(recipe, open_dataset("digits-lt"), folder, torch.device("cpu"), Watcher())
    monkeypatch.delitem(CATALOGUE, "resnet8")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "elsewhere")
    from tailcloud.serving import load

    model = load(tmp_path / "run")
    assert model.classifier.backbone.conv1.weight.equal(published["conv1.weight"])
    assert model.weights.licence == "MIT"


def test_a_dry_run_says_what_it_would_download(hub, published, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "model.width=0.25", "--weights", "pretrained", "--dry-run"]
    outcome = CliRunner().invoke(app, ["train", "digits-lt/ce", *settings])
    assert outcome.exit_code == 0, outcome.output
    assert caplog.messages == [f"The weights resnet8 would be downloaded: 0.1 MB, MIT, from hub {REPO}."]
    assert hub.requests == []


def test_weights_none_is_from_scratch(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = ["--set", "model.width=0.25", "--set", "stage1.epochs=0"]
    for name, more in {"plain": [], "none": ["--weights", "none"]}.items():
        outcome = CliRunner().invoke(app, ["train", "digits-lt/ce", *settings, *more, "--out", name])
        assert outcome.exit_code == 0, outcome.output
    assert Path("plain/model.safetensors").read_bytes() == Path("none/model.safetensors").read_bytes()
    assert RunFolder(Path("none")).result().model.weights is None
    assert hub.requests == []


def test_a_file_of_another_network_is_a_sentence(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hub.content = save(create_backbone("resnet20", channels=1, width=0.5).state_dict())
    arguments = ["train", "digits-lt/ce", "--set", "model.width=0.25", "--weights", "v1", "--out", "run"]
    outcome = CliRunner().invoke(app, arguments)
    assert isinstance(outcome.exception, UsageError)
    assert "set model.backbone to that of the file" in str(outcome.exception)
    assert not Path("run").exists()


@pytest.mark.parametrize("pinned", [False, True])
def test_another_content_is_refused_and_removed(hub, published, pinned):
    """Pinned: the hub changed its file. Not pinned: what came is not what the hub announced."""
    if pinned:
        entry = replace(hub.entry, source=HubFile(REPO, sha256="0" * 64))
    else:
        entry, hub.sent = hub.entry, hub.content[:-1] + b"?"
    found = hashlib.sha256(hub.sent or hub.content).hexdigest()
    with pytest.raises(TailcloudError, match=f"have the SHA-256 {found}, but .* is expected; it was removed"):
        resolve_entry(entry, download=True)
    assert nothing_is_left(hub)


def test_a_damaged_file_in_the_cache_is_refused_by_its_name(hub, published):
    file = Path(resolve_entry(hub.entry, download=True).file).resolve()
    file.chmod(0o644)
    file.write_bytes(hub.content[:-1] + b"?")
    with pytest.raises(TailcloudError, match=f"remove {file} and run"):
        resolve_entry(hub.entry)
    file.unlink()
    assert resolve_entry(hub.entry, download=True).sha256 == hub.sha256


def test_a_pinned_file_is_found_under_another_revision_if_it_is_the_same(hub, published):
    resolve_entry(hub.entry, download=True)
    for sha256, here in {hub.sha256: True, "0" * 64: False}.items():
        CATALOGUE["resnet8"] = replace(hub.entry, source=HubFile(REPO, revision="0" * 40, sha256=sha256))
        assert available("resnet8") is here


def test_a_broken_connection_is_a_sentence_and_leaves_nothing(hub, published, monkeypatch):
    hub.breaks = True
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with pytest.raises(
        TailcloudError, match=r'resnet8 from http.* broke off \(.*\); run "tailcloud weights get resnet8"'
    ):
        resolve_entry(hub.entry, download=True)
    assert nothing_is_left(hub)
    hub.breaks = False
    assert resolve_entry(hub.entry, download=True).sha256 == hub.sha256


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_a_hub_that_refuses_is_a_sentence(hub, published, status):
    hub.status = status
    started = time.perf_counter()
    with pytest.raises(TailcloudError, match=rf"cannot download the weights resnet8 from .*{status}.*--weights none"):
        resolve_entry(hub.entry, download=True)
    assert time.perf_counter() - started < 5
    assert nothing_is_left(hub)


def test_without_a_network_it_fails_at_once(hub, published, monkeypatch):
    hub.shutdown()
    hub.server_close()
    started = time.perf_counter()
    folder = hub.cache / FOLDER
    with pytest.raises(
        TailcloudError, match=rf'run "tailcloud weights get resnet8" and copy {folder} to the same place'
    ):
        resolve_entry(hub.entry, download=True)
    assert time.perf_counter() - started < 5


def test_offline_mode_is_respected_and_named(hub, published, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(TailcloudError, match=r"\(HF_HUB_OFFLINE is set\)"):
        resolve_entry(hub.entry, download=True)
    assert hub.requests == []


def test_a_full_disk_is_seen_before(hub, published, monkeypatch):
    free = type("usage", (), {"free": len(hub.content) - 1})
    monkeypatch.setattr("tailcloud.weights.hub.shutil.disk_usage", lambda _: free)
    with pytest.raises(
        TailcloudError, match=f"the disk is full: the weights resnet8 do not fit into {hub.cache / FOLDER}"
    ):
        resolve_entry(hub.entry, download=True)
    assert [method for method, _ in hub.requests] == ["HEAD"]


@pytest.mark.parametrize(("code", "sentence"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "set HF_HOME to")])
def test_a_disk_that_fails_is_a_sentence_and_leaves_nothing(hub, published, monkeypatch, code, sentence):
    def write_half(url, file, **_):
        file.write(hub.content[: len(hub.content) // 2])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("huggingface_hub.file_download.http_get", write_half)
    with pytest.raises(TailcloudError, match=sentence):
        resolve_entry(hub.entry, download=True)
    assert nothing_is_left(hub)


@pytest.mark.parametrize("licence", ["cc-by-nc-4.0", "dinov3-license", None, "bsdish"])
def test_other_licences_need_consent(hub, published, licence, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "resnet8", replace(hub.entry, licence=licence))
    with pytest.raises(UsageError, match=rf"have .*licence( {licence})?, not Apache.*get resnet8 --accept-licence"):
        resolve_weights("resnet8", "pretrained", download=True)
    assert hub.requests == []
    outcome = CliRunner().invoke(app, ["weights", "get", "resnet8", "--accept-licence"])
    assert outcome.exit_code == 0, outcome.output
    assert resolve_weights("resnet8", "pretrained").licence == licence


def test_a_licence_that_is_not_open_is_noted_by_every_run(hub, published, monkeypatch):
    from tailcloud.training.session import Session

    recipe = small_recipe({"model": {"weights": "pretrained"}})
    resolve_entry(hub.entry, download=True)
    for licence, remarks in {
        "MIT": [],
        "cc-by-nc-4.0": ["The weights resnet8.v1 have the licence cc-by-nc-4.0, which"],
    }.items():
        monkeypatch.setitem(CATALOGUE, "resnet8", replace(hub.entry, licence=licence))
        session = Session(recipe, open_dataset("digits-lt"), torch.device("cpu"))
        assert [remark[: len(remarks[0])] for remark in session.licence_remarks] == remarks


TWO = """
import sys, time
from pathlib import Path
from tailcloud.weights.catalogue import CATALOGUE, CatalogueEntry, HubFile
from tailcloud.weights.resolve import resolve_entry
entry = CatalogueEntry(name="x", tag="v1", architecture="", source=HubFile("somebody/small.v1"), mean=(), std=(),
                       pixels=8, interpolation="", crop=1.0, licence="MIT", trained_on=None)
print("ready", flush=True)
sys.stdin.readline()
print(resolve_entry(entry, download=True).sha256)
"""


def test_two_processes_at_once_get_the_same_whole_file(hub, published):
    hub.content = os.urandom(3_000_000)
    surroundings = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(hub.cache)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen([sys.executable, "-c", TWO], env=surroundings, text=True, **pipes) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("\n")
        one.stdin.flush()
    said = [one.communicate(timeout=60) for one in both]
    assert [text for text, _ in said] == [f"{hub.sha256}\n"] * 2, said
    assert not list(hub.cache.rglob("*.incomplete"))
    assert len(list((hub.cache / FOLDER / "blobs").iterdir())) == 1
