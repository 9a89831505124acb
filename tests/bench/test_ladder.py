"""The ladder: rungs over each other, twice each; and rows that learn from the run of another row."""

import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError
from recorded_results import cell_recipe_text, recipe_text, result_recipe_text

import tailcloud.bench
from helpers.command_line import printed
from helpers.small_table import measured, table
from tailcloud.bench import BenchProtocol, filter_table, plan_bench, read_table
from tailcloud.bench.bench_runner import needed_runs
from tailcloud.bench.plan import in_order, steps_of
from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder

OUT = Path("out")
EXPERTS = ["model.experts=2", "stage1.objective=experts", "stage1.objective.taus=[0.0, 2.0]"]
ROWS = [
    {"label": "Distilled", "method": "ce", "variant": "distilled", "over": "", "teacher": "ce-experts"},
    {"label": "CE", "method": "ce", "set": ["stage1.lr=0.05"]},
    {"label": "Experts", "method": "ce", "variant": "experts", "over": "ce", "set": EXPERTS},
]


def test_every_rung_is_there_twice_with_a_recipe_for_every_column():
    ladder = read_table("ladder")
    plan = plan_bench(ladder, BenchProtocol(seeds=(0, 1, 2)), OUT)
    assert plan.impossible == {}
    assert len(plan.runs) == len(ladder.rows) * 2 * 3
    by_method = {
        method: [row for row in ladder.rows if row.method == method]
        for method in dict.fromkeys(r.method for r in ladder.rows)
    }
    assert list(by_method) == ["gcl", "logit-adjust", "gcl-angular", "gcl-logit-adjust", "vs", "bcl", "proco"]
    gcl, other = by_method["gcl"], by_method["logit-adjust"]
    assert [row.variant for row in gcl] == [row.variant for row in other]
    for one, two in zip(gcl, other, strict=True):
        assert one.over.removeprefix("gcl") == two.over.removeprefix("logit-adjust")
        assert [word for word in one.settings if ".mixup=" not in word] == list(two.settings)
        assert one.label.removeprefix("GCL") == two.label.removeprefix("Logit adjustment")


def test_a_rung_has_the_settings_of_the_one_below_it():
    ladder = read_table("ladder")
    rows = {row.key: row for row in ladder.rows}
    for row in ladder.rows:
        below = rows[row.over].settings if row.over else ()
        assert row.settings[: len(below)] == below
    runs = plan_bench(ladder, BenchProtocol(seeds=(4,)), OUT).runs
    last = next(run.recipe for run in reversed(runs) if run.row.key == "logit-adjust-distilled")
    assert last.stage1.optimizer.options == {"nesterov": True}
    assert (last.stage1.epochs, last.stage1.ema, last.stage1.weight_decay) == (400, 0.999, 5e-4)
    assert (last.augment.auto_augment, last.augment.cutout, last.stage1.mixup) == ("cifar", 16, 0.0)
    assert (last.model.experts, last.distill.teachers) == (1, ["out/cifar100-lt-100-logit-adjust-experts-seed4"])
    assert [round(share * last.stage1.epochs) for share in last.stage1.milestones] == [320, 360]


@pytest.mark.parametrize("method", ["bcl", "proco"])
def test_contrasts_with_clouds_keep_their_logit_adjustment(method):
    runs = plan_bench(read_table("ladder"), BenchProtocol(seeds=(0,)), OUT).runs
    clouded, plain = (
        next(run.recipe for run in runs if run.row.key == key).stage1.loss for key in (f"{method}-clouds", method)
    )
    assert (clouded.name, clouded.options["tau"]) == ("gcl", plain.options["tau"]) == ("gcl", 1.0)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"label": "A", "method": "ce", "over": "gcl"}], 'A is over "gcl", which is no earlier row'),
        ([{"label": "A", "method": "ce", "over": "ce"}], 'A is over "ce", which is no earlier row'),
        ([{"label": "A", "method": "ce", "teacher": "gcl"}], 'A has the teacher "gcl", which is no row'),
        ([{"label": "A", "method": "ce", "teacher": "ce"}], 'A has the teacher "ce", which is no row'),
        ([{"label": "A", "method": "ce", "teacher_seeds": [0]}], "A has teacher_seeds and no teacher"),
    ],
)
def test_a_row_that_names_no_row_is_refused(rows, sentence):
    with pytest.raises(ValidationError, match=sentence):
        table(rows=rows)


def test_a_teacher_is_trained_before_its_students_wherever_it_stands(tmp_path):
    runs = plan_bench(table(rows=ROWS, columns=["digits-lt"]), BenchProtocol(seeds=(0, 1)), tmp_path).runs
    ordered = in_order(steps_of(runs))
    names = [step.run.folder.path.name for step in ordered]
    waits = needed_runs(ordered)
    for number, (name, after) in enumerate(zip(names, waits, strict=True)):
        if "distilled" not in name:
            assert after is None
        else:
            (job,) = after.jobs
            assert job < number
            assert names[job] == name.replace("distilled", "experts")
            assert not after.ready()


def test_a_student_of_several_waits_for_all_of_them(tmp_path):
    rows = [ROWS[0] | {"teacher": "ce", "teacher_seeds": [0, 2], "set": ["distill.temperature=2.0"]}, ROWS[1]]
    runs = plan_bench(table(rows=rows, columns=["digits-lt"]), BenchProtocol(seeds=(0, 1, 2)), tmp_path).runs
    assert len(runs) == 6
    students = [run.recipe for run in runs if run.recipe.distill]
    expected = [str(tmp_path / f"digits-lt-ce-seed{seed}") for seed in (0, 2)]
    assert [student.distill.teachers for student in students] == [expected] * 3
    assert {student.distill.temperature for student in students} == {2.0}
    ordered = in_order(steps_of(runs))
    names = [step.run.folder.path.name for step in ordered]
    waits = [after for after in needed_runs(ordered) if after]
    assert [[names[job] for job in after.jobs] for after in waits] == [["digits-lt-ce-seed0", "digits-lt-ce-seed2"]] * 3
    trained = [step for step in ordered if step.run.folder.path.name != "digits-lt-ce-seed2"]  # by an earlier bench
    names = [step.run.folder.path.name for step in trained]
    waits = [after for after in needed_runs(trained) if after]
    assert [[names[job] for job in after.jobs] for after in waits] == [["digits-lt-ce-seed0"]] * 3


def test_a_student_comes_after_a_teacher_that_waits_for_a_first_stage(tmp_path):
    rows = [
        {"label": "Taught", "method": "ce", "variant": "taught", "over": "", "teacher": "crt"},
        {"label": "cRT", "method": "crt"},
        {"label": "CE", "method": "ce"},
    ]
    runs = plan_bench(table(rows=rows, columns=["digits-lt"]), BenchProtocol(seeds=(0,)), tmp_path).runs
    ordered = in_order(steps_of(runs))
    assert [step.run.row.key for step in ordered] == ["ce", "crt", "ce-taught"]
    assert [after and list(after.jobs) for after in needed_runs(ordered)] == [None, [0], [1]]


TAUGHT_BY_TWO = [ROWS[0] | {"teacher": "ce", "teacher_seeds": [0, 2]}, ROWS[1]]


def test_teachers_of_other_seeds_are_trained_too(tmp_path):
    small = table(rows=TAUGHT_BY_TWO, columns=["digits-lt"])
    plan = plan_bench(small, BenchProtocol(seeds=(0,)), tmp_path)
    names = [run.folder.path.name for run in plan.runs]
    assert names == ["digits-lt-ce-distilled-seed0", "digits-lt-ce-seed0", "digits-lt-ce-seed2"]
    assert plan.runs[-1].recipe.seed == 2
    assert plan.impossible == {}


@pytest.mark.parametrize("seeds", [[], [0, 2]])
def test_a_teacher_without_a_recipe_takes_its_students_with_it_and_nobody_else(tmp_path, seeds):
    rows = [
        {"label": "Taught", "method": "ce", "variant": "taught", "teacher": "nobodys", "teacher_seeds": seeds},
        {"label": "Nobody's", "method": "nobodys"},
        {"label": "CE", "method": "ce"},
    ]
    plan = plan_bench(table(rows=rows, columns=["digits-lt"]), BenchProtocol(seeds=(0,)), tmp_path)
    assert [run.row.key for run in plan.runs] == ["ce"]
    reason = plan.impossible["ce-taught", "digits-lt"]
    assert reason.startswith("it learns from digits-lt-nobodys-seed0")
    assert 'which cannot be trained: there is no method "nobodys"' in reason


def test_a_student_whose_teachers_are_not_trained_is_no_part_of_the_plan(tmp_path):
    small = filter_table(table(rows=TAUGHT_BY_TWO, columns=["digits-lt"]), ["Distilled"])
    with pytest.raises(
        UsageError,
        match="it learns from digits-lt-ce-seed0, digits-lt-ce-seed2, which this bench does not train; add --only ce",
    ):
        plan_bench(small, BenchProtocol(seeds=(0,)), tmp_path)
    for seed in (0, 2):
        teacher = tmp_path / f"digits-lt-ce-seed{seed}"
        teacher.mkdir()
        for name in ("result.json", "model.json", "model.safetensors"):  # of an earlier bench
            (teacher / name).write_text("")
    assert len(plan_bench(small, BenchProtocol(seeds=(0,)), tmp_path).runs) == 1


def test_a_student_without_the_teacher_of_its_own_seed_is_no_part_of_the_plan(tmp_path):
    small = filter_table(table(rows=ROWS, columns=["digits-lt"]), ["Distilled"])
    with pytest.raises(UsageError, match=r"learns from digits-lt-ce-experts-seed1, which .* add --only ce-experts"):
        plan_bench(small, BenchProtocol(seeds=(1,)), tmp_path)


@pytest.mark.parametrize("data", ["cifar10-lt", "cifar100-lt"])
def test_the_recipe_that_is_called_best_is_a_row_of_beyond_and_of_the_ladder(data):
    best = recipe_text(load_recipe(f"{data}/best").training_substance())
    for name in ("beyond", "ladder"):
        (row,) = [row for row in read_table(name).rows if row.key == "logit-adjust-cosine"]
        assert cell_recipe_text(row, f"{data}:100") == best


def test_a_record_is_found_wherever_its_teacher_was(tmp_path):
    row = table(rows=ROWS, columns=["digits-lt"]).rows[0]
    made = plan_bench(table(rows=ROWS, columns=["digits-lt"]), BenchProtocol(seeds=(7,)), tmp_path / "elsewhere").runs[
        0
    ]
    result = measured(7, 50.0, recipe=made.recipe.substance())
    assert result_recipe_text(result) == cell_recipe_text(row, "digits-lt")
    plain = measured(
        7, 50.0, recipe=plan_bench(table(), BenchProtocol(seeds=(7,)), tmp_path).runs[0].recipe.substance()
    )
    assert result_recipe_text(plain) != cell_recipe_text(row, "digits-lt")


def test_a_table_with_teachers_fills_in_one_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tailcloud.bench, "read_table", lambda name: table(name=name, rows=ROWS, columns=["digits-lt"]))
    words = ["bench", "ladder", "--epochs", "1", "--set", "model.width=0.25", "--seed", "0", "--seed", "1"]
    words += ["--device", "cpu", "--out", "bench"]
    printed(words)
    folders = {path.parent.name: RunFolder(path.parent) for path in Path("bench").rglob("recipe.toml")}
    assert len(folders) == 6
    for seed in (0, 1):
        student, teacher = (folders[f"digits-lt-ce-{kind}-seed{seed}"] for kind in ("distilled", "experts"))
        assert [each.run for each in student.result().model.teachers] == [str(teacher.path)]
        assert student.result().model.backbone == "resnet8"
    shutil.rmtree(folders["digits-lt-ce-experts-seed0"].path)
    printed([*words, "--only", "Distilled"])  # finished runs need no teacher
