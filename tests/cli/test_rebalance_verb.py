"""The rebalance verb: a finished run gets another second stage, and its first is not trained again."""

import json
import shutil

import pytest

from helpers.command_line import printed
from helpers.runs import same_weights
from tailcloud.cli.rebalance import SECOND_STAGES
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.recipe import load_recipe
from tailcloud.training.features.run_features import forget_features


@pytest.fixture
def call(tmp_path, monkeypatch, finished_run):
    """``tailcloud WORDS`` in a folder with a finished GCL run."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished_run, tmp_path / "run")
    return printed


@pytest.mark.parametrize("way", SECOND_STAGES)
def test_every_way_works_on_a_finished_run(call, tmp_path, way):
    post_hoc = load_recipe(f"digits-lt/{SECOND_STAGES[way]}").stage2.epochs == 0
    said = call(f"rebalance run --with {way}" + ("" if post_hoc else " --set stage2.epochs=1"))
    assert "stage2  top1" in said
    folder = tmp_path / f"run-{way}"
    result, before = (json.loads((path / "result.json").read_text()) for path in (folder, tmp_path / "run"))
    assert result["method"] == f"gcl+{SECOND_STAGES[way]}"
    assert result["stages"][0]["top1"] == before["stages"][0]["top1"]
    assert result["stages"][0]["seconds"] == before["stages"][0]["seconds"]
    assert result["command"].startswith(f"tailcloud rebalance run --with {way} --out run-{way}")
    assert "gcl+" in (folder / "report.html").read_text()
    assert load_recipe(str(folder)).substance() == result["recipe"]


def test_the_new_run_is_a_run_like_any_other(call, tmp_path):
    call("rebalance run --with tau-norm --out other/place")
    assert "500 test images" in call("evaluate other/place")
    assert "finished already" in call("train --resume --out other/place")
    call("rebalance other/place --with ncm --out twice")
    assert json.loads((tmp_path / "twice" / "result.json").read_text())["method"] == "gcl+ncm"


def test_a_third_stage_without_held_out_images_is_refused_before_anything_is_written(call, tmp_path):
    with pytest.raises(UsageError, match=r"stage3\.head_transform = \"tuned-logit-adjust\" needs held-out images"):
        call("rebalance run --with crt --set stage3.head_transform=tuned-logit-adjust")
    assert not (tmp_path / "run-crt").exists()


def test_settings_change_the_second_stage_only(call, tmp_path):
    call("rebalance run --with tau-norm --set stage2.head_transform.tau=0.5")
    assert load_recipe(str(tmp_path / "run-tau-norm")).stage2.head_transform.options == {"tau": 0.5}
    with pytest.raises(TailcloudError, match=r"the first stage of run cannot be used: its stage1.lr is 0.1"):
        call("rebalance run --with ncm --set stage1.lr=0.5")
    assert not (tmp_path / "run-ncm").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("rebalance nowhere --with crt", "nowhere holds no run"),
        ("rebalance run --with crx", 'no second stage "crx"; did you mean "crt"'),
        ("rebalance run --with crt --out run", "run already holds a run"),
        ("rebalance run --with crt --set stage2.epcohs=3", "epcohs"),
        ("rebalance run --with crt --set method=ce", "the method is FIRST"),
    ],
)
def test_wrong_use_is_a_sentence(call, words, sentence):
    with pytest.raises(TailcloudError, match=sentence):
        call(words)


def test_an_unfinished_run_is_refused(call, tmp_path):
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(TailcloudError, match="run holds no finished run"):
        call("rebalance run --with crt")
    assert not (tmp_path / "run-crt").exists()


def test_a_run_without_a_kept_first_stage_is_refused(call, tmp_path):
    for path in (tmp_path / "run" / "checkpoint").glob("stage1-*"):
        path.unlink()
    with pytest.raises(TailcloudError, match="the first stage of run cannot be used: its checkpoint stage1-0000003"):
        call("rebalance run --with crt")
    assert not (tmp_path / "run-crt").exists()


def test_the_new_stage_trains_on_images_or_says_that_it_does_not(call, tmp_path, monkeypatch):
    monkeypatch.setenv("TAILCLOUD_CACHE", str(tmp_path / "cache"))
    forget_features()
    said = " ".join(call("rebalance run --with crt --set stage2.epochs=1 --set stage2.views=4").split())
    assert "trains on features of 4 views of each image" in said
    assert "a variant of the published method: no other views are drawn, and batch norm stays as it is" in said
    assert "Features of 331 training images × 4 views: 1,324 computed" in said.replace("\xa0", " ")
    forget_features()
    said = " ".join(call("rebalance run --with lws --set stage2.epochs=1 --set stage2.views=4").split())
    assert ": 0 computed, 1,324 from the cache" in said  # another head on the same network
    assert "eatures" not in call("rebalance run --with crt --set stage2.epochs=1 --out plain")


def test_it_ends_where_the_joined_method_ends(call, tmp_path):
    """cRT moves the statistics of batch norm: the new run does, too, with the same bits."""
    call("rebalance run --with crt --set stage2.epochs=2")
    words = "digits-lt/gcl+crt --set stage1.epochs=3 --set stage2.epochs=2 --set model.width=0.25 --out whole"
    call(f"train {words}")
    assert same_weights(tmp_path / "run-crt", tmp_path / "whole")
