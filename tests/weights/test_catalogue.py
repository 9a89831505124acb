import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailcloud.backbones import create_backbone
from tailcloud.classifier import Architecture, cost
from tailcloud.cli import app
from tailcloud.errors import UsageError
from tailcloud.estimator.fit import settings_of
from tailcloud.estimator.longtail_classifier import LongTailClassifier
from tailcloud.weights import CATALOGUE, available
from tailcloud.weights.catalogue import PackageFile
from tailcloud.weights.licence import is_permissive
from tailcloud.weights.resolve import find_entry

ROOT = Path(__file__).parents[2]
OWN = [entry for entry in CATALOGUE.values() if not entry.name.startswith("timm:")]
FROM_TIMM = [entry for entry in CATALOGUE.values() if entry not in OWN]


def counted(entry):
    backbone = create_backbone(entry.name)
    price = cost(Architecture(entry.name, "linear", 1.0, 3, 2), entry.pixels, entry.pixels)
    parameters = price.parameters - 2 * backbone.features - 2
    return backbone, parameters, round((price.flops - 4 * backbone.features) / 1e9, 3)


@pytest.mark.parametrize("entry", OWN, ids=lambda entry: entry.name)
def test_an_entry_is_what_is_counted(entry):
    backbone, parameters, gflops = counted(entry)
    assert (entry.parameters, entry.gflops) == (parameters, gflops)
    assert (entry.mean, entry.std) == (backbone.mean, backbone.std)


@pytest.mark.parametrize("entry", FROM_TIMM, ids=lambda entry: entry.name)
def test_an_entry_is_what_timm_says(entry):
    timm = pytest.importorskip("timm")
    backbone, parameters, gflops = counted(entry)
    assert (entry.parameters, entry.gflops) == (parameters, gflops)
    assert (entry.mean, entry.std) == (backbone.mean, backbone.std)
    config = timm.get_pretrained_cfg(entry.name.removeprefix("timm:"))
    assert (entry.source.repo, entry.tag) == (config.hf_hub_id, config.tag)
    assert (entry.interpolation, entry.crop, entry.pixels) == (
        config.interpolation,
        config.crop_pct,
        config.input_size[-1],
    )
    assert entry.licence.lower() == config.license


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_everything_in_the_catalogue_is_free_to_use(entry):
    assert is_permissive(entry.licence)


def test_packages_are_dependencies_or_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for source in (entry.source for entry in OWN if isinstance(entry.source, PackageFile)):
        home = project["optional-dependencies"][source.extra] if source.extra else project["dependencies"]
        assert f"{source.package}==0.1.0" in home


def test_the_room_is_entered_without_pytorch():
    code = "import sys, tailcloud.weights as w; w.available('resnet18'); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_and_tags():
    assert find_entry("resnet50", "a1_in1k") is find_entry("resnet50-fresh") is find_entry("resnet50-two-branch")
    assert find_entry("timm:convnext_tiny", "in12k_ft_in1k") is CATALOGUE["timm:convnext_tiny.in12k_ft_in1k"]
    with pytest.raises(UsageError, match=r'has the tag "lvd142m", and model.weights = "v9" is another one'):
        find_entry("timm:vit_small_patch14_dinov2.lvd142m", "v9")
    with pytest.raises(UsageError, match=r'"v9" is neither a file .* nor weights of resnet50; known: .* "a1_in1k"'):
        find_entry("resnet50", "v9")
    with pytest.raises(UsageError, match="no published weights of resnet32 are known"):
        find_entry("resnet32")
    with pytest.raises(UsageError, match="no published weights of resnet18-small are known"):
        find_entry("resnet18-small")
    assert not available("resnet32")


def test_the_list_as_json_has_every_fact():
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["weights", "ls", "--json"]).stdout)}
    assert list(rows) == list(CATALOGUE)
    lite, large = rows["efficientnet_lite0"], rows["resnet34"]
    assert (lite["here"], lite["pixels"], lite["licence"], lite["package_licence"]) == (True, 224, *["Apache-2.0"] * 2)
    assert (large["sha256"], large["revision"], large["note"]) == ("not pinned", "not pinned", "not measured here")


def test_the_list_and_a_description_are_for_people():
    table = CliRunner().invoke(app, ["weights", "ls"]).stdout
    assert all(entry.name in table for entry in CATALOGUE.values())
    assert "Not measured here: resnet18" in table
    shown = CliRunner().invoke(app, ["weights", "show", "efficientnet_lite0"]).stdout
    assert "trained on       ImageNet-1k\n" in shown
    assert f"sha256           {CATALOGUE['efficientnet_lite0'].source.sha256}\n" in shown


def test_weights_that_are_here_are_only_checked():
    outcome = CliRunner().invoke(app, ["weights", "get", "efficientnet_lite0"])
    assert outcome.stdout.startswith("efficientnet_lite0 is here: ")
    assert isinstance(CliRunner().invoke(app, ["weights", "get", "resnet9"]).exception, UsageError)


def test_the_classifier_takes_backbone_and_weights():
    parameters = LongTailClassifier(backbone="efficientnet_lite0", weights="pretrained").get_params()
    assert settings_of(parameters)[-2:] == ['model.backbone="efficientnet_lite0"', 'model.weights="pretrained"']
    assert not [word for word in settings_of(LongTailClassifier().get_params()) if word.startswith("model")]


def test_the_table_of_the_docs_has_the_figures_of_the_catalogue():
    page = (ROOT / "docs" / "weights.md").read_text()
    for entry in CATALOGUE.values():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{entry.name}`")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        figures = [f"{entry.parameters:,}", f"{entry.gflops:.3f}", f"{entry.megabytes:.1f}", str(entry.pixels)]
        assert cells[1:-1] == [entry.architecture, *figures, entry.trained_on, entry.licence]
        assert ("¹" in cells[0]) is (entry.note == "not measured here")
        assert ("²" in cells[0]) is (entry.source.sha256 is None)
