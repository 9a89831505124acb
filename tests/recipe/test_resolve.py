"""How recipes come together, and that every shipped one is right."""

import tomllib

import pytest

from tailcloud.backbones import branched
from tailcloud.data import parse_spec
from tailcloud.errors import UsageError
from tailcloud.losses import LOSSES, Loss
from tailcloud.recipe import data_sets, find_recipe, further_recipes, load_recipe, parse_setting, resolve, shipped
from tailcloud.recipe.library import PLUGIN_METHODS, PluginMethod
from tailcloud.recipe.merge import merge

# recipes that are not named after their method
OWN_NAME = dict.fromkeys(("own/lift", "cifar10-lt/best", "cifar100-lt/best"), "logit-adjust")


@pytest.mark.parametrize("name", shipped("recipes"))
def test_every_shipped_recipe_resolves_and_is_its_own_fixed_point(name):
    if "timm:" in shipped("recipes")[name].read_text():
        pytest.importorskip("timm")
    recipe = load_recipe(name)
    data, ratio = parse_spec(recipe.data.spec)
    assert data == name.split("/")[0]
    method = OWN_NAME.get(name, name.split("/")[1])
    assert method in {recipe.method, f"{recipe.method}-{ratio or 0:g}"}
    assert resolve(tomllib.loads(recipe.to_toml())) == recipe


@pytest.mark.parametrize("name", shipped("methods"))
def test_every_method_resolves_alone(name):
    assert resolve({"method": name}).method == name


@pytest.mark.parametrize("kind", ["methods", "recipes"])
def test_every_shipped_file_opens_with_what_it_is(kind):
    for file in shipped(kind).values():
        assert file.read_text().startswith("# ")


def test_the_recipe_of_the_released_code():
    recipe = load_recipe("cifar10-lt/gcl-official")
    one, two = recipe.stage1, recipe.stage2
    assert (recipe.model.backbone, recipe.model.head) == ("resnet32", "cosine")
    assert (recipe.augment.crop_padding, recipe.augment.flip) == (4, True)
    assert (one.epochs, one.batch, one.lr, one.momentum, one.weight_decay, one.mixup) == (200, 64, 0.1, 0.9, 2e-4, 1.0)
    assert (one.warmup, one.milestones, one.decay, one.sampler.name) == (5, [0.8, 0.9], 0.1, "ib")
    common = {"strategy": "log", "granularity": "entry", "tau": 0.0}
    assert one.loss.options == {"scale": 30.0, "noise": 0.5, "margin": 0.0, "focal": 0.0, **common}
    assert (two.epochs, two.batch, two.lr, two.schedule, two.mixup) == (30, 64, 0.002, "cosine", 1.0)
    assert (two.train, two.head_transform.name, two.batch_norm, two.sampler.name) == ("head", "keep", "frozen", "cb")
    assert two.loss.options == {"scale": 20.0, "noise": 0.5, "margin": 0.1, "focal": 1.0, **common}


def test_our_default_is_the_released_code_but_for_three_settings_of_stage_two():
    ours, theirs = load_recipe("cifar10-lt/gcl"), load_recipe("cifar10-lt/gcl-official")
    assert (ours.stage2.mixup, ours.stage2.head_transform.name, ours.stage2.lr) == (0.2, "unit", 0.0002)
    changed = {"mixup": 1.0, "head_transform": theirs.stage2.head_transform, "lr": 0.002}
    assert ours.stage2.model_copy(update=changed) == theirs.stage2
    assert ours.stage1 == theirs.stage1


def test_the_recipe_of_the_papers_text():
    recipe = load_recipe("cifar10-lt/gcl-paper")
    assert recipe.stage1.loss.options["noise"] == recipe.stage2.loss.options["noise"] == 1.0
    assert recipe.stage2.sampler.model_dump() == {"name": "cben", "a": 0.999, "b": 0.0009}
    assert recipe.stage2.head_transform.name == "fresh"


@pytest.mark.parametrize(
    ("setting", "table"),
    [
        ("stage1.epochs=10", {"stage1": {"epochs": 10}}),
        ("stage1.lr = 1e-3", {"stage1": {"lr": 1e-3}}),
        ("augment.flip=true", {"augment": {"flip": True}}),
        ("data=cifar10-lt:100", {"data": "cifar10-lt:100"}),
        ('stage2.sampler="cb"', {"stage2": {"sampler": "cb"}}),
        ("stage1.milestones=[0.5]", {"stage1": {"milestones": [0.5]}}),
        ("a=b=c", {"a": "b=c"}),
    ],
)
def test_settings_are_read_as_toml_or_taken_as_text(setting, table):
    assert parse_setting(setting) == table


def test_a_part_that_changes_its_name_keeps_none_of_its_options():
    below = {"loss": {"name": "gcl", "scale": 20.0}, "sampler": "cben"}
    assert merge(below, {"loss": "ce"})["loss"] == {"name": "ce"}
    assert merge(below, {"loss": {"name": "ce"}})["loss"] == {"name": "ce"}
    assert merge(below, {"loss": {"scale": 9.0}})["loss"] == {"name": "gcl", "scale": 9.0}
    assert merge(below, {"loss": "gcl"})["loss"] == {"name": "gcl", "scale": 20.0}
    assert merge(below, {"sampler": {"a": 0.9}})["sampler"] == {"name": "cben", "a": 0.9}
    assert below == {"loss": {"name": "gcl", "scale": 20.0}, "sampler": "cben"}


def test_options_without_a_name_are_those_of_the_default_part():
    nesterov = load_recipe("digits-lt/ce", [parse_setting("stage1.optimizer.nesterov=true")])
    assert nesterov.stage1.optimizer.model_dump() == {"name": "sgd", "nesterov": True}
    named = [parse_setting("stage1.optimizer=adamw"), parse_setting("stage1.optimizer.beta1=0.8")]
    assert load_recipe("digits-lt/ce", named[::-1]).stage1.optimizer.name == "adamw"
    assert load_recipe("digits-lt/ce", named).stage1.optimizer.options["beta1"] == 0.8
    with pytest.raises(UsageError, match=r'--set stage1.optimizer.nestrov=1: .* did you mean "nesterov"'):
        load_recipe("digits-lt/ce", [parse_setting("stage1.optimizer.nestrov=1")])


def test_later_layers_win():
    recipe = load_recipe("digits-lt/gcl", [{"stage1": {"epochs": 5}}, {"stage1": {"epochs": 6}}, {"seed": 4}])
    assert (recipe.stage1.epochs, recipe.stage2.epochs, recipe.seed) == (6, 10, 4)
    assert recipe.stage1.mixup == 0.4


def test_without_a_name_the_data_has_its_own_recipe():
    assert load_recipe(None).data.spec == "digits-lt"
    for spec in ("cifar100-lt:50", "cifar100"):
        recipe = load_recipe(None, [{"data": spec}])
        assert (recipe.data.spec, recipe.model.backbone) == (spec, "resnet32")


@pytest.mark.parametrize("method", ["gcl", "best", "ldam", "gcl+crt"])
def test_a_name_with_a_ratio_is_the_recipe_on_that_data(method):
    recipe = load_recipe(f"cifar100-lt:200/{method}")
    assert recipe == load_recipe(f"cifar100-lt/{method}", [{"data": "cifar100-lt:200"}])
    assert recipe == load_recipe(f"cifar100-lt:200.0/{method}", [{"data": {"spec": "cifar100-lt:200"}}])
    assert recipe.data.spec == "cifar100-lt:200"
    text = find_recipe(f"cifar100-lt:200/{method}").read_text(encoding="utf-8")
    assert text.startswith(f"# tailcloud train cifar100-lt:200/{method} --root data\n")
    assert "top-1" not in text  # the figures are of another ratio
    assert 'data = "cifar100-lt:200"\n' in text
    same = find_recipe(f"cifar100-lt:100/{method}").read_text(encoding="utf-8")
    assert same == find_recipe(f"cifar100-lt/{method}").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        (
            "cifar100-lt:200/gcl",
            "cifar100-lt:50",
            r'names the data cifar100-lt:200, and data = "cifar100-lt:50" is set',
        ),
        ("cifar100-lt:100/gcl", "photos/", r"or write cifar100-lt/gcl"),
        ("cifar100-lt:0/gcl", None, r"must be a number of at least 1"),
        ("cifar100-lt:/gcl", None, r"must be a number of at least 1"),
        ("imagenet-lt:100/gcl", None, r"imagenet-lt has a fixed imbalance"),
        ("own:5/gcl", None, r'there is no recipe "own:5/gcl"; did you mean "own/gcl"'),
        ("cifar100-lt:200/gcll", None, r'there is no method "gcll"; did you mean "gcl"'),
        ("cifar100-lt:200", None, r'"cifar100-lt:200" is data, not a recipe; write .* such as cifar100-lt:200/gcl'),
        ("digits-lt/", None, r"is data, not a recipe; write digits-lt/METHOD"),
        ("cifar100-lt/bst", None, r'did you mean "best"\? Known: .*mislas-10, mislas-50'),
        ("cifar100-lt/best+crt", None, r'there is no method "best"; known: balanced-softmax'),
    ],
)
def test_a_name_that_is_no_recipe_gets_a_way_out(name, data, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe(name, [{"data": data}] if data else [])


def test_a_run_folder_is_a_recipe(finished_run):
    assert load_recipe(str(finished_run)) == load_recipe(str(finished_run / "recipe.toml"))


def test_nothing_is_coerced():
    for table in ({"stage1": {"epochs": 3.0}}, {"seed": True}, {"augment": {"flip": 1}}, {"data": 5}):
        with pytest.raises(UsageError):
            resolve(table)
    assert resolve({"stage1": {"lr": 1}}).stage1.lr == 1.0


@pytest.mark.parametrize("data", data_sets())
@pytest.mark.parametrize("method", shipped("methods"))
def test_every_method_has_a_recipe_for_every_data_set(data, method):
    recipe, baseline = load_recipe(f"{data}/{method}"), load_recipe(f"{data}/ce")
    assert (recipe.method, recipe.data.spec) == (method, baseline.data.spec)
    backbone = branched(baseline.model.backbone, recipe.model.branches)
    published = data.startswith("cifar") and method in {"bcl", "proco"}  # with AutoAugment and Cutout
    augment = recipe.augment.model_copy(update={"auto_augment": None, "cutout": 0}) if published else recipe.augment
    assert (recipe.model.backbone, augment) == (backbone, baseline.augment)
    assert (recipe.view_augment is not None) == published
    assert recipe.stage1.epochs == baseline.stage1.epochs


def test_a_composed_recipe_reads_like_a_file():
    text = find_recipe("cifar10-lt/ldam-drw").read_text(encoding="utf-8")
    first, second, *_ = text.splitlines()
    assert first == "# tailcloud train cifar10-lt/ldam-drw --root data"
    assert "top-1" not in second
    assert tomllib.loads(text)["method"] == "ldam-drw"
    assert resolve(tomllib.loads(text)) == load_recipe("cifar10-lt/ldam-drw")


def test_a_method_that_does_not_exist_is_named():
    with pytest.raises(UsageError, match='no method "ldam-dwr"; did you mean "ldam-drw"'):
        load_recipe("digits-lt/ldam-dwr")


def test_a_plus_lays_the_second_stage_of_one_method_behind_the_first_of_another():
    both, first, second = (resolve({"method": name}) for name in ("ldam+gcl", "ldam", "gcl"))
    assert both.method == "ldam+gcl"
    assert (both.model, both.stage1, both.stage2) == (first.model, first.stage1, second.stage2)
    assert resolve(tomllib.loads(both.to_toml())) == both
    assert load_recipe("cifar10-lt/ldam+gcl").stage2 == second.stage2


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("gcl+ce", "ce has no second stage"),
        ("gcl+crx", 'no method "crx"'),
        ("gcx+gcl", 'no method "gcx"; did you mean "gcl"'),
        ("gcl+", 'no method ""'),
        ("gcl+gcl+gcl", 'no method "gcl.gcl"'),
    ],
)
def test_a_plus_between_methods_that_do_not_fit_is_a_sentence(method, sentence):
    with pytest.raises(UsageError, match=sentence):
        resolve({"method": method})


@pytest.mark.parametrize(
    ("method", "scale"),
    [("gcl+crt", 30.0), ("gcl+logit-adjust-posthoc", 30.0), ("ldam+lws", 30.0), ("ce+crt", 1.0), ("gcl+ncm", 1.0)],
)
def test_a_second_stage_on_cosines_has_the_scale_of_the_first(method, scale):
    assert resolve({"method": method}).stage2.loss.options["scale"] == scale


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        (["stage1.loss.scale=16.0"], 16.0),
        (["stage1.loss=ldam"], 30.0),
        (["stage1.loss.scale=16.0", "stage2.loss.scale=20.0"], 20.0),
        (["model.head=linear", "stage1.loss=ce"], 1.0),
    ],
)
def test_it_follows_the_first_stage_as_it_is_trained_and_not_as_its_method_has_it(settings, scale):
    recipe = load_recipe("digits-lt/gcl+logit-adjust-posthoc", [parse_setting(setting) for setting in settings])
    assert recipe.stage2.loss.options["scale"] == scale


def test_a_loss_of_ones_own_may_have_a_scale_that_is_no_option(monkeypatch):
    class Fixed(Loss):
        def __init__(self, counts):
            super().__init__(25.0)

    monkeypatch.setitem(LOSSES, "fixed", Fixed)
    recipe = load_recipe("digits-lt/gcl+crt", [parse_setting("stage1.loss=fixed")])
    assert recipe.stage2.loss.options["scale"] == 25.0
    recipe = load_recipe("digits-lt/gcl+crt", [parse_setting("stage2.loss=fixed")])
    assert recipe.stage2.loss.options == {}


def test_a_composed_recipe_of_two_methods_has_the_settings_of_each_on_the_data():
    both, first = load_recipe("digits-lt/gcl+crt"), load_recipe("digits-lt/gcl")
    assert (both.stage1, both.model) == (first.stage1, first.model)
    assert both.stage2.epochs == load_recipe("digits-lt/crt").stage2.epochs
    theirs = load_recipe("cifar100-lt/mislas").stage2
    assert load_recipe("cifar100-lt/gcl+mislas").stage2.lr_factors == theirs.lr_factors
    assert load_recipe("cifar100-lt/ce-mixup+mislas").stage2 == theirs
    text = find_recipe("digits-lt/gcl+crt").read_text(encoding="utf-8")
    assert text.startswith("# tailcloud train digits-lt/gcl+crt\n")
    assert "[stage2]" not in text


def test_data_are_a_name_or_a_table_and_settings_reach_into_both():
    short, full = (
        load_recipe("digits-lt/gcl", [{"data": data}]) for data in ("digits-lt:20", {"spec": "digits-lt:20"})
    )
    assert short == full
    assert short.substance()["data"] == "digits-lt:20"
    own = load_recipe("own/gcl", [{"data": "./photos"}, {"data": {"size": 64}}])
    assert (own.data.spec, own.data.size, own.data.read_options.size) == ("./photos", 64, 64)
    assert own.substance()["data"]["size"] == 64
    assert load_recipe("own/gcl", [own.substance()]).data == own.data
    assert load_recipe("own/gcl", [{"data": {"size": 64}}, {"data": "./photos"}]).data == own.data


def test_how_images_reach_the_model_is_written_down_and_no_substance():
    plain, streamed = (
        load_recipe("own/gcl", [{"data": "./photos"}, {"data": data}]) for data in ({}, {"loader": "stream"})
    )
    assert streamed.data.read_options.loader == "stream"
    assert streamed.substance() == plain.substance()
    assert plain.substance()["data"] == "./photos"
    assert 'loader = "stream"' in streamed.to_toml()
    sized = load_recipe("own/gcl", [{"data": "./photos"}, {"data": {"loader": "stream", "size": 64}}])
    assert sized.substance()["data"]["size"] == 64
    assert "loader" not in sized.substance()["data"]


def test_a_path_is_data_of_ones_own(tmp_path):
    for spec in (str(tmp_path), "photos/", "list.csv", "arrays.npz"):
        assert load_recipe(None, [{"data": spec}]).data.spec == spec
    with pytest.raises(UsageError, match='did you mean "digits-lt"'):
        load_recipe(None, [{"data": "digit-lt"}])


@pytest.mark.parametrize("text", ["x = " + "[" * 50_000, "x = " + "1" * 5_000])
def test_nesting_and_numbers_beyond_all_bounds_are_no_recipe(text, tmp_path):
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(UsageError, match=r"recipe\.toml is not a recipe"):
        load_recipe(str(tmp_path / "recipe.toml"))


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("digits-lt/gcl", {"name": "gcl", "scale": 20.0}),
        ("digits-lt/ce", {"name": "ce", "scale": 1.0}),
        ("digits-lt/gcl+crt", {"name": "ce", "scale": 30.0}),
    ],
)
def test_a_third_stage_can_be_laid_behind_any_method_and_trains_nothing_unasked(name, loss):
    plain = load_recipe(name)
    recipe = load_recipe(name, [parse_setting("stage3.head_transform=tuned-logit-adjust")])
    last = list(plain.stages.values())[-1]
    assert (recipe.stage3.epochs, recipe.stage3.train, recipe.stage3.batch) == (0, "head", last.batch)
    assert recipe.stage3.loss == last.loss
    assert loss.items() <= recipe.stage3.loss.model_dump().items()
    assert recipe.model_copy(update={"stage3": None}) == plain
    assert resolve(tomllib.loads(recipe.to_toml())) == recipe


def test_a_third_stage_follows_what_was_set_of_the_second():
    settings = ["stage2.loss.scale=12.0", "stage3.head_transform=tuned-logit-adjust", "stage3.epochs=2"]
    recipe = load_recipe("digits-lt/gcl", [parse_setting(setting) for setting in settings])
    assert (recipe.stage3.loss.options["scale"], recipe.stage3.epochs) == (12.0, 2)
    other = load_recipe("digits-lt/gcl", [parse_setting("stage3.loss=ce"), parse_setting("stage3.loss.scale=9.0")])
    assert (other.stage3.loss.name, other.stage3.loss.options["scale"]) == ("ce", 9.0)


@pytest.mark.parametrize(
    ("name", "setting", "sentence"),
    [
        ("gcl", "stage3=5", r"stage3 = 5 should be a table"),
        ("gcl", "stage3.epcohs=5", r'no field "stage3\.epcohs"; did you mean "stage3\.epochs"'),
        (
            "oltr",
            "stage3.head_transform=tuned-logit-adjust",
            r'head_transform=tuned-logit-adjust: "tuned-logit-adjust" cannot change a memory head',
        ),
        ("gcl", "stage3.loss.scale=1.0", r"stage3\.loss\.scale = 1 is too small for a cosine head"),
    ],
)
def test_a_third_stage_that_cannot_be_is_a_sentence(name, setting, sentence):
    with pytest.raises(UsageError, match=sentence):
        load_recipe(f"digits-lt/{name}", [parse_setting(setting)])


def test_a_methods_own_third_stage_goes_with_its_second(monkeypatch):
    text = (
        shipped("methods")["gcl"].read_text()
        + '[stage3]\nepochs = 0\nhead_transform = "tuned-logit-adjust"\nloss = {name = "ce", scale = 20.0}\n'
    )
    monkeypatch.setitem(PLUGIN_METHODS, "tuned", PluginMethod("tuned", text))
    assert resolve({"method": "tuned"}).stage3.head_transform.name == "tuned-logit-adjust"
    assert resolve({"method": "tuned+crt"}).stage3 is None
    assert resolve({"method": "ce+tuned", "model": {"head": "cosine"}, "stage1": {"loss": {"scale": 30.0}}}).stage3


@pytest.mark.parametrize("setting", ["seed=" + "1" * 5_000, "seed=" + "[" * 5_000, "data.spec" + ".a" * 5_000 + "=1"])
def test_numbers_and_tables_beyond_all_bounds_are_refused_in_one_sentence(setting, tmp_path):
    with pytest.raises(UsageError, match=r"too many|too deeply"):
        load_recipe("digits-lt/gcl", [parse_setting(setting)])
    data = "" if setting.startswith("data") else 'data = "digits-lt"\n'
    (tmp_path / "recipe.toml").write_text(f"{data}{setting}\n")
    with pytest.raises(UsageError, match=r"too large|too deeply"):
        load_recipe(str(tmp_path / "recipe.toml"))


def test_a_recipe_of_a_windows_editor_is_read(tmp_path):
    (tmp_path / "mine.toml").write_bytes(b'\xef\xbb\xbfdata = "digits-lt"\r\nseed = 3\r\n')
    assert load_recipe(str(tmp_path / "mine.toml")).seed == 3


class UnhashableLoss:
    """A plugin may register any callable."""

    __hash__ = None

    def __call__(self, counts, *, margin: float = 0.5):
        return LOSSES["ce"](counts)


def test_the_options_of_a_part_that_has_no_hash_are_known(monkeypatch):
    monkeypatch.setitem(LOSSES, "unhashable", UnhashableLoss())
    recipe = load_recipe("digits-lt/ce", [{"stage1": {"loss": "unhashable"}}])
    assert recipe.stage1.loss.options == {"margin": 0.5}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.size=abc"], '--set data.size=abc: data.size = "abc" should be a valid integer'),
        (["data.sise=96"], '--set data.sise=96: there is no field "data.sise"; did you mean "data.size"?'),
        (["stage1.loss=gcx", "seed=3"], '--set stage1.loss=gcx: there is no part "gcx"; did you mean "gcl"?'),
        (
            ["stage2.sampler=en", "stage2.sampler.beta=1.5"],
            "--set stage2.sampler=en --set stage2.sampler.beta=1.5: β must lie in [0, 1]",
        ),
    ],
)
def test_an_error_about_a_setting_names_what_was_typed(settings, sentence):
    with pytest.raises(UsageError) as error:
        load_recipe("own/gcl", [*map(parse_setting, settings), {"data": "./photos"}])
    assert str(error.value).startswith(sentence)


def test_an_error_about_the_recipe_itself_names_the_recipe(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "digits-lt"\nstage1 = {epochs = -1}\n')
    with pytest.raises(UsageError, match=r"mine.toml: stage1.epochs = -1 should be"):
        load_recipe(str(file), [parse_setting("stage1.lr=0.1")])


def test_recipes_with_names_of_their_own_are_listed_beside_those_of_methods():
    assert {"best", "mislas-50"} <= set(further_recipes("cifar100-lt"))
    assert not set(further_recipes("cifar100-lt")) & set(shipped("methods"))
    assert further_recipes("cifar100") == []
