import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

import tailcloud
from helpers.html_page import Page
from helpers.synthetic_runs import make_log, make_result, write_run
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.reporting import write_report
from tailcloud.reporting.render import SCRIPTS

TEMPLATES = Path(tailcloud.__file__).parent / "reporting" / "templates"
SCRIPT = "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in SCRIPTS)


def page_of(tmp_path, result, log=None):
    path = write_report([write_run(tmp_path / "run", result, log)])
    assert path == tmp_path / "run" / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("classes", [10, 100, 1000])
def test_a_page_is_balanced_small_and_alone(tmp_path, classes, stages):
    text = page_of(tmp_path, make_result(classes, stages=stages))
    page = Page(text)
    assert len(text) < 5_000_000
    assert page.scripts == [SCRIPT]
    assert not [value for name, value in page.attributes if name in {"src", "href", "srcset", "action"}]
    assert not re.search(r"https?://|@import|url\(", text)
    assert not re.search(r"\b[Nn]a[Nn]\b|\bNone\b|\binf\b", page.text)
    assert page.tags.count("h1") == 1
    assert len([value for name, value in page.attributes if name == "aria-label" and value]) >= page.tags.count(
        "figure"
    )


def test_the_page_allows_its_own_script_and_no_other(tmp_path):
    page = Page(page_of(tmp_path, make_result(10)))
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in page.policy
    assert page.policy.startswith("default-src 'none';")


def test_ids_are_unique_and_labels_point_to_them(tmp_path):
    page = Page(page_of(tmp_path, make_result(10)))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value for name, value in page.attributes if name == "aria-labelledby"} <= set(ids)


def test_the_headline_is_a_sentence(tmp_path):
    result = make_result(10) | {"few": 87.84}
    result["top1"]["last"] = 92.61
    text = Page(page_of(tmp_path, result)).text
    right = "synthetic-10, 10 classes: 92.6 % of 500 test images classified correctly"
    assert f"{right}; 87.8 % in few-shot classes" in text


def test_the_numbers_are_those_of_the_result(tmp_path):
    result = make_result(10)
    text = Page(page_of(tmp_path, result)).text
    for key in ("balanced_accuracy", "macro_f1", "top5", "many", "medium", "few"):
        assert f"{result[key]:.1f} %" in text
    assert f"{result['calibrated']['ece']:.1f} %" in text
    for value in (result["top1"]["last"], result["top1"]["best"], *result["per_class"]):
        assert f"{value:.1f}" in text
    for stage in result["stages"]:
        assert all(f"{value:.1f}" in text for value in stage["per_class"])
    for words in ("77,824", "1.23 M", "0123456789abcdef", "2026-11-15 09:00 UTC", "a processor", "stage2, epoch 7"):
        assert words in text
    assert result["command"] in text
    assert result["remarks"][0] in text
    assert "epochs = 60" in text


def test_every_tile_has_its_own_number(tmp_path):
    keys = {"balanced_accuracy": "Balanced accuracy", "macro_f1": "Macro F1", "top5": "Top-5", "ece": "ECE"}
    keys |= {group: f"{group.capitalize()}-shot" for group in ("many", "medium", "few")}
    result = make_result(10) | {key: 10.1 + place for place, key in enumerate(keys)}
    result["top1"] |= {"last": 50.1, "best": 60.1}
    result["calibrated"]["ece"], result["ece"] = result["ece"], 99.9
    text = Page(page_of(tmp_path, result)).text
    assert "Top-1, last epoch 50.1 %" in text
    for place, label in enumerate(keys.values()):
        assert f"{label} {10.1 + place:.1f} %" in text
    assert "last 50.1 %" in text
    assert "best 60.1 %" in text


def test_a_group_says_how_many_test_images_its_accuracy_is_of(tmp_path):
    result = make_result(classes=10)
    few = sum(count < 20 for count in result["dataset"]["counts"])
    tests = [50] * (10 - few) + [3] * (few - 1) + [0]
    result["dataset"]["test_counts"] = tests
    text = Page(page_of(tmp_path, result)).text
    assert f"{few} classes with fewer than 20 training images; {3 * (few - 1)} test images of {few - 1} classes" in text
    del result["dataset"]["test_counts"]
    assert "classes with fewer than 20 training images;" not in Page(page_of(tmp_path / "old", result)).text


def test_the_sections_come_in_their_order(tmp_path):
    text = page_of(tmp_path, make_result(10))
    headings = ["numbers", "data", "training", "accuracy", "errors", "worst", "use", "protocol", "remarks", "again"]
    assert re.findall(r'<h2 id="(\w+)"', text) == headings


@pytest.mark.parametrize(
    ("split", "words"), [("test", "chosen on the test set"), ("val", "chosen on the validation set")]
)
def test_the_best_epoch_is_labelled_with_its_split(tmp_path, split, words):
    result = make_result(10)
    result["top1"]["best_on"] = split
    text = Page(page_of(tmp_path, result)).text
    assert words in text
    assert ("optimistic" in text) == (split == "test")


def test_the_best_epoch_says_which_epochs_were_evaluated(tmp_path):
    result = make_result(10)
    assert "evaluated epochs all" in Page(page_of(tmp_path / "all", result)).text
    result["protocol"]["every"] = 25
    assert "evaluated epochs every 25 epochs, and the last" in Page(page_of(tmp_path / "old", result)).text
    result["protocol"]["every"], result["top1"]["evaluated_epochs"] = "auto", 4
    for stage, number in zip(result["stages"], (16, 4), strict=True):
        stage["best"]["evaluated_epochs"] = number
    text = Page(page_of(tmp_path / "some", result)).text
    assert "stage2, epoch 7: best of 4 evaluated epochs, chosen on the test set" in text.replace("\u00a0", " ")
    assert "evaluated epochs 16 of 60 + 4 of 10" in text


@pytest.mark.parametrize(("split", "words"), [("test", "the test set optimistic"), ("val", "the validation set")])
def test_kept_weights_stand_apart_from_the_last_epoch(tmp_path, split, words):
    result = make_result(10, picked_on=split)
    result["top1"] |= {"last": 50.1, "best_on": split}
    result["picked"] |= {"top1": 61.2, "many": 62.3, "medium": 63.4, "few": 64.5}
    text = Page(page_of(tmp_path, result)).text
    groups = "many 62.3 %, medium 63.4 %, few 64.5 %"
    assert f"Kept weights: stage2 epoch 7 , chosen on {words} : top-1 61.2 %, {groups}" in text.replace(
        "validation set:", "validation set :"
    )
    kept = f"kept 61.2 % kept weights: stage2 epoch 7, chosen on {words} ; {groups}"
    assert kept in text.replace("validation set;", "validation set ;")
    assert "Top-1, last epoch 50.1 %" in text
    assert "not chosen" not in text
    assert f"stage2 started from epoch 40 of stage1, chosen on {words}" in text


def test_a_last_stage_without_epochs_has_none_that_was_chosen(tmp_path):
    result = make_result(10)
    result["top1"] |= {"best_on": "test", "best_epoch": {"stage": "stage3", "epoch": 0}}
    page = page_of(tmp_path, result)
    assert "not chosen: stage3 has no epochs" in page
    assert "chosen on the test set itself" not in page


def test_weights_of_two_stages_without_epochs_were_chosen_in_the_one_before_them(tmp_path):
    result = make_result(10, stages=1, picked_on="val")
    (trained,) = result["stages"]
    changes = [{**trained, "name": name, "epochs": 0, "picked": None} for name in ("stage2", "stage3")]
    text = Page(page_of(tmp_path, result | {"picked": None, "stages": [trained, *changes]})).text
    assert "stage3 started from epoch 40 of stage1, chosen on the validation set" in text


def test_a_single_stage_ended_where_nobody_chose(tmp_path):
    text = Page(page_of(tmp_path, make_result(10, stages=1, picked_on="test"))).text
    assert "the end of training; not chosen" in text
    assert "Kept weights: stage1 epoch 40" in text


def test_a_last_epoch_is_not_called_kept(tmp_path):
    text = Page(page_of(tmp_path, make_result(10))).text
    assert "the end of training; not chosen" in text
    assert "ept weights" not in text


def test_untrusted_text_is_escaped_everywhere(tmp_path):
    evil = "<script>alert('x')</script>\"><img src=x onerror=y>&"
    result = make_result(10, class_names=[evil] * 10, spec=evil, picked_on="test")
    result |= {"method": evil, "command": evil, "remarks": [evil], "device": evil, "commit": evil}
    result["machine"] |= {"processor": evil, evil: evil}
    result["stages"][0]["name"] = result["stages"][1]["name"] = evil
    result["top1"]["best_on"] = evil
    result["picked"]["on"] = result["stages"][0]["picked"]["on"] = result["protocol"]["selection"] = evil
    result["recipe"] = {"stage1": {evil: evil}}
    run = write_run(tmp_path / "run", result | {"finished": evil}, make_log(result))
    (run / "recipe.toml").write_text(f"# {evil}\n")
    other = write_run(tmp_path / "other", make_result(10, method=evil, spec=evil))
    for folders in ([run], [run, other]):
        text = write_report(folders, tmp_path / "page.html").read_text(encoding="utf-8")
        page = Page(text)
        assert page.scripts == [SCRIPT]
        assert "img" not in page.tags
        assert "alert('x')" in page.text


def test_null_groups_and_classes_are_not_available(tmp_path):
    result = make_result(10, counts=[500, 400, 300, 200, 150, 140, 130, 120, 110, 105])
    assert result["few"] is None
    result["per_class"][3] = None
    result["stages"][0]["per_class"][3] = None
    result["top5"] = float("nan")
    text = Page(page_of(tmp_path, result)).text
    assert "Few-shot n/a 0 classes" in text
    assert "in few-shot classes" not in text
    assert "Top-5 n/a" in text


def test_a_run_without_epochs_has_no_curves(tmp_path):
    assert "Learning curves" not in page_of(tmp_path, make_result(10), log=[])


def test_a_comparison_has_means_gains_and_every_run(tmp_path):
    tops = {"ce": [80.0, 82.0, 84.0], "gcl": [90.0, 93.0, 96.0]}
    folders = []
    for method, values in tops.items():
        for seed, top1 in enumerate(values):
            result = make_result(10, method=method, seed=seed, stages=1 if method == "ce" else 2)
            result["top1"]["last"] = top1
            folders.append(write_run(tmp_path / f"{method}-{seed}", result))
    path = write_report(folders)
    assert path == tmp_path / "report.html"
    page = Page(path.read_text(encoding="utf-8"))
    assert "gcl leads on synthetic-10: 93.0 ± 3.0 % top-1 accuracy, +11.0 ± 1.0 points over ce" in page.text
    assert "82.0 ± 2.0" in page.text
    assert "on test" in page.text
    assert all(str(folder) in page.text for folder in folders)
    assert page.text.count("1.23 M") >= len(folders) + 2
    assert all(f"--set method={method} --seed 2" in page.text for method in tops)
    assert "cpu, 2 threads a run, a processor" in page.text
    assert "tailcloud 0.1.0, python 3.11.9, torch 2.13.0" in page.text
    assert "a" not in page.tags
    assert page.text.count("77,824") >= len(folders) + 2


def test_a_headline_names_the_method_that_leads_in_balanced_accuracy(tmp_path):
    folders = []
    for method, top1, balanced in (("ce", 48.0, 22.0), ("gcl", 40.0, 31.0)):
        result = make_result(10, method=method) | {"balanced_accuracy": balanced}
        result["top1"]["last"] = top1
        folders.append(write_run(tmp_path / method, result))
    text = Page(write_report(folders).read_text(encoding="utf-8")).text
    assert "ce leads on synthetic-10: 48.0 % top-1" in text
    assert "; gcl leads in balanced accuracy, 31.0 % against 22.0 %" in text


def test_a_comparison_separates_other_images_and_says_so(tmp_path):
    folders = [
        write_run(tmp_path / "a", make_result(10, seed=0)),
        write_run(tmp_path / "b", make_result(10, seed=1, fingerprint="ffff0000ffff0000")),
    ]
    text = write_report(folders).read_text(encoding="utf-8")
    assert text.count('<table class="methods sortable">') == 2
    assert "used 2 different sets of images" in text


def test_a_comparison_names_the_settings_that_differ(tmp_path):
    folders = [write_run(tmp_path / str(seed), make_result(10, seed=seed)) for seed in range(2)]
    assert "differ in more than the seed" not in write_report(folders).read_text(encoding="utf-8")
    recipe = folders[1] / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("batch = 64", "batch = 32"))
    assert "differ in more than the seed: stage1.batch" in write_report(folders).read_text(encoding="utf-8")


def test_a_comparison_links_to_the_pages_that_exist(tmp_path):
    folders = [write_run(tmp_path / "runs" / f"seed: {seed}", make_result(10, seed=seed)) for seed in range(2)]
    write_report(folders[:1])
    page = Page(write_report(folders, tmp_path / "pages" / "both.html").read_text(encoding="utf-8"))
    assert [value for name, value in page.attributes if name == "href"] == ["../runs/seed%3A%200/report.html"]


def test_a_comparison_says_what_its_deviations_and_gains_are_over(tmp_path):
    folders = [
        write_run(tmp_path / name, make_result(10, seed=0, method=name[:2], picked_on=split))
        for name, split in (("ce", ""), ("g1", "test"), ("g1-again", "test"))
    ]
    text = Page(write_report(folders).read_text(encoding="utf-8")).text
    assert "g1 has 2 runs, seed 0; runs of the same seed are averaged first" in text
    assert "Other seeds than" not in text
    assert "The last stage of g1 started from an epoch of the previous stage that was chosen on the test set" in text
    other = write_run(tmp_path / "other", make_result(10, seed=1, method="g1", picked_on="test"))
    assert "Other seeds than ce: g1;" in write_report([*folders, other]).read_text(encoding="utf-8")


def test_the_same_folder_twice_is_one_run(tmp_path):
    run = write_run(tmp_path / "run", make_result(10))
    assert write_report([run, tmp_path / "." / "run"]) == run / "report.html"


def test_out_may_be_a_folder_or_a_file_in_a_new_folder(tmp_path):
    run = write_run(tmp_path / "run", make_result(10))
    assert write_report([run], tmp_path) == tmp_path / "report.html"
    assert write_report([run], tmp_path / "new" / "page.html").is_file()


@pytest.mark.parametrize("name", ["thesis.docx", "page", "run.html.bak", "table.CSV"])
def test_a_report_with_another_ending_is_refused(tmp_path, name):
    run = write_run(tmp_path / "run", make_result(10))
    (tmp_path / name).write_text("years of work")
    with pytest.raises(UsageError, match=r"ends neither in \.html nor in \.csv, \.md or \.tex; try --out .*\.html$"):
        write_report([run], tmp_path / name)
    assert (tmp_path / name).read_text() == "years of work"


def test_only_a_page_of_ours_is_replaced(tmp_path):
    run, page = write_run(tmp_path / "run", make_result(10)), tmp_path / "page.html"
    page.write_text("<!doctype html><title>tailcloud, my thesis</title>")
    with pytest.raises(UsageError, match=r"is not a report of tailcloud; move it, or choose another file with --out$"):
        write_report([run], page)
    assert "my thesis" in page.read_text()
    page.unlink()
    page.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not a report of tailcloud"):
        write_report([run], page)
    page.unlink()
    assert write_report([run], page) == write_report([run], page)
    assert re.search(r'<meta name="generator" content="tailcloud \d', page.read_text())


def test_what_is_no_run_is_said_in_a_sentence(tmp_path):
    with pytest.raises(TailcloudError, match="does not exist"):
        write_report([tmp_path / "nowhere"])
    with pytest.raises(TailcloudError, match=r"neither recipe\.toml nor result\.json"):
        write_report([tmp_path])
    write_run(tmp_path / "seed0", make_result(10))
    with pytest.raises(TailcloudError, match="pass one of the runs in it: seed0"):
        write_report([tmp_path])
    (tmp_path / "seed0" / "result.json").unlink()
    with pytest.raises(TailcloudError, match=r"unfinished run .*--resume"):
        write_report([tmp_path / "seed0"])
    with pytest.raises(TailcloudError, match="at least one"):
        write_report([])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("result.json", "{", "not a JSON file"),
        ("result.json", '{"format": 2}', "format 2"),
        ("result.json", '{"format": 1}', r"result\.json is damaged"),
        ("log.jsonl", '{"format": 1, "stage"', "line 1 of .* is damaged"),
        ("log.jsonl", "[]", "line 1 of .* is damaged"),
        ("log.jsonl", '{"format": 7}', "format 7"),
        ("log.jsonl", None, "is missing"),
        ("recipe.toml", None, "is missing"),
        ("recipe.toml", b"\xff\xfe", "not a text file"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path, name, content, words):
    run = write_run(tmp_path / "run", make_result(10))
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TailcloudError, match=words) as caught:
        write_report([run])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda result: result["per_class"].pop(),
        lambda result: result["picked"]["per_class"].pop(),
        lambda result: result["dataset"].update(counts=[0] * 10),
        lambda result: result["dataset"].update(counts=[-1] * 10),
        lambda result: result["confusion"].append([0, 10, 1]),
        lambda result: result.update(top1=92.6),
        lambda result: result["protocol"].pop("seed"),
    ],
)
def test_results_that_contradict_themselves_are_refused(tmp_path, damage):
    result = make_result(10, picked_on="val")
    damage(result)
    run = write_run(tmp_path / "run", make_result(10))
    (run / "result.json").write_text(json.dumps(result))
    with pytest.raises(TailcloudError, match=r"result\.json is damaged") as caught:
        write_report([run])
    assert "\n" not in str(caught.value)


def test_a_page_that_cannot_be_written_is_a_sentence(tmp_path):
    run = write_run(tmp_path / "run", make_result(10))
    with pytest.raises(TailcloudError, match="cannot be written"):
        write_report([run], run / "recipe.toml" / "page.html")


def test_the_command_prints_where_the_page_is(tmp_path, capsys, monkeypatch):
    from tailcloud.cli.report import report

    runs = [write_run(tmp_path / str(seed), make_result(10, seed=seed)) for seed in range(2)]
    monkeypatch.chdir(tmp_path)
    report([Path("0")], None)
    assert capsys.readouterr().out == f"report: {Path('0') / 'report.html'}\n"
    report([Path("0"), Path("1")], Path("both.html"))
    assert capsys.readouterr().out == "report: both.html\n"
    with pytest.raises(TailcloudError, match="--out"):
        report(runs, None)


def test_a_run_in_old_recipe_words_is_refused_with_the_new_word(tmp_path):
    run = write_run(tmp_path / "run", make_result(10))
    (run / "recipe.toml").write_text('[stage2]\nepochs = 1\nhead = "level"\n')
    with pytest.raises(TailcloudError, match=r"older tailcloud: stage2\.head is stage2\.head_transform now"):
        write_report([run])
