"""The table of docs/backbones.md has the figures that our own counter gives."""

import re
from pathlib import Path

import pytest

from tailcloud.classifier import Architecture, cost

PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"
ROW = re.compile(r"^\| `([\w]+)` \| [^|]+ \| (\d+) \| ([\d,]+) \| ([\d.]+) \| (\d+) pixels \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())


def test_every_backbone_of_the_large_benchmarks_is_in_it():
    assert {"resnet32", "resnet50", "resnet101", "resnet152", "resnext50_32x4d"} <= {row[0] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_is_counted(row):
    name, features, parameters, flops, side = row
    price = cost(Architecture(name, "linear", 1.0, 3, 2), int(side), int(side))
    head = 2 * int(features) + 2
    assert price.parameters - head == int(parameters.replace(",", ""))
    assert f"{(price.flops - 4 * int(features)) / 1e9:.3f}" == flops
