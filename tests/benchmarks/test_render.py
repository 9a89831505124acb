import importlib.util
import json
from pathlib import Path

import pytest

from tailcloud.recipe import load_recipe, resolve

SOURCE = Path(__file__).parents[2] / "benchmarks" / "render.py"
README = "# tailcloud\n\nbefore\n<!-- results:start -->\nold\n<!-- results:end -->\nafter\n"
RESULTS = "\n".join(f"<!-- {name}:start -->\nold\n<!-- {name}:end -->" for name in ("paper", "datasets"))


def load_render():
    spec = importlib.util.spec_from_file_location("benchmarks_render", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


render = load_render()


def measured(method, seed, *, top1, few, spec="cifar10-lt:100"):
    return {
        "format": 1,
        "method": method,
        "top1": {"last": top1, "best": top1 + 1, "best_on": "test"},
        "many": 90.0,
        "medium": 80.0,
        "few": few,
        "balanced_accuracy": top1,
        "ece": 3.0,
        "per_class": [90.0, 80.0, few],
        "dataset": {"spec": spec, "fingerprint": "0123456789abcdef", "counts": [200, 50, 5]},
        "protocol": {"seed": seed, "selection": "last"},
        "model": {"backbone": "resnet32", "parameters": 464144, "flops": 69_800_000},
        "seconds": 30.0 + seed,
        "device": "cuda",
        "version": "0.1.0",
        "machine": {
            "processor": "a processor",
            "threads": 8,
            "gpu": "a GPU",
            "python": "3.12",
            "torch": "2.11",
            "kernels": "fused",
        },
        "commit": "abcdef1",
        "command": f"tailcloud train cifar10-lt/{method} --seed {seed}",
    }


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "benchmarks" / "results" / "runs"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "docs" / "results.md").write_text(RESULTS)
    numbers = {"ce": [(70.0, 50.0), (72.0, 54.0)], "gcl": [(80.0, 70.0), (83.0, 76.0)]}
    for method, values in numbers.items():
        for seed, (top1, few) in enumerate(values):
            text = json.dumps(measured(method, seed, top1=top1, few=few))
            (folder / f"cifar10-lt-100-{method}-seed{seed}.json").write_text(text)
    return tmp_path


def test_the_page_has_every_number_of_the_runs(root):
    assert render.main([], root) == 0
    page = (root / "docs" / "results.md").read_text()
    gcl, ce = (line for line in page.splitlines() if line.startswith(("| ce |", "| gcl |")))
    assert ce == (
        "| ce | 2 | 71.0 ± 1.4 | 72.0 ± 1.4 on test | 90.0 ± 0.0 | 80.0 ± 0.0 | 52.0 ± 2.8 | 3.0 ± 0.0 "
        "| 464,144 | 69.8\u00a0M | 30.5 ± 0.7 |"
    )
    assert "| gcl | 2 | 81.5 ± 2.1 |" in gcl
    assert "In the few-shot classes gcl gains +21.0 ± 1.4 points over ce (2 seeds, seed by seed)." in page
    for words in ("a GPU", "a processor", "torch 2.11", "abcdef1", "0123456789abcdef", "Ahead: highest top-1: `gcl`"):
        assert words in page


def test_the_readme_keeps_what_is_around_the_block(root):
    render.main([], root)
    text = (root / "README.md").read_text()
    assert text.startswith("# tailcloud\n\nbefore\n<!-- results:start -->\n")
    assert text.endswith("<!-- results:end -->\nafter\n")
    assert "old" not in text
    assert "| GCL (the default) | 81.5 ± 2.1 (2 seeds) |" in text
    assert "above `gcl`" not in text


def test_the_readme_names_methods_that_are_ahead_of_gcl(root):
    folder = root / "benchmarks" / "results" / "runs"
    for seed in range(3):
        for method, top1 in {"mislas": 84.0, "lade": 90.0}.items():
            record = json.dumps(measured(method, seed, top1=top1 + seed, few=1.0))
            (folder / f"cifar10-lt-100-{method}-seed{seed}.json").write_text(record)
    assert render.main([], root) == 0
    text = (root / "README.md").read_text()
    assert "| MisLAS | 85.0 ± 1.0 |" in text
    assert "In their usual settings, above `gcl` by mean: cifar10-lt:100: `lade`, `mislas`." in text


def test_the_readme_has_averages_of_seeds_in_its_last_row(root):
    """Those of students are not: the row is about their teachers."""
    for name, recipe, top1 in (("ce", {}, 91.25), ("taught", {"distill": {"teachers": ["a"]}}, 95.0)):
        average = measured("average of 3 runs of ce", 0, top1=top1, few=44.0)
        average["protocol"]["seed"] = None
        average["model"]["members"] = [{"run": f"seed{seed}", "sha256": "0", "seed": seed} for seed in range(3)]
        average["recipe"] = load_recipe("cifar10-lt/ce").model_dump(exclude_none=True) | recipe
        (root / "benchmarks" / "results" / f"average-cifar10-lt-100-{name}.json").write_text(json.dumps(average))
    assert render.main([], root) == 0
    text = (root / "README.md").read_text()
    assert "| these three as one model (`tailcloud average`, three times the parameters) | 91.2 |" in text


def test_an_average_is_added_under_a_name_of_its_own(root):
    average = measured("average of 3 runs of ce", 0, top1=91.25, few=44.0)
    average["protocol"]["seed"] = None
    average["model"]["members"] = [{"run": f"seed{seed}", "sha256": "0", "seed": seed} for seed in range(3)]
    average["recipe"] = load_recipe("cifar10-lt/ce").model_dump(exclude_none=True)
    run = root / "average"
    run.mkdir()
    (run / "result.json").write_text(json.dumps(average))
    before = sorted(path.name for path in (root / "benchmarks" / "results" / "runs").iterdir())
    assert render.main(["--add", str(run)], root) == 0
    assert (root / "benchmarks" / "results" / "average-cifar10-lt-100-ce.json").is_file()
    assert sorted(path.name for path in (root / "benchmarks" / "results" / "runs").iterdir()) == before


def test_the_page_says_where_a_recipe_leaves_its_method(root):
    render.main([], root)
    assert "method's own" not in (root / "docs" / "results.md").read_text()
    for path in (root / "benchmarks" / "results" / "runs").glob("*.json"):
        record = json.loads(path.read_text())
        recipe = resolve({"method": record["method"], "seed": record["protocol"]["seed"], "data": "cifar10-lt:100"})
        record["recipe"] = recipe.substance()
        if record["method"] == "gcl":
            record["recipe"]["stage1"] |= {"mixup": 0.4, "epochs": 60}
        path.write_text(json.dumps(record))
    render.main([], root)
    page = (root / "docs" / "results.md").read_text()
    unfolded = page.split("<summary>Settings that differ from the method's own: 1 row</summary>\n")[1].split(
        "</details>"
    )[0]
    settings = "stage1.epochs = 60 instead of 200, stage1.mixup = 0.4 instead of 1.0"
    assert unfolded == f"<ul>\n<li><code>gcl</code>: {settings}</li>\n</ul>\n"
    assert "Every row" not in page


def test_what_all_rows_share_is_said_once(root):
    """And not in the list, which no blank line interrupts: Markdown would end the HTML there."""
    for path in (root / "benchmarks" / "results" / "runs").glob("*.json"):
        record = json.loads(path.read_text())
        recipe = resolve({"method": record["method"], "seed": record["protocol"]["seed"], "data": "cifar10-lt:100"})
        record["recipe"] = recipe.substance()
        record["recipe"]["augment"]["flip"] = True
        record["recipe"]["stage1"]["epochs"] = 50 if record["method"] == "gcl" else 60
        path.write_text(json.dumps(record))
    render.main([], root)
    page = (root / "docs" / "results.md").read_text()
    assert "Every row has settings other than its method's own: augment.flip = True instead of False.\n" in page
    assert page.count("augment.flip") == 1
    block = page.split("<details>")[1].split("</details>")[0]
    assert block.count("<li>") == 2
    assert "\n\n" not in block


def give_recipe(root, name, **settings):
    """Put the recipe of a shipped name into the records of its method."""
    for path in (root / "benchmarks" / "results" / "runs").glob("*.json"):
        record = json.loads(path.read_text())
        if record["method"] == name:
            where = {"data": "cifar10-lt:100", "seed": record["protocol"]["seed"]}
            record["recipe"] = load_recipe(f"cifar10-lt/{name}", [settings, where]).substance()
            path.write_text(json.dumps(record))


def test_the_papers_tables_stand_beside_what_was_measured(root):
    give_recipe(root, "gcl")
    assert render.main([], root) == 0
    page = (root / "docs" / "results.md").read_text()
    section = page.split("## Table 1")[1].split("### cifar10-lt:100")[1].split("###")[0]
    assert "| GCL | 2 | 81.5 ± 2.1 | 82.68 | −1.2 ▼ | 82.5 ± 2.1 on test |" in section
    assert "- Not measured: CE (published: 70.70); CE + mixup (published: 72.96); " in section  # CE has no recipe
    assert "| CB | 2 | 81.5 ± 2.1 | 82.43 | −0.9 |" in page.split("## Table 4")[1]
    assert "imagenet-lt is not measured" in page
    assert "81.5 ± 2.1" in (root / "docs" / "tables.html").read_text()


def test_a_variant_has_a_name_of_its_own_and_a_row_in_its_table(root, capsys):
    give_recipe(root, "gcl", stage2={"sampler": "cben"})
    assert render.main([], root) == 1
    assert "holds the run of cifar10-lt-100-gcl-cben-seed" in capsys.readouterr().err
    folder = root / "benchmarks" / "results" / "runs"
    for seed in (0, 1):
        (folder / f"cifar10-lt-100-gcl-seed{seed}.json").rename(folder / f"cifar10-lt-100-gcl-cben-seed{seed}.json")
    assert render.main([], root) == 0
    page = (root / "docs" / "results.md").read_text()
    assert "| CBEN | 2 | 81.5 ± 2.1 | 82.68 |" in page.split("## Table 4")[1]
    assert "| gcl-cben | 2 | 81.5 ± 2.1 |" in page.split("\n## cifar10-lt:100")[1]
    assert "| GCL | – |" in page.split("### cifar10-lt:100")[0]  # nothing is measured there, and all is shown


def test_a_run_with_held_out_images_is_kept_apart(root):
    run = root / "run"
    run.mkdir()
    record = measured("gcl", 0, top1=40.0, few=10.0)
    record["protocol"]["split"] = 0.1
    record["dataset"]["images"] = {"train": 90, "val": 10, "test": 50}
    mixes = {mix: {"plain": 50.0, "adjusted": 60.0} for mix in ("forward", "uniform", "backward")}
    record |= {"calibrated": {"temperature": 1.5, "ece": 2.0, "before": {"ece": 9.0}}, "priors": mixes}
    (run / "result.json").write_text(json.dumps(record))
    page = root / "docs" / "predict.md"
    page.write_text("before\n<!-- calibration:start -->\nold\n<!-- calibration:end -->\nafter\n")
    assert render.main(["--add", str(run)], root) == 0
    assert (root / "benchmarks" / "results" / "calibration-cifar10-lt-100-gcl-seed0.json").is_file()
    assert "| `gcl` | 1.50 | 9.0 | 2.0 | 50.0 → 60.0 |" in page.read_text()
    assert "| gcl | 2 | 81.5 ± 2.1 |" in (root / "docs" / "results.md").read_text()  # as before


def test_a_damaged_record_is_a_sentence_with_its_file(root, capsys):
    record = root / "benchmarks" / "results" / "runs" / "cifar10-lt-100-ce-seed0.json"
    record.write_text('{"format": 1}')
    assert render.main([], root) == 1
    assert capsys.readouterr().err.startswith(f"{record} is damaged")
    (root / "run").mkdir()
    (root / "run" / "result.json").write_text('{"format": 1}')
    assert render.main(["--add", str(root / "run")], root) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{root / 'run' / 'result.json'} is damaged")
    assert said.count("\n") == 1


def test_check_writes_nothing_and_fails_until_the_files_are_right(root, capsys):
    assert render.main(["--check"], root) == 1
    assert "results.md is out of date" in capsys.readouterr().err
    assert (root / "docs" / "results.md").read_text() == RESULTS
    assert render.main([], root) == 0
    assert render.main(["--check"], root) == 0
    page = root / "docs" / "results.md"
    page.write_text(page.read_text().replace("81.5", "91.5"))
    assert render.main(["--check"], root) == 1


def test_a_file_under_another_name_is_refused(root, capsys):
    folder = root / "benchmarks" / "results" / "runs"
    (folder / "cifar10-lt-100-ce-seed0.json").rename(folder / "cifar10-lt-100-ce-seed7.json")
    assert render.main([], root) == 1
    assert "holds the run of cifar10-lt-100-ce-seed0.json" in capsys.readouterr().err


@pytest.mark.parametrize("readme", ["", "<!-- results:start -->", README + README])
def test_a_readme_without_one_block_is_a_sentence(root, capsys, readme):
    (root / "README.md").write_text(readme)
    assert render.main([], root) == 1
    assert "needs one block" in capsys.readouterr().err


def test_no_runs_is_a_sentence(root, capsys):
    for path in (root / "benchmarks" / "results" / "runs").iterdir():
        path.unlink()
    assert render.main([], root) == 1
    assert "there are no runs" in capsys.readouterr().err


def test_a_method_alone_has_no_gain(root):
    for path in (root / "benchmarks" / "results" / "runs").glob("*-ce-*"):
        path.unlink()
    assert render.main([], root) == 0
    assert "gains" not in (root / "docs" / "results.md").read_text()


def scale_record():
    fixed = {"format": 1, "batch": 64, "labels": 10_000_000, "classes": 8142}
    curve = {"piece": "GCL loss", "along": "classes", "sizes": [10, 1000], "seconds": [0.0001, 0.0123]}
    curve |= {"bytes": [5_000, 51_200_000], "growth": {"seconds": [1.045], "bytes": [1.0]}}
    return {**fixed, "curves": [curve], "machine": {"processor": "a processor", "torch": "2.13"}, "commit": "abcdef1"}


def test_the_page_on_scaling_has_the_scale_tables(root):
    (root / "benchmarks" / "results" / "scale-cpu.json").write_text(json.dumps(scale_record()))
    page = root / "docs" / "scaling.md"
    scaling = "\n<!-- scaling:start -->\n<!-- scaling:end -->"
    page.write_text("before\n<!-- scale-cpu:start -->\nold\n<!-- scale-cpu:end -->" + scaling + "\nafter\n")
    assert render.main([], root) == 0
    text = page.read_text()
    assert "|  | ms with 10 | 1,000 classes | steepest growth | MB at most | steepest growth |" in text
    assert "| GCL loss | 0.10 | 12 | 1.04 | 51 | 1.00 |" in text
    assert "a processor, one thread, torch 2.13, commit `abcdef1`. Growing classes with 10,000,000 labels" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    page.write_text("no block")
    assert render.main([], root) == 1


def epoch_speed_record():
    row = {"name": "eager", "executor": "eager", "reason": None}
    row |= {"seconds": {"stage1": 0.5, "stage2": 0.25}, "start": 0.1, "memory": 5e8}
    problem = {
        "recipe": "digits-lt gcl",
        "backbone": "resnet8",
        "images": {"train": 331, "test": 500},
        "epochs": {"stage1": 60, "stage2": 10},
        "peak": {"flops": 2e11, "bytes": 1e10, "source": "measured"},
        "floor": {"arithmetic": 3.25, "memory": 0.65},
        "rows": [row | {"name": "plain loop", "seconds": {"stage1": 1.0, "stage2": 0.5}}, row],
    }
    machine = {"processor": "a processor", "gpu": None, "torch": "2.13"}
    about = {"format": 1, "warm_up": 1, "epochs": 3, "repeats": 2, "cores": 2, "machine": machine, "commit": "abcdef1"}
    return about | {"problems": [problem]}


def ablation_record():
    found = {"digits-lt": {"ms": 7.0, "ratio": 1.25, "pairs": 9}}
    change = {"name": "a change", "predicted": "much", "taken": True, "problems": found}
    idea = {"name": "an idea", "predicted": "little", "taken": False, "problems": {"digits-lt": {"ratio": 0.99}}}
    machine = {"processor": "a processor", "torch": "2.13"}
    return {"format": 1, "changes": [change, idea], "machine": machine, "commit": "abcdef1"}


def test_the_page_on_performance_has_the_tables_of_epochs(root):
    records = {"epoch-speed-cpu": epoch_speed_record(), "ablation-cpu": ablation_record()}
    for name, record in records.items():
        (root / "benchmarks" / "results" / f"{name}.json").write_text(json.dumps(record))
    page = root / "docs" / "performance.md"
    page.write_text("\n".join(f"<!-- {name}:start -->\nold\n<!-- {name}:end -->" for name in records))
    assert render.main([], root) == 0
    text = page.read_text()
    assert "| eager | 0.500 | 0.250 | 0.1 | 32.5\u00a0s | 2.00 | 500 | 10.0\u00a0% | 2.0\u00a0% |" in text
    assert "331 training and 500 test images, a whole run is 60 + 10 epochs" in text
    assert "so a run takes at least 3.25 s by arithmetic and 0.650 s by memory" in text
    assert "a processor, 2 cores, torch 2.13, commit `abcdef1`; 1 epochs of warm-up, 3 that count" in text
    assert "| a change | much | +25\u00a0% |" in text
    assert "| an idea | little | −1\u00a0% |" in text


def test_every_cell_that_is_marked_has_a_sentence():
    results = render.read_results(render.ROOT / "benchmarks" / "results" / "runs")
    cells = [
        cell
        for name in render.PAPER_TABLES
        for cell in render.fill_from_records(render.read_table(name), results).cells
    ]
    assert any(cell.below for cell in cells)
    assert [f"{cell.row.key} {cell.spec}" for cell in cells if cell.below and not cell.note] == []


def test_a_recipe_has_the_figures_of_its_own_settings_only(root):
    recipes = root / "src" / "tailcloud" / "recipes" / "cifar10-lt"
    recipes.mkdir(parents=True)
    text = '# tailcloud train\ndata = "cifar10-lt:100"\nmethod = "ce"\n[stage1]\nepochs = {}\n'
    for epochs in (200, 300):
        (recipes / f"{epochs}.toml").write_text(text.format(epochs))
    record = measured("ce", 7, top1=61.0, few=1.0)
    record["recipe"] = resolve({"data": "cifar10-lt:100", "method": "ce", "stage1": {"epochs": 300}}).model_dump(
        exclude_none=True
    )
    for file in (root / "benchmarks" / "results" / "runs").glob("cifar10-lt-100-ce-*"):
        file.unlink()
    (root / "benchmarks" / "results" / "runs" / "cifar10-lt-100-ce-seed7.json").write_text(json.dumps(record))
    assert render.main([], root) == 0
    said = {epochs: (recipes / f"{epochs}.toml").read_text().splitlines()[1] for epochs in (200, 300)}
    assert said[200] == "# Not measured with this version yet."
    assert said[300].startswith("# top-1 61.0")


def test_a_recipe_that_says_nothing_yet_keeps_all_its_lines(root):
    recipe = root / "src" / "tailcloud" / "recipes" / "cifar10-lt" / "gcl.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text('# tailcloud train cifar10-lt/gcl\ndata = "cifar10-lt:100"\nmethod = "gcl"\n')
    for _ in range(2):
        assert render.main([], root) == 0
        first, second, *others = recipe.read_text().splitlines()
        assert second.startswith("# top-1 81.5")
        assert (first, others) == ("# tailcloud train cifar10-lt/gcl", ['data = "cifar10-lt:100"', 'method = "gcl"'])
