"""The tables on pretrained networks: rows, means, intervals, and what happens without records."""

import json

import pretrained_table
import pytest
import render

from tailcloud.errors import TailcloudError

BLOCKS = "before\n<!-- photographs:start -->\nold\n<!-- photographs:end -->\n<!-- cifar:start -->\n<!-- cifar:end -->\n"


def record(what="tailcloud", seed=0, **others):
    figures = {"top1": 60.0 + seed, "balanced_accuracy": 50.0 + 2 * seed, "many": 70.0, "medium": 40.0, "few": None}
    network = {"backbone": "efficientnet_lite0", "size": 128, "method": "gcl", "epochs": "40 + 30", "part": "head"}
    machine = {"processor": "a processor", "cores": 2, "gpu": None, "torch": "2.13", "threads": 2}
    about = {
        "data": "clothing",
        "device": "cpu",
        "budget": 180,
        "cores": 2,
        "what": what,
        "seed": seed,
        "seconds": 170.0 + seed,
    }
    end = {"fingerprint": "0123", "test_images": 312, "machine": machine, "versions": {}, "commit": "abcdef1"}
    return {**about, **figures, **network, **end, "command": "tailcloud train", **others}


def on_gpu(**others):
    return record(device="cuda", machine={**record()["machine"], "gpu": "a GPU"}, **others)


def rows(lines):
    return [line for line in "\n".join(lines).splitlines() if line.startswith("| ")][2:]


def test_a_row_is_the_mean_over_seeds():
    [row] = rows(pretrained_table.photographs([record(seed=seed) for seed in range(3)]))
    assert row == (
        "| tailcloud as it chooses | 2 CPU cores, 3\u00a0min 0\u00a0s | `efficientnet_lite0`, 128 pixels, "
        "head on features | `gcl` | 40 + 30 | 3 | 61.0 ± 1.0 | 52.0 ± 2.0 | 70.0 ± 0.0 | 40.0 ± 0.0 | n/a | 171 ± 1 s |"
    )


def test_a_single_seed_has_the_interval_of_its_test_images():
    [row] = rows(pretrained_table.photographs([record()]))
    assert "| 60.0 (54.5 – 65.3) | 50.0 | 70.0 |" in row


def test_two_seeds_have_a_deviation_instead():
    [row] = rows(pretrained_table.photographs([record(seed=0), record(seed=1)]))
    assert "| 60.5 ± 0.7 | 51.0 ± 1.4 | 70.0 ± 0.0 |" in row


def test_rows_are_in_order_and_choices_that_differ_are_all_named():
    records = [record("plain"), record("zeta"), record(seed=1, method="ncm"), on_gpu(budget=120), record()]
    records += [record("before", budget=None, part="scratch"), record("before", part="scratch")]
    found = rows(pretrained_table.photographs(records))
    assert [row.split(" | ")[0].removeprefix("| ") for row in found] == [
        "tailcloud as it chooses",
        "tailcloud 0.1, from scratch",
        "plain script, the whole network",
        "tailcloud with `zeta`",
        "tailcloud 0.1, from scratch",
        "tailcloud as it chooses",
    ]
    assert "| `ncm` / `gcl` |" in found[0]
    assert "| 2 CPU cores, none |" in found[4]
    assert "| a GPU, 2\u00a0min 0\u00a0s |" in found[5]


def test_cifar_is_never_among_the_others():
    records = [record(), record(data="cifar100-lt")]
    assert "CIFAR" not in "".join(pretrained_table.photographs(records))
    assert "garments" not in "".join(pretrained_table.cifar(records))
    assert len(rows(pretrained_table.cifar(records))) == 1


def test_two_records_of_one_seed_are_refused():
    with pytest.raises(TailcloudError, match="two records of tailcloud, clothing, cpu, budget 180, with one seed"):
        pretrained_table.photographs([record(), record()])


def test_the_readme_has_the_better_plain_script():
    plain = [record("plain", balanced_accuracy=40.0), record("plain-frozen", balanced_accuracy=45.0, seconds=61.0)]
    records = [*plain, record(), on_gpu(), record(data="chula_rbc12", seed=5)]
    [row, other] = rows(pretrained_table.readme(records))  # nothing is measured from scratch: no column
    first = "| 2 CPU cores, 3\u00a0min 0\u00a0s | 45.0 in 1\u00a0min 1\u00a0s | 50.0 in 2\u00a0min 50\u00a0s |"
    assert row == first
    assert other.startswith("| a GPU, 3\u00a0min 0\u00a0s | n/a | 50.0 in")


def test_the_readme_has_the_time_before_pretrained_networks_where_it_is_known():
    scratch, before = record("scratch", balanced_accuracy=20.0), record("before", balanced_accuracy=15.0)
    later = [record("scratch", budget=None, balanced_accuracy=30.0), record(budget=None)]
    [row, other] = rows(pretrained_table.readme([scratch, before, record(), *later]))
    assert row.startswith("| 2 CPU cores, 3\u00a0min 0\u00a0s | 15.0 in")
    assert other.startswith("| 2 CPU cores, no time budget | 30.0 in")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "pretrained.md").write_text(BLOCKS)
    (tmp_path / "README.md").write_text("top\n<!-- pretrained:start -->\n<!-- pretrained:end -->\n")
    return tmp_path


def rendered(root):
    pages = render.Pages()
    render.pretrained_blocks(pages, root)
    return {path.name: text for path, text in pages.texts.items()}


def test_without_records_the_page_says_so_and_the_readme_stays(root):
    texts = rendered(root)
    assert texts["pretrained.md"].count("Not measured yet.") == 2
    assert "README.md" not in texts


def test_records_arrive_in_page_and_readme(root):
    folder = root / "benchmarks" / "results" / "pretrained"
    folder.mkdir(parents=True)
    for name, one in {"a": record(), "b": record(data="chula_rbc12"), "c": record(data="cifar100-lt")}.items():
        (folder / f"{name}.json").write_text(json.dumps(one))
    texts = rendered(root)
    page = texts["pretrained.md"]
    assert page.index("Photographs of garments") < page.index("Red blood cells") < page.index("CIFAR-100-LT")
    assert "312 test images" in page
    assert "- machines: a processor, torch 2.13\n- commits: `abcdef1`" in page
    assert page.startswith("before\n")
    assert "50.0 in 2\u00a0min 50\u00a0s" in texts["README.md"]
