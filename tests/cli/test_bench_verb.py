"""The bench verb as people use it: a table fills in, goes on where it was, and survives a failing run."""

import errno
import json
import re
import shutil
import threading
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import tailcloud.bench
import tailcloud.bench.bench_runner
import tailcloud.cli.bench_display
import tailcloud.plugins
from helpers.small_table import measured, table
from tailcloud.bench import BenchProtocol, plan_bench
from tailcloud.cli import app
from tailcloud.cli.bench_display import BenchProgress
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.runs.folder import RunFolder

SHORT = "--epochs 1 --set model.width=0.25 --only digits-lt"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def bench(home, monkeypatch):
    """``tailcloud bench`` in a folder that the tests of this module share, on the small table."""
    monkeypatch.chdir(home)
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name))
    return call


@pytest.fixture(scope="module")
def filled(home):
    """The small table, filled once for all tests: its folder, and what was said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name))
        result = call(f"table1 {SHORT} --seed 0 --json table.json")
    assert result.exit_code == 0, result.output
    return next((home / "runs" / "bench" / "table1").iterdir()), result.output


def call(words):
    return CliRunner().invoke(app, ["bench", *words.split()], catch_exceptions=False)


def test_a_dry_run_lists_the_runs_and_writes_nothing(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = bench(f"table1 {SHORT} --seed 0 --dry-run").output
    assert "digits-lt-ce-seed0  1 epochs, new\n" in said
    assert "digits-lt-gcl-cben-seed0  1 + 1 epochs, new, from the first stage of digits-lt-gcl-seed0" in said
    assert "3\u00a0runs, 0 finished, 3 to train: 2 from their own first stage, 1 from that of another" in said
    assert list(tmp_path.iterdir()) == []


def test_seeds_of_a_bench_are_a_range_too(bench):
    said = bench(f"table1 {SHORT} --seed 5-6 --only ce --dry-run").output
    assert "digits-lt-ce-seed5  1 epochs, new\n" in said
    assert "digits-lt-ce-seed6  1 epochs, new\n" in said


def test_a_table_fills_in(home, filled):
    place, said = filled
    assert "digits-lt gcl-cben seed 0: " in said
    assert "(3 of 3 runs)" in said
    assert "Shortened: stage 1 has at most 1 epochs; changed: model.width=0.25. Mean" in said
    record = json.loads((home / "table.json").read_text())
    assert record["shortened"] is True
    assert [cell["seeds"] for cell in record["cells"]] == [[0], [0], [0]]
    assert "digits-lt" in (place / "table1.html").read_text()
    shown = f"{record['cells'][1]['top1']['mean']:.1f}"
    assert f"Two         1      {shown}" in said


def test_a_borrowed_first_stage_gives_the_run_that_training_it_gives(bench, home, filled):
    borrowed = filled[0] / "digits-lt-gcl-cben-seed0"
    command = json.loads((borrowed / "result.json").read_text())["command"]
    words = [*command.split()[1:], "--out", "alone"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    alone = home / "alone"
    assert (borrowed / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    then, now = (json.loads((folder / "result.json").read_text()) for folder in (borrowed, alone))
    assert (then["recipe"], then["top1"], then["few"]) == (now["recipe"], now["top1"], now["few"])
    assert len(then["stages"]) == len(now["stages"]) == 2


def test_what_exists_is_not_repeated(bench, filled):
    file = filled[0] / "digits-lt-ce-seed0" / "model.safetensors"
    before = file.stat().st_mtime_ns
    result = bench(f"table1 {SHORT} --seed 0")
    assert result.exit_code == 0
    assert "seed 0: " not in result.output
    assert file.stat().st_mtime_ns == before
    assert "3\u00a0runs, 3 finished, 0 to train" in bench(f"table1 {SHORT} --seed 0 --dry-run").output


def test_a_plugin_that_was_changed_since_is_told(bench, filled, monkeypatch):
    monkeypatch.setattr(tailcloud.plugins, "plugins_fingerprint", lambda: "mine.py 0123")
    assert "mine.py" not in bench(f"table1 {SHORT} --seed 0").output  # no part of these is from it
    monkeypatch.setattr(tailcloud.plugins.registry, "REGISTERED", {("method", "ce")})
    said = " ".join(bench(f"table1 {SHORT} --seed 0").output.split())
    assert (
        "trained with no plugin, not with mine.py 0123; delete the folders to train again: digits-lt-ce-seed0" in said
    )
    assert "digits-lt-gcl-seed0" not in said


def test_an_interrupted_run_goes_on(bench, filled):
    folder = filled[0] / "digits-lt-gcl-cben-seed0"
    weights = (folder / "model.safetensors").read_bytes()
    for name in ("result.json", "model.safetensors"):
        (folder / name).unlink()
    result = bench(f"table1 {SHORT} --seed 0 --only cben")
    assert result.exit_code == 0, result.output
    assert (folder / "model.safetensors").read_bytes() == weights


def test_one_failing_run_stops_no_other_and_the_verb_fails(bench, home, monkeypatch):
    rows = [
        {"label": "Wild", "method": "ce", "set": ["stage1.lr=1e20"]},
        {"label": "Tame", "method": "ce", "variant": "tame"},
        {"label": "Nobody's", "method": "nobodys"},
    ]
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name, rows=rows))
    with pytest.raises(TailcloudError, match=r"2.cells or runs could not be measured"):
        bench(f"table1 {SHORT} --seed 0 --out failing --json failing.json")
    wild, tame, nobodys = json.loads((home / "failing.json").read_text())["cells"]
    assert "became NaN or infinite" in wild["failures"][0]
    assert tame["top1"]["n"] == 1
    assert 'no method "nobodys"' in nobodys["failures"][0]


def test_a_folder_with_another_run_is_left_alone(bench, home, filled, monkeypatch):
    rows = [{"label": "One", "method": "ce", "set": ["stage1.lr=0.05"]}]
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name, rows=rows))
    with pytest.raises(TailcloudError, match="could not be measured"):
        bench(f"table1 {SHORT} --seed 0 --json other.json")
    sentence = json.loads((home / "other.json").read_text())["cells"][0]["failures"][0]
    assert "holds another run (stage1.lr = 0.1, not 0.05)" in sentence


def test_a_run_that_another_bench_trains_is_waited_for(bench, home, filled, monkeypatch):
    """Its folder is held for a while; a second stage that needs it waits, too."""
    place = home / "shared" / filled[0].name
    owner = RunFolder(place / "digits-lt-gcl-seed0")
    released, taken = threading.Event(), threading.Event()

    def another():
        with owner.locked():
            taken.set()
            released.wait(60)

    waited = tailcloud.bench.bench_runner.wait_for

    def then_release(steps, board):
        assert {step.run.row.key for step in steps} == {"gcl", "gcl-cben"}
        threading.Timer(0.2, released.set).start()
        waited(steps, board)

    monkeypatch.setattr(tailcloud.bench.bench_runner, "wait_for", then_release)
    thread = threading.Thread(target=another)
    thread.start()
    taken.wait()
    result = bench(f"table1 {SHORT} --seed 0 --out shared --json shared.json")
    thread.join()
    assert result.exit_code == 0, result.output
    assert "another tailcloud process trains digits-lt-gcl-seed0; waiting for it" in " ".join(result.output.split())
    assert [cell["seeds"] for cell in json.loads(Path("shared.json").read_text())["cells"]] == [[0], [0], [0]]
    weights = (owner.path / "model.safetensors").read_bytes()
    assert weights == (filled[0] / owner.path.name / "model.safetensors").read_bytes()


def test_what_another_bench_has_finished_meanwhile_is_taken(bench, home, filled, monkeypatch):
    place = home / "taken" / filled[0].name

    def finished_elsewhere(steps, board):
        for step in steps:
            shutil.rmtree(step.run.folder.path)
            shutil.copytree(filled[0] / step.run.folder.path.name, step.run.folder.path)
        lock.__exit__(None, None, None)

    monkeypatch.setattr(tailcloud.bench.bench_runner, "wait_for", finished_elsewhere)
    lock = RunFolder(place / "digits-lt-ce-seed0").locked()
    lock.__enter__()
    result = bench(f"table1 {SHORT} --only ce --seed 0 --out taken")
    assert result.exit_code == 0, result.output
    assert "digits-lt ce seed 0: " in result.output


def test_a_full_disk_is_told_with_what_it_spoiled(bench, home, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    rows = [{"label": "Wild", "method": "ce", "set": ["stage1.lr=1e20"]}]
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name, rows=rows))
    monkeypatch.setattr(tailcloud.cli.bench_display, "write_atomically", full)
    said = []
    monkeypatch.setattr(tailcloud.cli.bench_display, "print_note", said.append)
    with pytest.raises(OSError, match="No space"):
        bench(f"table1 {SHORT} --seed 0 --out full")
    assert any("Wild failed: the loss became NaN" in sentence for sentence in said)


def test_a_folder_of_somebody_else_fails_its_cell_and_no_other(bench, home, filled, monkeypatch):
    exists = RunFolder.exists.fget

    def forbidden(folder):
        if folder.path.name == "digits-lt-ce-seed0":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder.path))
        return exists(folder)

    monkeypatch.setattr(RunFolder, "exists", property(forbidden))
    with pytest.raises(TailcloudError, match=r"1.cell or run could not be measured"):
        bench(f"table1 {SHORT} --seed 0 --json forbidden.json")
    first, *others = json.loads((home / "forbidden.json").read_text())["cells"]
    assert "cannot be read or written (Permission denied)" in first["failures"][0]
    assert [cell["seeds"] for cell in others] == [[0], [0]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--json .", r"--json \. is a folder; name a file in it"),
        ("--json afile/table.json", r"--json afile/table.json cannot be written: .*afile is a file, not a folder"),
        ("--out afile", r"--out afile/.* cannot be written: .*afile is a file, not a folder"),
    ],
)
def test_what_could_not_be_written_in_the_end_is_refused_before_anything_trains(
    bench, tmp_path, monkeypatch, words, sentence
):
    monkeypatch.chdir(tmp_path)
    Path("afile").touch()
    with pytest.raises(UsageError, match=sentence):
        bench(f"table1 {SHORT} --seed 0 {words}")
    assert [path.name for path in tmp_path.iterdir()] == ["afile"]


def test_data_that_are_not_there_are_one_sentence(home, monkeypatch):
    monkeypatch.chdir(home)
    words = "bench table1 --only ce --only gcl --only cifar10-lt:100 --root nowhere --json nothing.json"
    with pytest.raises(TailcloudError, match=r"2.cells or runs could not be measured"):
        CliRunner().invoke(app, words.split(), catch_exceptions=False)
    cells = json.loads((home / "nothing.json").read_text())["cells"]
    assert [len(cell["failures"]) for cell in cells] == [1, 1]
    assert "CIFAR-10" in cells[0]["failures"][0]


def test_large_data_print_what_was_published_and_what_is_missing(home, monkeypatch):
    monkeypatch.chdir(home)
    result = CliRunner().invoke(app, ["bench", "table2", "--only", "gcl", "--seed", "0"])
    assert "3\N{NO-BREAK SPACE}cells or runs could not be measured" in str(result.exception)
    assert "54.88" in result.output
    said = " ".join(result.output.split())
    for needed in ("ImageNet_LT_train.txt", "iNaturalist18_train.txt", "Places_LT_train.txt"):
        assert f"needs the list {needed}" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("table9", 'no table "table9"'),
        ("table1 --only nobodys", "no row and no data set of table1; it has the rows ce, ce-mixup"),
        ("table1 --seed -1", "--seed -1 must be a whole number"),
        ("table1 --epochs 0", "--epochs 0 must be at least 1"),
        ("table1 --set stage1.epcohs=1", "epcohs"),
    ],
)
def test_wrong_use_is_a_sentence(home, monkeypatch, words, sentence):
    monkeypatch.chdir(home)
    with pytest.raises(UsageError, match=sentence):
        CliRunner().invoke(app, ["bench", *words.split()], catch_exceptions=False)


def test_the_live_table_shows_means_published_numbers_and_what_is_under_way(bench):
    board = BenchProgress(
        table(rows=[{"label": "One", "method": "ce", "paper": [80.0, "-"]}]),
        BenchProtocol(),
        plan_bench(table(), BenchProtocol(), Path("out")).runs,
        {("ce", "digits-lt"): [measured(0, 70.0), measured(1, 71.0)]},
        {("ce", "digits-lt:20"): ["the disk is full"]},
        {f"run {number}": "stage1 epoch 3/200" for number in range(6)},
    )
    console = Console(width=80, file=StringIO())
    console.print(board.live_view())
    said = console.file.getvalue()
    assert "T: 2 of 18\u00a0runs done" in said
    assert "run 3  stage1 epoch 3/200" in said
    assert "and 2 more" in said
    assert "γ = 20" in said
    assert re.search(r"One +70.5 ▼ \(80.00\) +failed", said)
