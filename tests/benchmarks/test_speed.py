"""Whole commands: what is measured, what follows from it, and how rows become one record and one table."""

import json

import pytest
import speed
import speed_table
import whole_command
from noise_images import write_arrays, write_cifar
from whole_command import Measured

from tailcloud.data import open_dataset

MACHINE = {"gpu": "a GPU", "processor": "a processor", "cores": 16, "torch": "2.11"}


class Shell:
    """Takes 10 s to start and 0.1 s an epoch and run; a command that is cold takes 20 s more."""

    def __init__(self, monkeypatch):
        self.now, self.commands = 0.0, []
        monkeypatch.setattr(whole_command, "measure", self.measure)
        monkeypatch.setattr(speed.time, "monotonic", lambda: self.now)

    def measure(self, words, folder, device, environment):
        kernels = environment["TRITON_CACHE_DIR"]
        cold = kernels not in {known for _, known in self.commands}
        self.commands.append((list(words), kernels))
        seconds = self.plain(folder) if "--write" in words else self.runs(words, folder)
        wall = 10.0 + seconds + 20.0 * cold
        self.now += wall
        return Measured(wall, 3 * 10**9)

    def runs(self, words, folder):
        epochs = {"stage1": 200, "stage2": 30}
        for word in words:
            stage, _, count = word.partition(".epochs=")
            epochs |= {stage: int(count)} if count else {}
        runs = max(1, words.count("--seed"))
        for seed in range(runs):
            home = folder / "runs" / f"seed{seed}"
            home.mkdir(parents=True)
            lines = [
                {"stage": stage, "epoch": epoch, "seconds": 0.08 + seed * 1e-9}
                for stage, count in epochs.items()
                for epoch in range(count)
            ]
            (home / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            (home / "result.json").write_text(json.dumps({"format": 1, "machine": MACHINE, "commit": "abc"}))
        return 0.1 * runs * sum(epochs.values())

    def plain(self, folder):
        folder.mkdir(parents=True)
        seconds = {"stage1": [9.0, 4.0, 4.0, 5.0], "stage2": [3.0, 2.0, 2.0, 2.0]}
        content = {"format": 1, "epoch_seconds": seconds, "machine": MACHINE, "commit": "abc"}
        (folder / "plain.json").write_text(json.dumps(content))
        return sum(map(sum, seconds.values()))


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.setattr(speed.noise_images, "write_cifar", lambda _name, folder: folder.mkdir(exist_ok=True))
    return Shell(monkeypatch)


def measured(tmp_path, *words):
    file = tmp_path / "speed.json"
    assert speed.main(["--device", "cuda", "--write", str(file), *words]) == 0
    return {row["row"]: row for row in json.loads(file.read_text())["rows"]}


def test_without_a_limit_whole_commands_are_measured(tmp_path, shell):
    rows = measured(tmp_path, "--rows", "fleet-4")
    assert [command["wall"] for command in rows["fleet-4"]["commands"]] == [10 + 0.1 * 4 * 230]
    words = shell.commands[-1][0]
    assert words[1:5] == ["-m", "tailcloud", "train", "cifar10-lt/gcl"]
    assert words.count("--seed") == 4
    assert "--set" not in words
    assert rows["fleet-4"]["machine"] == MACHINE
    assert speed_table.how(rows["fleet-4"]) == "whole"


def test_with_a_limit_no_row_is_left_out(tmp_path, shell):
    rows = measured(tmp_path, "--rows", "alone-warm", "fleet-16", "--time-limit", "200")
    alone, fleet = rows["alone-warm"], rows["fleet-16"]
    assert [command["epochs"] for command in alone["commands"]] == [
        {"stage1": 20, "stage2": 3},
        {"stage1": 40, "stage2": 6},
        {"stage1": 200, "stage2": 30},  # by the line through the two it fits, so it is measured too
    ]
    assert speed_table.how(alone) == "whole; line through 20 + 3 and 40 + 6 epochs: 33.0\u00a0s"
    assert [command["share"] for command in fleet["commands"]] == [0.1, 0.2]
    assert speed_table.whole(fleet)["wall"] == pytest.approx(10 + 0.1 * 16 * 230)
    assert speed_table.whole(fleet)["epochs"] == pytest.approx(0.08 * 230)
    assert speed_table.how(fleet) == "line through 20 + 3 and 40 + 6 epochs"


def test_run_folders_can_be_kept(tmp_path, shell):
    measured(tmp_path, "--rows", "fleet-2", "--keep", str(tmp_path / "kept"))
    kept = sorted(path.parent.name for path in (tmp_path / "kept").rglob("result.json"))
    assert kept[-2:] == ["seed0", "seed1"]


def test_shares_can_be_chosen(tmp_path, shell):
    row = measured(tmp_path, "--rows", "fleet-4", "--shares", "0.1", "0.3")["fleet-4"]
    assert [command["epochs"]["stage1"] for command in row["commands"]] == [20, 60]
    assert speed_table.whole(row)["wall"] == pytest.approx(10 + 0.1 * 4 * 230, rel=0.01)


def test_a_line_through_stages_that_are_evaluated_differently_is_refused(tmp_path, shell, capsys):
    """Measured so once, 32 runs seemed to take less time than their epochs."""
    target = ["--write", str(tmp_path / "speed.json")]
    assert speed.main(["--rows", "fleet-4", "--shares", "0.05", "0.1", "--device", "cuda", *target]) == 1
    assert "stage1 would have 10 and 20 epochs" in capsys.readouterr().err


def test_a_table_of_runs_is_shortened_by_its_own_option(tmp_path, shell, monkeypatch):
    monkeypatch.setattr(shell, "runs", lambda words, folder: Shell.runs(shell, [], folder) and 30.0)
    rows = measured(tmp_path, "--rows", "bench", "--time-limit", "5")
    asked = [words for words, _ in shell.commands if "bench" in words]
    assert [words[words.index("--epochs") + 1] for words in asked] == ["20", "40"]
    assert rows["bench"]["runs"] == 30
    assert rows["bench"]["images"] == "random images"


def test_only_a_cold_row_starts_without_kernels(tmp_path, shell):
    measured(tmp_path, "--rows", "fleet-2", "alone-cold", "alone-warm", "--time-limit", "1")
    trained = [(words, kernels) for words, kernels in shell.commands if speed.IMPORTS not in words]
    assert len(shell.commands) - len(trained) == 1  # Python has its bytecode before the cold row too
    first, *rest = [kernels for _, kernels in trained]
    fill, fleet, cold, warm = first, rest[:2], rest[2:4], rest[4:]
    assert set(fleet) == {fill}
    assert len({fill, *cold}) == 3
    assert set(warm) == {cold[-1]}


def test_the_plain_loop_is_measured_over_a_few_epochs(tmp_path, shell):
    row = measured(tmp_path, "--rows", "plain-loop")["plain-loop"]
    found = speed_table.whole(row)
    assert found["epochs"] == (9 + 199 * 4) + (3 + 29 * 2)
    assert found["wall"] == found["epochs"] + 30  # start and cold page cache, as measured
    assert speed_table.how(row) == "4 + 4 epochs, the others alike"


def test_rows_of_several_calls_become_one_record(tmp_path, shell):
    measured(tmp_path, "--rows", "fleet-16", "--time-limit", "1")
    measured(tmp_path, "--rows", "fleet-4", "plain-loop", "alone-cold")
    rows = measured(tmp_path, "--rows", "fleet-16")
    assert list(rows) == ["plain-loop", "alone-cold", "fleet-4", "fleet-16"]
    assert [command["share"] for command in rows["fleet-16"]["commands"]] == [1.0]


def test_a_row_that_fails_leaves_its_old_figures_and_the_next_one_is_measured(tmp_path, shell, monkeypatch, capsys):
    before = measured(tmp_path, "--rows", "fleet-4")

    def fails(words, folder):
        if words.count("--seed") == 4:
            raise whole_command.TailcloudError("out of memory")
        return Shell.runs(shell, words, folder)

    monkeypatch.setattr(shell, "runs", fails)
    file = tmp_path / "speed.json"
    assert speed.main(["--device", "cuda", "--write", str(file), "--rows", "fleet-4", "alone-warm"]) == 1
    assert "fleet-4: out of memory" in capsys.readouterr().err
    alone, fleet = json.loads(file.read_text())["rows"]
    assert alone["row"] == "alone-warm"
    assert fleet == before["fleet-4"]


def test_an_unknown_row_is_a_sentence(tmp_path, shell, capsys):
    for name in ("fleet-1", "quick"):
        assert speed.main(["--rows", name, "--write", str(tmp_path / "x.json")]) == 1
        assert f"--rows {name}: there is no such row; the rows are alone-cold" in capsys.readouterr().err
    assert not shell.commands


def row(name, runs, commands, trains="cifar10-lt/gcl", commit="abc"):
    about = {"command": "tailcloud train", "images": "random images", "epochs": {"stage1": 200, "stage2": 30}}
    origin = {"machine": MACHINE, "commit": commit}
    return {"row": name, "trains": trains, "runs": runs, "commands": commands, **about, **origin}


def command(share, wall, longest, memory=2 * 10**9):
    epochs = {"stage1": round(200 * share), "stage2": round(30 * share)}
    log = {"total": longest, "longest": longest, "epochs": 1}
    return {"share": share, "epochs": epochs, "wall": wall, "memory": memory, "log": log}


def test_the_table_compares_seconds_a_run_with_the_plain_loop():
    seconds = {"stage1": [4.0] * 4, "stage2": [2.0] * 4}
    plain = {"wall": 24.0 + 20.0, "memory": 10**9, "epoch_seconds": seconds}
    rows = [
        row("plain-loop", 1, [plain]),
        row("fleet-16", 16, [command(0.1, 30.0, 5.0), command(0.2, 45.0, 10.0, None)], commit="def"),
        row("bench", 30, [command(1.0, 300.0, 150.0, None)], trains="table1 on cifar100-lt:100"),
    ]
    text = "\n".join(speed_table.parts({"rows": rows})).replace("\u00a0", " ")
    plain, fleet, bench = text.splitlines()[2:5]
    assert plain == (
        "| plain loop | 1 | 14 min 40 s | 880.0 | 1.0 | 14 min 20 s | 2 % | 1.0 | 4 + 4 epochs, the others alike |"
    )
    assert fleet.startswith("| 16 seeds in one command | 16 | 2 min 45 s | 10.3 | 85.3 | 50.0 s | 70 % | 2.0 |")
    assert fleet.endswith("| line through 20 + 3 and 40 + 6 epochs |")
    assert bench == (
        "| a table whose runs share first stages | 30 | 5 min 0 s | 10.0 | n/a | 2 min 30 s | 50 % | n/a | whole |"
    )
    assert "- plain-loop, bench: a GPU, 16 cores, torch 2.11, commit `abc`" in text
    assert "- fleet-16: a GPU, 16 cores, torch 2.11, commit `def`" in text
    assert "- cifar10-lt/gcl, 200 + 30 epochs, random images" in text


def test_a_line_through_the_two_longest_commands():
    commands = [command(0.1, 30.0, 5.0), command(0.4, 50.0, 20.0), command(0.2, 40.0, 10.0)]
    assert speed_table.at_share(commands, 1.0, "wall") == pytest.approx(80.0)
    assert speed_table.at_share(commands, 1.0, "longest") == pytest.approx(50.0)
    assert speed_table.at_share(commands, 0.2, "wall") == 40.0


def test_one_short_command_is_no_figure():
    assert not speed_table.is_complete(row("fleet-4", 4, [command(0.1, 30.0, 5.0)]))
    assert not speed_table.is_complete(row("plain-loop", 1, []))


def test_random_images_have_the_form_of_the_data_set(tmp_path, monkeypatch):
    write_cifar("cifar100", tmp_path)
    found = open_dataset("cifar100-lt:100", str(tmp_path))
    assert (len(found.train), len(found.test), found.shape, found.classes) == (10_847, 10_000, (32, 32, 3), 100)
    write_arrays(tmp_path / "noise.npz", 16, {"train": 40, "test": 20}, 4)
    own = open_dataset(str(tmp_path / "noise.npz"))
    assert (len(own.train), len(own.test), own.shape, own.classes) == (40, 20, (16, 16, 3), 4)


def test_one_real_command(tmp_path):
    """A run on a CPU, shortened to almost nothing, from the shell to the record."""
    file = tmp_path / "speed.json"
    recipe = tmp_path / "short.toml"
    recipe.write_text('data = "digits-lt"\nmethod = "ce"\n[model]\nbackbone = "resnet8"\n[stage1]\nepochs = 2\n')
    assert speed.main(["--recipe", str(recipe), "--rows", "alone-cold", "--write", str(file)]) == 0
    (found,) = json.loads(file.read_text())["rows"]
    (only,) = found["commands"]
    assert only["log"]["epochs"] == 2
    assert 0 < only["log"]["longest"] < only["wall"]
    assert found["machine"]["gpu"] is None
