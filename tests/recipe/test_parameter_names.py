"""A misspelt part of a model is found when a recipe is read, and not when its stage begins."""

import sys
from subprocess import check_output

import pytest

from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe, parse_setting


def read(method, *settings):
    return load_recipe(f"digits-lt/{method}", [parse_setting(setting) for setting in settings])


@pytest.mark.parametrize(
    ("method", "setting", "sentence"),
    [
        ("lws", "stage2.train=head.scales", r'stage2.train = "head.scales" is not a part .* head.scale, head.inner.w'),
        ("gcl", "stage1.train=head.bias", r'stage1.train = "head.bias" is not a part .* its head has head.weight'),
        ("ncm", "stage2.epochs=3", r'stage2.train = "head" is not a part .* its head has nothing to train'),
        (
            "mislas",
            'stage2.lr_factors={"head.iner"=0.2}',
            r'stage2.lr_factors=.*: "head.iner" is not a part',
        ),
        ("ce", "stage1.train=backbone.layer9+head", r'train = "backbone.layer9" is not a part .* backbone.layer3'),
        ("ce", "stage1.train=backbone.layer3+head.scale", r'train = "head.scale" is not a part of its model; its head'),
        ("ce", "stage1.train=backbone.layer3,head", r"stage1.train = .* should be .all., .head., a part of the model"),
        (
            "ce",
            'stage1.lr_factors={"backbone.stem"=0.5}',
            r'"backbone.stem" is not a part .* backbone.bn1',
        ),
        ("ce", "stage1.lr_factors={backbones=0.2}", r'stage1.lr_factors=.*: "backbones" is not a part of its model'),
    ],
)
def test_a_part_that_is_not_there_is_a_sentence(method, setting, sentence):
    with pytest.raises(UsageError, match=sentence):
        read(method, setting)


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        ("lws", "stage2.train=head.inner"),
        ("lws", "stage2.train=head.inner.bias"),
        ("lws", "stage2.train=all"),
        ("ncm", "stage2.train=head"),
        ("ce", "stage1.train=backbone.layer3+head"),
        ("ce", "stage1.train=backbone.layer3.0.conv1.weight+backbone.bn1"),
        ("ce", 'stage1.lr_factors={backbone=0.1, "backbone.layer1"=0.5, head=2.0}'),
    ],
)
def test_a_part_that_is_there_will_do(method, setting):
    read(method, setting)


def test_looking_at_names_does_not_import_the_compiler():
    code = "import sys; from tailcloud.recipe import load_recipe; load_recipe('digits-lt/mislas')"
    assert check_output([sys.executable, "-c", f"{code}; print('torch._dynamo' in sys.modules)"]).strip() == b"False"
