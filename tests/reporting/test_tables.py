import math

import pytest

from helpers.synthetic_runs import make_result
from tailcloud.errors import TailcloudError
from tailcloud.recipe import resolve
from tailcloud.reporting.tables import COLUMNS, by_dataset, cells, gain, gain_cells, markdown, mean_std


def naive_mean_std(values):
    mean = 0.0
    for value in values:
        mean += value / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def with_numbers(top1, few, *, seed, method="gcl", **model):
    result = make_result(10, method=method, seed=seed)
    result["top1"]["last"], result["few"] = top1, few
    result["model"] |= model
    return result


def test_mean_and_sample_deviation_against_a_naive_computation():
    values = [92.6, 91.8, 93.4, 90.2, 92.0]
    summary = mean_std(values)
    mean, std = naive_mean_std(values)
    assert summary.mean == pytest.approx(mean)
    assert summary.std == pytest.approx(std)
    assert summary.n == 5
    assert summary.text() == f"{mean:.1f} ± {std:.1f}"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "n/a"),
        ([None, None], "n/a"),
        ([float("nan")], "n/a"),
        ([80.0], "80.0"),
        ([80.0, None], "80.0"),
        ([80.0, 82.0], "81.0 ± 1.4"),
    ],
)
def test_what_was_not_measured_is_not_a_number(values, text):
    assert mean_std(values).text() == text


def test_signed_texts_have_a_true_minus_and_no_negative_zero():
    assert mean_std([-3.25]).text(signed=True) == "−3.2"
    assert mean_std([-0.01]).text(signed=True) == "+0.0"
    assert mean_std([8.0]).text(signed=True) == "+8.0"


def test_seeds_of_a_method_are_one_row():
    results = [with_numbers(top1, 50.0, seed=seed) for seed, top1 in enumerate([90.0, 92.0, 94.0])]
    (table,) = by_dataset(results)
    (row,) = table.rows
    assert row.seeds == [0, 1, 2]
    assert row.summary("top1").mean == pytest.approx(92.0)
    assert row.summary("top1").std == pytest.approx(2.0)
    assert dict(zip(COLUMNS, cells(row), strict=True))["top1"] == "92.0 ± 2.0"


def test_the_best_epoch_says_on_which_split():
    (table,) = by_dataset([make_result(10)])
    cell = dict(zip(COLUMNS, cells(table.rows[0]), strict=True))["best"]
    assert cell.endswith(" on test")


def test_the_best_epoch_says_among_how_many_it_was_chosen():
    def best(every, *evaluated):
        """The cell of runs whose last stage has ten epochs."""
        results = [make_result(10, seed=seed) for seed in range(len(evaluated))]
        for result, number in zip(results, evaluated, strict=True):
            result["protocol"]["every"] = every
            result["top1"] |= {"evaluated_epochs": number}
        ((row,),) = (table.rows for table in by_dataset(results))
        return dict(zip(COLUMNS, cells(row), strict=True))["best"].partition(" on ")[2]

    assert best("auto", 3) == "test, best of 3\u00a0evaluated epochs"
    assert best("auto", 3, 5) == "test, best of 3 to 5\u00a0evaluated epochs"  # a time limit shortened one
    assert best("auto", 10, 10) == best(1, 10) == "test"
    assert best(4, None) == "test, best of 3\u00a0evaluated epochs"  # an older version, which did not count: 4, 8, 10
    assert best(1000, None) == "test, best of 1\u00a0evaluated epoch"
    assert best("auto", None) == "test"


def test_other_images_are_another_table():
    first, second = make_result(10), make_result(10, seed=1, fingerprint="ffff0000ffff0000")
    assert [table.fingerprint for table in by_dataset([first, second])] == ["0123456789abcdef", "ffff0000ffff0000"]


def test_other_models_are_another_row_and_the_labels_say_so():
    results = [with_numbers(90, 50, seed=0), with_numbers(95, 60, seed=1, backbone="resnet32", parameters=464144)]
    (table,) = by_dataset(results)
    assert [row.label for row in table.rows] == [
        "gcl (resnet8)",
        "gcl (resnet32)",
    ]


def recorded(seed=0, *, method="gcl", sampler="cb", device="cpu", precision="float32", **stage1):
    """A result that carries its recipe."""
    result = make_result(10, method=method, seed=seed) | {"device": device}
    result["machine"]["precision"] = precision
    second = {"sampler": {"name": sampler} | ({"share": 0.5} if sampler == "cben" else {})}
    result["recipe"] = {"method": method, "seed": seed, "stage1": {"lr": 0.1} | stage1, "stage2": second}
    return result


def labels(*results):
    (table,) = by_dataset(results)
    return [row.label for row in table.rows]


def test_runs_share_a_row_only_if_their_recipes_are_the_same_but_for_the_seed():
    assert labels(recorded(0), recorded(1)) == ["gcl"]
    assert labels(recorded(0), recorded(1, sampler="cben")) == [
        "gcl (stage2.sampler.name cb)",
        "gcl (stage2.sampler.name cben)",
    ]
    assert labels(recorded(0), recorded(1, device="cuda")) == ["gcl (cpu)", "gcl (cuda)"]
    assert labels(recorded(0), recorded(1, precision="bfloat16")) == ["gcl (float32)", "gcl (bfloat16)"]
    picked = recorded(1)
    picked["protocol"]["selection"] = "best on test"
    assert labels(recorded(0), picked) == ["gcl (last epoch kept)", "gcl (best on test kept)"]


def test_a_run_from_before_a_field_was_there_has_its_default():
    older, newer = recorded(0), recorded(1)
    for result in (older, newer):
        result["recipe"] = resolve({"method": "gcl", "seed": result["protocol"]["seed"]}).substance()
    del older["recipe"]["stage1"]["ema"], older["recipe"]["stage1"]["optimizer"]
    assert labels(older, newer) == ["gcl"]
    newer["recipe"]["stage1"]["ema"] = 0.9
    assert labels(older, newer) == ["gcl (stage1.ema 0.0)", "gcl (stage1.ema 0.9)"]


def test_runs_with_and_without_a_third_stage_have_different_labels():
    def ending(change):
        third = {"stage3": {"head_transform": change}} if change else {}
        return recorded(0) | {"recipe": resolve({"method": "gcl", **third}).substance()}

    assert labels(ending(None), ending("tuned-logit-adjust")) == ["gcl (no stage3)", "gcl (stage3 tuned-logit-adjust)"]
    assert labels(ending("keep"), ending("tuned-logit-adjust")) == [
        "gcl (stage3 keep)",
        "gcl (stage3 tuned-logit-adjust)",
    ]
    assert labels(ending("tuned-logit-adjust"), ending("tuned-logit-adjust")) == ["gcl"]


def test_a_label_names_three_fields_at_most_and_is_never_given_twice():
    more = [recorded(lr=0.1 + place, batch=place, mixup=place, epochs=place) for place in range(2)]
    assert labels(*more)[1] == "gcl (stage1.lr 1.1, stage1.batch 1, stage1.mixup 1, …)"
    same = [recorded(a=1, b=1, c=1, d=1), recorded(a=1, b=1, c=1, d=2), recorded(a=2, b=2, c=2, d=2)]
    assert len(set(labels(*same))) == 3


def test_a_result_without_a_recipe_does_not_join_one_with_it():
    assert labels(recorded(0), make_result(10, seed=1)) == ["gcl", "gcl (recipe not recorded)"]


def test_two_runs_of_a_seed_are_no_deviation_over_seeds():
    twice = [with_numbers(90.0, 50, seed=0), with_numbers(94.0, 50, seed=0)]
    (table,) = by_dataset(twice)
    texts = dict(zip(COLUMNS, cells(table.rows[0]), strict=True))
    assert (texts["seeds"], texts["top1"]) == ("2\u00a0runs, seed 0", "92.0")
    (table,) = by_dataset([*twice, with_numbers(96.0, 50, seed=1)])
    texts = dict(zip(COLUMNS, cells(table.rows[0]), strict=True))
    assert (texts["seeds"], texts["top1"]) == ("3\u00a0runs, seeds 0, 1", f"94.0 ± {math.sqrt(8):.1f}")


def test_the_flops_stand_beside_the_parameters():
    (table,) = by_dataset([make_result(10)])
    texts = dict(zip(COLUMNS, cells(table.rows[0]), strict=True))
    assert (texts["parameters"], texts["flops"]) == ("77,824", "1.23\u00a0M")


def test_gain_is_paired_by_seed():
    base = [with_numbers(80.0, few, seed=seed, method="ce") for seed, few in enumerate([60.0, 70.0, 80.0])]
    ours = [with_numbers(90.0, few, seed=seed) for seed, few in enumerate([71.0, 82.0, 93.0])]
    (table,) = by_dataset([*base, *reversed(ours)])
    points = gain(table.rows[1], table.rows[0], "few")
    mean, std = naive_mean_std([11.0, 12.0, 13.0])
    assert points.mean == pytest.approx(mean)
    assert points.std == pytest.approx(std)
    assert gain_cells(table.rows[1], table.rows[0])[0] == "+10.0 ± 0.0"


def test_gain_of_unlike_seeds_adds_the_deviations():
    base = [with_numbers(80.0, few, seed=seed, method="ce") for seed, few in enumerate([60.0, 64.0])]
    ours = [with_numbers(90.0, few, seed=seed + 5) for seed, few in enumerate([70.0, 73.0])]
    (table,) = by_dataset([*base, *ours])
    points = gain(table.rows[1], table.rows[0], "few")
    assert points.mean == pytest.approx(9.5)
    assert points.std == pytest.approx(math.sqrt(naive_mean_std([60, 64])[1] ** 2 + naive_mean_std([70, 73])[1] ** 2))


def test_a_null_group_has_no_gain():
    results = [with_numbers(80.0, None, seed=0, method="ce"), with_numbers(90.0, None, seed=0)]
    (table,) = by_dataset(results)
    assert gain_cells(table.rows[1], table.rows[0])[-1] == "n/a"


def test_markdown_escapes_the_bar():
    assert markdown(["method", "top-1"], [["a|b", "1.0"]]) == "| method | top-1 |\n| --- | ---: |\n| a&#124;b | 1.0 |"


def test_a_damaged_result_is_a_sentence():
    broken = make_result(10)
    del broken["dataset"]["counts"]
    with pytest.raises(TailcloudError, match=r"damaged .*dataset\.counts"):
        by_dataset([broken])
