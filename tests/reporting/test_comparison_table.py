"""The comparison of runs as CSV, Markdown and LaTeX: the rows of the page, and what must not be compared."""

import csv
import io
import re
from statistics import mean, stdev

import pytest

from helpers.html_page import Page
from helpers.synthetic_runs import make_result, write_run
from tailcloud.errors import UsageError
from tailcloud.reporting import write_report

METRICS = ("top1", "balanced_accuracy", "many", "medium", "few", "ece")


def runs_of(tmp_path, *results):
    return [write_run(tmp_path / "runs" / str(place), result) for place, result in enumerate(results)]


def four_runs():
    return [make_result(10, method=method, seed=seed) for method in ("ce", "gcl") for seed in (0, 3)]


def table(tmp_path, ending, *results):
    out = tmp_path / f"comparison{ending}"
    assert write_report(runs_of(tmp_path, *results), out) == out
    return out.read_text(encoding="utf-8")


def csv_rows(tmp_path, *results):
    return list(csv.DictReader(io.StringIO(table(tmp_path, ".csv", *results), newline="")))


def value(result, metric):
    return result["top1"]["last"] if metric == "top1" else result[metric]


def test_a_csv_has_means_and_deviations_in_full_precision(tmp_path):
    results = four_runs()
    rows = csv_rows(tmp_path, *results)
    assert [row["method"] for row in rows] == ["ce", "gcl"]
    for row, members in zip(rows, (results[:2], results[2:]), strict=True):
        for metric in METRICS:
            values = [value(result, metric) for result in members]
            assert float(row[f"{metric}_mean"]) == pytest.approx(mean(values), rel=1e-12)
            assert float(row[f"{metric}_deviation"]) == pytest.approx(stdev(values), rel=1e-9)
        assert (row["data"], row["runs"], row["seeds"], row["epochs"]) == ("synthetic-10", "2", "0 3", "60 + 10")
        assert (row["parameters"], row["fingerprint"], row["remarks"]) == ("77824", "0123456789abcdef", "")


def test_a_run_alone_has_no_deviation_and_an_empty_group_no_mean(tmp_path):
    (row,) = csv_rows(tmp_path, make_result(counts=[50, 30, 5]))
    assert float(row["top1_mean"])
    assert (row["top1_deviation"], row["many_mean"], row["many_deviation"]) == ("", "", "")
    assert "| n/a |" in table(tmp_path / "again", ".md", make_result(counts=[50, 30, 5]))


def test_runs_of_a_seed_are_counted_and_an_average_has_none(tmp_path):
    average = make_result(10, method="ce") | {"recipe": {"method": "ce"}}
    average["protocol"]["seed"] = None
    average["model"] = {"members": [{"run": f"seed{seed}", "sha256": "0" * 64, "seed": seed} for seed in range(2)]}
    repeated = [make_result(10, method="gcl", seed=seed) for seed in (0, 3, 0)]
    of_average, of_gcl = csv_rows(tmp_path, average, *repeated)
    assert (of_average["runs"], of_average["seeds"], of_average["parameters"]) == ("1", "", "")
    assert (of_gcl["runs"], of_gcl["seeds"]) == ("3", "0 3")
    assert of_gcl["remarks"].startswith("gcl has 3\u00a0runs, seeds 0, 3; runs of the same seed are averaged first")


@pytest.mark.parametrize(
    ("ending", "header"), [(".md", "| method | seeds | top-1, last"), (".tex", "method & seeds & ")]
)
def test_a_table_says_what_it_was_measured_on(tmp_path, ending, header):
    known, unknown = make_result(counts=[50, 30, 5]), make_result(counts=[50, 30, 5], images={"train": 85})
    text = table(tmp_path / "known", ending, known)
    trained = "85 training images of 3 classes"
    assert f"{trained}, 150 test images; fingerprint 0123456789abcdef." in text
    assert header in text
    sign = {".md": "±", ".tex": "$\\pm$"}[ending]
    assert f"Mean {sign} sample standard deviation" in text
    assert text.endswith("\n")
    assert f"{trained}; fingerprint" in table(tmp_path / "unknown", ending, unknown)


@pytest.mark.parametrize(("ending", "split"), [(".md", " | "), (".tex", " & ")])
def test_texts_are_those_of_the_page(tmp_path, ending, split):
    text = table(tmp_path, ending, *four_runs()).replace("$\\pm$", "±")
    page = Page(table(tmp_path / "page", ".html", *four_runs())).text
    for line in (line for line in text.splitlines() if re.match(r"(\| )?(ce|gcl) ", line)):
        cells = line.strip("| \\").split(split)
        assert len(cells) == 10
        assert all(cell in page for cell in cells)
        assert sum("±" in cell for cell in cells) == 6


def test_latex_is_a_booktabs_table_for_each_data_set(tmp_path):
    other = make_result(20, method="ce")
    text = table(tmp_path, ".tex", *four_runs(), other)
    for mark in (r"\begin{table}", r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}", r"\end{table}"):
        assert text.count(mark) == 2
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 2 + 3
    assert {line.count("&") for line in rows} == {9}
    assert text.count(r"\begin{tabular}{lrrrrrrrrr}") == 2


@pytest.mark.parametrize("ending", [".csv", ".md", ".tex"])
def test_what_must_not_be_compared_is_said(tmp_path, ending):
    first, second = make_result(10, method="ce"), make_result(10, method="gcl")
    second["stages"][0]["epochs"] = 200
    second["protocol"]["selection"], second["stages"][0]["picked"] = "best on test", {"epoch": 7, "on": "test"}
    second["recipe"] = {"method": "gcl"}
    text = table(tmp_path, ending, first, second)
    flag = {".md": "**Not trained alike.** ", ".tex": r"\textbf{Not trained alike.} ", ".csv": "Not trained alike. "}
    assert f"{flag[ending]}Epochs differ: ce 60 + 10, gcl 200 + 10." in text
    assert "an epoch of the previous stage that was chosen on the test set: its accuracies are optimistic." in text


def test_hostile_names_are_text(tmp_path):
    method = "=1+1_{x}|<b>*[a]%&$#^~\\end{table}\nnext"
    (row,) = csv_rows(tmp_path / "1", make_result(10, method=method))
    assert row["method"] == f"'{method}"
    latex = table(tmp_path / "2", ".tex", make_result(10, method=method))
    assert latex.count(r"\end{table}") == 1
    escaped = r"=1+1\_\{x\}\textbar{}\textless{}b\textgreater{}{*}{[}a{]}\%\&\$\#\textasciicircum{}\textasciitilde{}"
    assert f"{escaped}\\textbackslash{{}}end\\{{table\\}} next & 1 &" in latex
    markdown = table(tmp_path / "3", ".md", make_result(10, method=method))
    (line,) = (line for line in markdown.splitlines() if "1+1" in line)
    assert line.startswith(r"| \=1+1\_{x}\|&lt;b&gt;\*\[a\]")
    assert len(re.findall(r"(?<!\\)\|", line)) == 11


def test_paths_may_be_text_and_one_alone_is_a_sentence(tmp_path):
    runs, out = runs_of(tmp_path, *four_runs()), tmp_path / "comparison.csv"
    assert write_report([str(run) for run in runs], str(out)) == out
    with pytest.raises(UsageError, match=r'runs = ".*0" should be a list of run folders; write \["'):
        write_report(str(runs[0]))


def test_hostile_names_are_text_in_sentences_too(tmp_path):
    """In the name of the data, in what was not trained alike, and in the notes on a row."""
    name = "=1+1_{x}<b>*[a]\\input"
    results = [make_result(10, method=method, spec=name) for method in ("ce", name, name)]
    results[0]["stages"][0]["epochs"] = 200
    (_, row) = csv_rows(tmp_path / "1", *results)
    assert row["remarks"].startswith("Not trained alike. Epochs differ: ce 200 + 10, =1+1")
    (alike,) = csv_rows(tmp_path / "2", *results[1:])
    assert alike["remarks"].startswith("'=1+1_{x}<b>*[a]\\input has 2")
    markdown = table(tmp_path / "3", ".md", *results)
    for start in ("## ", "**Not trained alike.** Epochs differ", "- "):
        assert "1+1\\_{x}&lt;b&gt;\\*\\[a\\]\\\\input" in next(
            line for line in markdown.splitlines() if line.startswith(start)
        )
    assert "<b>" not in markdown
    latex = table(tmp_path / "4", ".tex", *results)
    assert latex.count(r"1+1\_\{x\}\textless{}b\textgreater{}{*}{[}a{]}\textbackslash{}input") == 4
    assert latex.count("1+1") == 4


def test_images_of_other_sizes_are_said(tmp_path):
    rows = csv_rows(tmp_path, make_result(10, method="ce"), make_result(10, method="gcl", shape=[16, 16, 1]))
    assert {row["remarks"] for row in rows} == {
        "Not trained alike. Image sizes differ: 8 × 8 and 16 × 16 pixels (height × width)."
    }


@pytest.mark.parametrize("ending", [".csv", ".md", ".tex"])
def test_an_earlier_table_is_replaced_and_another_file_is_not(tmp_path, ending):
    runs, out = runs_of(tmp_path, make_result(10)), tmp_path / f"table{ending}"
    write_report(runs, out)
    before = out.read_text()
    write_report(runs, out)
    assert out.read_text() == before
    out.write_text("mine\n" + before)
    with pytest.raises(UsageError, match="exists and is not a report of tailcloud; move it"):
        write_report(runs, out)
    assert out.read_text() == "mine\n" + before


def test_a_csv_with_a_column_of_ones_own_is_not_replaced(tmp_path):
    runs, out = runs_of(tmp_path, make_result(10)), tmp_path / "table.csv"
    write_report(runs, out)
    out.write_text(out.read_text().replace(",remarks\n", ",remarks,mine\n"))
    with pytest.raises(UsageError, match="not a report of tailcloud"):
        write_report(runs, out)
