"""The train verb as people use it: plans, seeds, resuming, Ctrl-C, two at once."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.bad_inputs import SMALL
from helpers.command_line import printed
from helpers.drawing import draw_classes
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder

STAGE2 = "--set stage2.epochs=1"
LONG = "--set model.width=0.25 --set engine.checkpoint_seconds=0.1 --set stage1.epochs=4000"  # and saved often


@pytest.fixture
def tailcloud(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return printed


def hear_ctrl_c():
    """A shell starts background jobs deaf to Ctrl-C, and the tests themselves may be such a job."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def background(tmp_path):
    """Start a command in a process of its own; whatever still runs is killed when the test ends."""
    started = []

    def start(words):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tailcloud", *words.split()]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": hear_ctrl_c}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(happens, process):
    for _ in range(1200):
        if happens():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    pytest.fail("nothing happened for a minute")


def wait_for_a_checkpoint(folder, process):
    wait_for(lambda: list(folder.glob("checkpoint/*.safetensors")), process)


def test_a_dry_run_prints_the_plan_and_writes_nothing(tailcloud, tmp_path):
    said = tailcloud("train --dry-run --seed 0 --seed 1")
    assert "331 training, 0 validation and 500 test images" in said
    assert "74,992 parameters" in said
    assert "60 epochs, 360 steps of 64" in said
    assert "memory   about" in said
    assert "seed 1 in runs/digits-lt-gcl/seed1" in said
    assert list(tmp_path.iterdir()) == []


def test_seeds_are_single_ones_and_ranges(tailcloud):
    said = tailcloud("train --dry-run --seed 0-2 --seed 7 --seed 4-4")
    assert [seed for seed in range(9) if f"seed {seed} in runs/digits-lt-gcl/seed{seed}" in said] == [0, 1, 2, 4, 7]


def test_several_seeds_get_a_folder_each_and_a_summary(tailcloud, tmp_path):
    said = tailcloud(f"train digits-lt:20/gcl --seed 3-4 --out both {SMALL}")
    assert re.search(r"gcl, digits-lt:20 +2 +[\d.]+ ± [\d.]+", said)
    results = [json.loads((tmp_path / "both" / name / "result.json").read_text()) for name in ("seed3", "seed4")]
    assert [result["protocol"]["seed"] for result in results] == [3, 4]
    assert (tmp_path / "both" / "seed3" / "report.html").exists()
    assert results[0]["command"] == f"tailcloud train digits-lt:20/gcl {SMALL} --seed 3"


def test_the_summary_of_seeds_has_one_ece_for_all_methods(tailcloud, tmp_path):
    """That of the test images as they are: CE's probabilities assume the training frequencies, and GCL's equal ones."""
    said = tailcloud("train digits-lt/ce --seed 3 --seed 5 --out both --set stage1.epochs=3 --set model.width=0.25")
    results = [json.loads((tmp_path / "both" / name / "result.json").read_text()) for name in ("seed3", "seed5")]
    raw = sum(result["ece"] for result in results) / 2
    used = sum(result["calibrated"]["weighted"]["ece"] for result in results) / 2
    header, row, note = re.search(r"(mean ± deviation.*)\n(.*)\n(raw ece: .*)", said).groups()
    assert header.endswith("raw ece")
    assert re.search(rf" {raw:.1f} ± [\d.]+$", row)
    assert f"{raw:.1f}" != f"{used:.1f}"
    assert "of the test images as they are, without temperature" in note
    assert said.count("classes as often as in training") == 2  # the lines of the runs


def test_the_command_in_a_result_makes_the_same_run(tailcloud, tmp_path):
    tailcloud(f"train digits-lt/gcl --seed 3 --out first {SMALL}")
    command = json.loads((tmp_path / "first" / "result.json").read_text())["command"]
    tailcloud(command.removeprefix("tailcloud ") + " --out second")
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second"))
    assert first == second


def test_a_finished_run_is_not_trained_again(tailcloud, tmp_path):
    tailcloud(f"train --out run {SMALL}")
    before = (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns
    assert "finished already" in tailcloud("train --resume --out run")
    assert (tmp_path / "run" / "model.safetensors").stat().st_mtime_ns == before


def test_a_finished_run_that_lost_its_model_or_report_gets_it_back(tailcloud, tmp_path):
    tailcloud(f"train --out run {SMALL}")
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    (tmp_path / "run" / "model.safetensors").unlink()
    (tmp_path / "run" / "report.html").unlink()
    tailcloud("train --resume --out run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights
    (tmp_path / "run" / "report.html").unlink()
    tailcloud("train --resume --out run")
    assert (tmp_path / "run" / "report.html").exists()


def test_what_a_killed_process_left_behind_is_swept_away(tailcloud, tmp_path):
    half = tmp_path / "run" / f".tmp-{'0a' * 16}"
    half.parent.mkdir()
    half.write_text("cut sh")
    tailcloud(f"train --out run {SMALL}")
    assert not half.exists()


def test_paths_may_look_like_markup(tailcloud, tmp_path):
    assert "a[/b]c" in tailcloud(f"train --out a[/b]c {SMALL}")


def test_a_picked_epoch_is_labelled(tailcloud):
    said = tailcloud(f"train --out run {SMALL} --set selection.pick=best")
    assert "kept epoch 1, chosen on test" in said
    assert "the epoch that was best on test" in tailcloud("evaluate run")


def test_a_run_alone_and_in_a_fleet_is_the_same_run(tailcloud, tmp_path):
    tailcloud(f"train --seed 1 --seed 2 --out fleet {SMALL}")
    tailcloud(f"train --seed 1 --out alone {SMALL}")
    alone, fleet = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("alone", "fleet/seed1"))
    assert alone == fleet


def test_a_third_stage_is_in_the_plan_or_refused_before_anything_is_written(tailcloud, tmp_path):
    said = tailcloud("train --dry-run --set stage3.head_transform=tuned-logit-adjust --set selection.split=0.1")
    assert "stage3   no epochs; head transform tuned-logit-adjust" in said
    for words in (
        "train --set stage3.head_transform=tuned-logit-adjust",
        "train --dry-run --set stage3.head_transform=tuned-logit-adjust",
    ):
        with pytest.raises(UsageError, match=r"add --set selection\.split=0\.1"):
            tailcloud(words)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_works_beside_a_finished_run(tailcloud):
    tailcloud(f"train --out run {SMALL}")
    assert "stage1" in tailcloud(f"train --out run {SMALL} --dry-run")


def test_resuming_several_seeds_starts_those_that_are_missing(tailcloud, tmp_path):
    tailcloud(f"train --seed 0 --out runs/seed0 {SMALL}")
    tailcloud(f"train --resume --seed 0 --seed 1 --out runs {SMALL}")
    assert (tmp_path / "runs" / "seed1" / "result.json").exists()


def test_resuming_with_a_changed_field_names_it(tailcloud):
    tailcloud(f"train --out run {SMALL}")
    with pytest.raises(UsageError, match=r"was started with stage1.epochs = 1, and this command has 5"):
        tailcloud("train --resume --out run --set stage1.epochs=5")
    with pytest.raises(TailcloudError, match="holds no run"):
        tailcloud("train --resume --out nothing")


def test_resuming_with_another_seed_is_refused(tailcloud):
    tailcloud(f"train --out run {SMALL}")
    with pytest.raises(UsageError, match="was started with seed = 0, and this command has 1"):
        tailcloud(f"train --resume --out run --seed 1 {SMALL}")


def test_one_failing_run_does_not_stop_the_others(tailcloud, tmp_path):
    (tmp_path / "wild.toml").write_text('data = "digits-lt"\nmethod = "ce"\n[stage1]\nepochs = 2\nlr = 1e20\n')
    (tmp_path / "tame.toml").write_text('data = "digits-lt"\nmethod = "ce"\n[stage1]\nepochs = 2\n')
    with pytest.raises(TailcloudError, match=r"digits-lt ce seed 0: the .* became NaN or infinite in stage1"):
        tailcloud("train wild.toml tame.toml --out both --set model.backbone=resnet8 --set model.width=0.25")
    assert (tmp_path / "both" / "tame" / "result.json").exists()
    assert not (tmp_path / "both" / "wild" / "result.json").exists()


def test_ctrl_c_stops_several_runs_and_they_go_on(tailcloud, background, tmp_path):
    words = f"train --seed 0 --seed 1 --out runs {LONG}"
    process = background(words)
    wait_for_a_checkpoint(tmp_path / "runs" / "seed0", process)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--set stage1.epochs=4000 --resume" in complaint
    assert "Traceback" not in said + complaint


def test_workers_die_with_their_parent_and_let_go_of_their_runs(tailcloud, background, tmp_path):
    words = f"train --seed 0 --seed 1 --out runs {LONG}"
    process = background(words)
    wait_for_a_checkpoint(tmp_path / "runs" / "seed0", process)
    process.kill()
    process.wait()
    folder = RunFolder(tmp_path / "runs" / "seed0")
    for _ in range(100):
        try:
            with folder.locked():
                return
        except TailcloudError:
            time.sleep(0.1)
    pytest.fail("the worker still holds its run folder")


def test_ctrl_c_leaves_a_run_that_goes_on(tailcloud, background, tmp_path):
    words = f"train --out run {LONG}"
    process = background(words)
    wait_for_a_checkpoint(tmp_path / "run", process)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 'continue with "tailcloud train --resume --out run"' in complaint
    assert "Traceback" not in said + complaint
    assert list((tmp_path / "run" / "checkpoint").glob("stage1-*.safetensors"))


@pytest.mark.parametrize("several", [False, True])
def test_sigterm_saves_the_runs_and_says_how_to_go_on(tailcloud, background, tmp_path, several):
    words = "train --out runs --set model.width=0.25 --set stage1.epochs=4000 --set engine.checkpoint_seconds=3600"
    process = background(f"{words} --seed 0 --seed 1" if several else words)
    first = tmp_path / "runs" / "seed0" if several else tmp_path / "runs"
    wait_for(RunFolder(first).log, process)
    process.send_signal(signal.SIGTERM)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 143
    again = "--seed 1 --resume" if several else "tailcloud train --resume --out runs"
    assert re.search(f'stopped by SIGTERM; continue with "[^"]*{again}"', complaint)
    assert "Traceback" not in said + complaint
    assert list(first.glob("checkpoint/stage1-*.safetensors"))


def test_a_second_process_on_the_same_folder_is_refused(tailcloud, background, tmp_path):
    first = background(f"train --out run {LONG}")
    try:
        wait_for_a_checkpoint(tmp_path / "run", first)
        with pytest.raises(TailcloudError, match="in use by another tailcloud process"):
            tailcloud("train --resume --out run")
    finally:
        first.kill()
        first.communicate()


def test_a_held_out_part_shows_as_validation(tailcloud):
    assert "val" in tailcloud(f"train --out run {SMALL} --set selection.split=0.2")


def test_each_stage_prints_balanced_accuracy_and_what_it_changed(tailcloud, tmp_path):
    said = " ".join(tailcloud(f"train --out run {SMALL} --set selection.split=0.2 --set selection.stage=best").split())
    assert re.search(r"stage1 epoch 1/1 loss [\d.]+ val [\d.]+ %, balanced [\d.]+ %", said)
    assert re.search(r"stage1 top1 [\d.]+ balanced [\d.]+ many .* stage2 top1 [\d.]+ balanced [\d.]+ many", said)
    result = RunFolder(tmp_path / "run").result()
    assert "Stage 2 " in said
    assert result.kept_stage.reason.replace("\u00a0", " ") in said.replace("\u00a0", " ")
    assert result.kept_stage.reason.partition(" ")[2] in (tmp_path / "run" / "report.html").read_text()
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert all({"balanced_accuracy", "val_balanced_accuracy"} <= line.keys() for line in logged)


@pytest.mark.parametrize("seed", [str(2**63), "1" * 5_000, f"0-{2**63}", "0-" + "9" * 32, "0-" + "1" * 5_000])
def test_a_seed_that_no_recipe_can_hold_is_refused_before_anything_is_written(seed, tailcloud, tmp_path):
    with pytest.raises(UsageError, match=r"from 0 to 9223372036854775807|at most 19 digits|1,000 seeds"):
        tailcloud(f"train --seed {seed} --out run {SMALL}")
    assert not (tmp_path / "run").exists()


def test_a_run_to_resume_that_was_not_named_is_asked_for_among_the_unfinished(tailcloud):
    with pytest.raises(
        TailcloudError, match="and no run below runs is unfinished; leave out --resume to start one, or name"
    ):
        tailcloud("train --resume")
    tailcloud(f"train --out runs/done {SMALL}")
    for number in range(7):
        shutil.copytree("runs/done", f"runs/deeper/{number}")
        Path(f"runs/deeper/{number}/result.json").unlink()
        os.utime(f"runs/deeper/{number}", (number, number))
    with pytest.raises(TailcloudError) as error:
        tailcloud("train --resume")
    latest = ", ".join(f"runs/deeper/{number}" for number in (6, 5, 4, 3, 2))
    assert f"leave out --resume to start one, or name the run with --out (unfinished: {latest} and 2 more)" in str(
        error.value
    )


def test_classes_of_equal_size_are_noted_once_and_clouds_only_where_the_loss_has_some(tailcloud):
    tail, clouds = "there is no tail.", "All clouds of the loss have size 0"
    said = tailcloud(f"train digits-lt/ce --data digits-lt:1 --seed 0 --seed 1 {SMALL}".replace(STAGE2, ""))
    assert (said.count(tail), said.count(clouds)) == (1, 0)
    said = tailcloud(f"train digits-lt/gcl --data digits-lt:1 --dry-run {SMALL}")
    assert (said.count(tail), said.count(clouds)) == (1, 1)


def test_unknown_weights_are_refused_before_anything_is_timed(tailcloud, monkeypatch):
    draw_classes(Path("photos"), {"cat": 4, "horse": 4})
    monkeypatch.setattr("tailcloud.launch.run_plan.choose_recipe", pytest.fail)
    with pytest.raises(UsageError, match=r'"resnet5O" is neither .*; those of resnet50 need model.backbone=resnet50'):
        tailcloud("train --data photos --weights resnet5O")


def test_a_run_folder_that_cannot_be_made_is_refused_before_anything_is_timed(tailcloud, monkeypatch):
    def broken(**_):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    draw_classes(Path("photos"), {"cat": 4, "horse": 4})
    monkeypatch.setattr("tailcloud.launch.run_plan.choose_recipe", pytest.fail)
    monkeypatch.setattr("tailcloud.files.TemporaryFile", broken)
    with pytest.raises(UsageError, match=r"--out run cannot be written: no file can be created in .* \(No such file"):
        tailcloud("train --data photos --out run")
