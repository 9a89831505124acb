"""The average verb: what it prints, and that every other verb takes its folder as a run."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import tailcloud
from helpers.command_line import printed
from helpers.runs import run, small_recipe
from tailcloud.data import open_dataset
from tailcloud.errors import TailcloudError
from tailcloud.runs.folder import RunFolder


@pytest.fixture(scope="module")
def seeds(tmp_path_factory, finished_run):
    """Runs of two seeds in one folder."""
    home = tmp_path_factory.mktemp("seeds")
    (home / "seed0").symlink_to(finished_run)
    run(home / "seed1", small_recipe({"seed": 1}))
    return home


@pytest.fixture
def call(seeds, tmp_path, monkeypatch):
    """``tailcloud WORDS`` in a folder with two runs and their average."""
    monkeypatch.chdir(tmp_path)
    for name in ("seed0", "seed1"):
        (tmp_path / name).symlink_to(seeds / name)
    return printed


def test_the_average_is_printed_beside_its_members_and_is_a_run_for_every_verb(call, tmp_path):
    said = call("average seed0 seed1 --out average --device cpu")
    rows = {line.split()[0]: line.split()[1] for line in said.splitlines() if line.split()[0] in {"seed0", "average"}}
    result = RunFolder(tmp_path / "average").result()
    assert rows == {
        "seed0": f"{RunFolder(tmp_path / 'seed0').result().top1.last:.1f}",
        "average": f"{result.top1.last:.1f}",
    }
    assert [member.seed for member in result.model.members] == [0, 1]
    measured = json.loads(call("evaluate average --device cpu --json"))
    assert measured["top1"] == result.top1.last
    assert "test images" in call("evaluate average --device cpu --data digits-lt")
    assert f"top-1 {result.top1.last:.1f}" in call("watch average")
    assert "finished already" in call("train --resume --out average")
    assert "Averaged from" in (call("export average --to card"), (tmp_path / "average/model-card.md").read_text())[1]
    call("report average seed0 seed1 --out comparison.html")
    assert "average of 2 runs of gcl" in (page := (tmp_path / "comparison.html").read_text())
    assert "Epochs differ" not in page
    call("train digits-lt/ce --teacher average --set stage1.epochs=1 --set model.width=0.25 --device cpu --out student")
    assert RunFolder(tmp_path / "student").result().model.teachers[0].run == "average"
    with pytest.raises(TailcloudError, match="average is an average of 2 runs, and has no first stage"):
        call("rebalance average --with tau-norm")


def test_predict_says_what_the_mean_of_the_logits_says(call, tmp_path):
    call("average seed0 seed1 --out average --device cpu")
    image = open_dataset("digits-lt").test.images[7]
    Image.fromarray(image[..., 0]).save(tmp_path / "seven.png")
    models = [tailcloud.load(tmp_path / name).double() for name in ("seed0", "seed1")]
    with torch.no_grad():
        pixels = models[0].transform(torch.from_numpy(image[None])).double()
        logits = np.mean([model(pixels).numpy()[0] for model in models], axis=0)
    powers = np.exp(logits - logits.max())
    (said,) = (json.loads(line) for line in call("predict average seven.png --json").splitlines() if line[:1] == "{")
    assert said["prediction"] == str(powers.argmax())
    assert said["top"][0]["probability"] == pytest.approx(powers.max() / powers.sum(), abs=1e-4)
