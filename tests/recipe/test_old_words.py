"""Recipes of older versions are refused in one sentence that has the old and the new word."""

import pytest

from tailcloud.errors import UsageError
from tailcloud.recipe import load_recipe
from tailcloud.recipe.library import PLUGIN_METHODS, plugin_method
from tailcloud.recipe.old_words import OLD_KEYS
from tailcloud.runs.folder import RunFolder

OLD = {
    'data = {spec = "digits-lt", plane = "stream"}': "data.plane is data.loader now",
    "[augment]\narea = [0.1, 1.0]": "augment.area is augment.crop_area now",
    "[augment]\nratio = [0.5, 2.0]": "augment.ratio is augment.crop_ratio now",
    "[augment]\njitter = [0.1, 0.1, 0.1]": "augment.jitter is augment.color_jitter now",
    "[watch]\ngradients = true": "watch is logging now",
    '[stage1]\nsecond = "reverse"': "stage1.second is stage1.second_sampler now",
    '[stage2]\nhead = "lws"': "stage2.head is stage2.head_transform now",
    '[stage3]\nhead_transform = "level"': 'stage3.head_transform = "level" is "tuned-logit-adjust" now',
    '[stage3.head_transform]\nname = "level"': 'stage3.head_transform = "level" is "tuned-logit-adjust" now',
    '[stage3]\nhead = "level"': (
        'stage3.head is stage3.head_transform now, stage3.head_transform = "level" is "tuned-logit-adjust" now'
    ),
}


@pytest.mark.parametrize(("text", "renamed"), OLD.items(), ids=OLD.values())
def test_a_file_of_old_words_is_refused(tmp_path, text, renamed):
    file = tmp_path / "recipe.toml"
    file.write_text(text if text.startswith("data") else f'data = "digits-lt"\n{text}\n')
    sentence = f"{file} was written by an older tailcloud: {renamed}; rename it there"
    with pytest.raises(UsageError) as refused:
        load_recipe(str(file))
    assert str(refused.value).startswith(sentence)
    with pytest.raises(UsageError) as refused:
        RunFolder(tmp_path).recipe()
    assert str(refused.value).startswith(sentence)


def test_old_words_in_settings_are_refused():
    with pytest.raises(
        UsageError, match=r"a setting has a word of an older tailcloud: data\.plane is data\.loader now"
    ):
        load_recipe("digits-lt/gcl", [{"data": {"plane": "stream"}}])


@pytest.mark.parametrize("old", OLD_KEYS)
def test_no_old_word_is_a_field_of_today(old):
    value = {"x": 1}
    for name in reversed(old.split(".")):
        value = {name: value}
    with pytest.raises(UsageError, match="older tailcloud"):
        load_recipe("digits-lt/gcl", [value])


def test_a_plugin_method_of_old_words_is_refused(monkeypatch):
    method = plugin_method("old", '[stage1]\nepochs = 1\nloss = "ce"\n[augment]\njitter = [0.1, 0.1, 0.1]')
    monkeypatch.setitem(PLUGIN_METHODS, "old", method)
    with pytest.raises(UsageError, match=r"the method old was written by an older tailcloud: augment\.jitter is"):
        load_recipe("digits-lt/old")


def test_recipes_of_today_have_no_old_words():
    assert load_recipe("digits-lt/mislas", [{"logging": {"gradients": True}}]).logging.gradients
