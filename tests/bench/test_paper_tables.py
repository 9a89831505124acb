"""The paper's tables as data: whole, narrowed by words, and every cell with a source."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from helpers.small_table import table
from tailcloud.bench import TABLES, BenchProtocol, filter_table, plan_bench, read_table
from tailcloud.bench.table import with_data, with_methods
from tailcloud.errors import UsageError
from tailcloud.sampling import WEIGHTS


@pytest.mark.parametrize("name", TABLES)
def test_every_table_reads_and_names_the_source_of_every_number(name):
    read = read_table(name)
    assert read.name == name
    for row in read.rows:
        for spec in read.columns:
            reference = read.reference(row, spec)
            assert reference is None or (20 < reference.value < 95 and reference.source)
    assert set(read.notes) <= {f"{row.key} {spec}" for row in read.rows for spec in read.columns}


def test_the_numbers_of_the_paper_stand_where_the_paper_has_them():
    one = read_table("table1")
    rows = {row.key: row for row in one.rows}
    assert [one.reference(rows["gcl"], spec).value for spec in one.columns] == [
        79.03,
        82.68,
        85.46,
        44.88,
        48.71,
        53.55,
    ]
    assert one.reference(rows["tde"], "cifar10-lt:200") is None
    assert one.reference(rows["mislas"], "cifar100-lt:200").value == 42.33
    crt = one.reference(rows["crt"], "cifar10-lt:50")
    assert (crt.value, crt.source) == (80.17, "Bag of Tricks")
    two = read_table("table2")
    assert set(two.needs) == set(two.columns)
    three = {row.key: row.paper for row in read_table("cloud-size").rows if row.paper}
    assert three == {
        "gcl-cos-cben": (79.21,),
        "gcl-pow3-cben": (80.80,),
        "gcl-pow4-cben": (82.31,),
        "gcl-cben": (82.68,),
    }


def test_the_table_of_samplers_has_every_sampler():
    names = {"cb", *(row.variant for row in read_table("sampling").rows)}
    assert set(WEIGHTS) <= names


def test_a_third_party_stands_in_where_the_paper_is_silent():
    found = [table().reference(table().rows[0], spec) for spec in ("digits-lt", "digits-lt:20")]
    assert [(one.value, one.source) for one in found] == [(1.0, "paper"), (2.0, "somebody")]
    assert table().reference(table().rows[1], "digits-lt") is None
    both = table(rows=[{"label": "B", "method": "ce", "paper": [1.0, 2.0], "other": [3.0, 4.0], "source": "somebody"}])
    assert both.reference(both.rows[0], "digits-lt:20").value == 2.0


@pytest.mark.parametrize(
    ("words", "rows", "columns"),
    [
        ([], ["ce", "gcl", "gcl-cben"], ["digits-lt", "digits-lt:20"]),
        (["gcl"], ["gcl", "gcl-cben"], ["digits-lt", "digits-lt:20"]),
        (["GCL-CBEN", "ce"], ["ce", "gcl-cben"], ["digits-lt", "digits-lt:20"]),
        (["gc", "digits-lt:20"], ["gcl", "gcl-cben"], ["digits-lt:20"]),
        (["digits-lt"], ["ce", "gcl", "gcl-cben"], ["digits-lt"]),
        (["digits"], ["ce", "gcl", "gcl-cben"], ["digits-lt", "digits-lt:20"]),
        (["two, again"], ["gcl-cben"], ["digits-lt", "digits-lt:20"]),
    ],
)
def test_words_choose_columns_by_data_and_rows_by_anything_else(words, rows, columns):
    found = filter_table(table(), words)
    assert ([row.key for row in found.rows], list(found.columns)) == (rows, columns)


def test_a_ratio_is_not_the_beginning_of_another_one():
    small = table(columns=["digits-lt:5", "digits-lt:50"])
    assert filter_table(small, [":50"]).columns == ("digits-lt:50",)
    assert filter_table(small, ["digits-lt:5"]).columns == ("digits-lt:5",)
    with pytest.raises(UsageError, match=r"in no row and no data set of t.*; add it with --data digits-lt:500"):
        filter_table(table(columns=["digits-lt:5000", "digits-lt:50"]), ["digits-lt:500"])


@pytest.mark.parametrize("text", ["nothing", "/"])
def test_what_is_no_data_with_recipes_cannot_be_added_as_a_column(text):
    with pytest.raises(UsageError, match="in no row and no data set of t") as refused:
        filter_table(table(), [text])
    assert "--data" not in str(refused.value)


def test_other_data_are_a_column_more_without_published_numbers():
    more = with_data(table(), ["digits-lt:5", "digits-lt", "digits-lt:5"])
    assert more.columns == ("digits-lt", "digits-lt:20", "digits-lt:5")
    assert [more.reference(row, "digits-lt:5") for row in more.rows] == [None, None, None]
    assert more.reference(more.rows[0], "digits-lt:20").value == 2.0
    runs = plan_bench(filter_table(more, ["digits-lt:5", "ce"]), BenchProtocol(seeds=(3,)), Path("out")).runs
    assert [(run.folder.path.name, run.recipe.data.spec) for run in runs] == [("digits-lt-5-ce-seed3", "digits-lt:5")]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (".", r'--data . is a path, and a table needs data with recipes.*"tailcloud train own/METHOD --data .'),
        ("cifar10-l:10", 'there is no folder, file or data set "cifar10-l"; did you mean "cifar10-lt"'),
    ],
)
def test_other_data_need_a_name(spec, sentence):
    with pytest.raises(UsageError, match=sentence):
        with_data(table(), [spec])


def test_a_narrowed_table_keeps_its_numbers():
    found = filter_table(table(), ["digits-lt:20"])
    assert found.reference(found.rows[0], "digits-lt:20").value == 2.0


def test_a_word_that_is_nowhere_is_a_sentence():
    with pytest.raises(UsageError, match='--only "bbn" is in no row and no data set of t; it has the rows ce, gcl,'):
        filter_table(table(), ["gcl", "bbn"])


def test_a_table_that_does_not_exist_is_named():
    with pytest.raises(UsageError, match='there is no table "tabel1"; did you mean "table1"'):
        read_table("tabel1")


@pytest.mark.parametrize(
    "rows",
    [
        [{"label": "One", "method": "ce", "paper": [1.0]}],
        [{"label": "One", "method": "ce"}, {"label": "Other", "method": "ce"}],
        [{"label": "One", "method": "ce", "published": [1.0, 2.0]}],
    ],
)
def test_a_table_that_is_none_is_refused(rows):
    with pytest.raises(ValidationError):
        table(rows=rows)


def test_a_method_of_ones_own_is_a_row_more():
    more = with_methods(table(), ["mine", "gcl", "mine"])
    assert [row.key for row in more.rows] == ["ce", "gcl", "gcl-cben", "mine"]
    assert more.reference(more.rows[-1], "digits-lt") is None


OWN = """
columns = ["digits-lt:20"]
rows = [
    {label = "CE", method = "ce", paper = [50.0]},
    {label = "Wide", method = "ce", variant = "wide", set = ["model.width=2.0"]},
]
"""


def test_a_table_of_ones_own_is_a_file(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    own = read_table(str(tmp_path / "mine.toml"))
    assert (own.name, own.title, own.columns) == ("mine", "mine", ("digits-lt:20",))
    assert own.reference(own.rows[0], "digits-lt:20").value == 50.0
    runs = plan_bench(own, BenchProtocol(seeds=(0,)), tmp_path).runs
    assert [run.recipe.model.width for run in runs] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("label", "lable", "mine.toml is no table: rows number 1: lable is no key"),
        ('"Wide", method = "ce"', '"Wide"', "mine.toml is no table: rows number 2: method is missing"),
        ("[50.0]", "[50.0, 51.0]", "mine.toml is no table: CE has 2 values for 1 columns"),
        ('"digits-lt:20"', '"photos/birds"', 'the column "photos/birds" of .*mine.toml is a path'),
        ("[50.0]", "[50.0", "mine.toml is not valid TOML"),
        ("columns", 'name = "../yours"\ncolumns', "name is no key; its name is that of the file"),
        ('"digits-lt:20"', '"digits-lt", "digits-lt"', "a column is there twice"),
        ('"digits-lt:20"', "", "it has no columns"),
        ('["digits-lt:20"]', '"digits-lt:20"', "columns is no list"),
        ('["model.width=2.0"]', '"model.width=2.0"', "rows number 2: set is no list"),
        ('["model.width=2.0"]', "2", "rows number 2: set is no list"),
        ("model.width=2.0", "seed=7", 'rows number 2: "seed=7" is no setting of a row, .* the table decides seed'),
        ("model.width=2.0", "method=gcl", "the table decides method"),
        ('"wide"', '"../wide"', 'rows number 2: the variant "../wide" is part of folder names'),
        ("paper", "other", "rows number 1: other needs a source"),
    ],
)
def test_a_file_that_is_no_table_is_a_sentence(tmp_path, old, new, sentence):
    (tmp_path / "mine.toml").write_text(OWN.replace(old, new, 1))
    with pytest.raises(UsageError, match=sentence):
        read_table(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("rows", "sentence"), [("[]", "it has no rows"), ("5", "rows is no list"), ("[5]", "rows number 1: is no table")]
)
def test_a_table_without_usable_rows_is_a_sentence(tmp_path, rows, sentence):
    (tmp_path / "mine.toml").write_text(f'columns = ["digits-lt"]\nrows = {rows}\n')
    with pytest.raises(UsageError, match=sentence):
        read_table(str(tmp_path / "mine.toml"))
