"""scikit-learn's own checks of an estimator, but for those that ask for something else than images."""

import pytest
from sklearn.utils import estimator_checks

from helpers.estimator_rows import OnRows
from tailcloud import LongTailClassifier
from tailcloud.auto_recipe import timing

QUICK = {"model.width": 0.25, "stage1.lr": 0.02, "stage1.warmup": 0}
PATIENT = {"model.width": 0.5, "stage1.lr": 0.05, "stage1.warmup": 1, "augment.crop_padding": 0}
NOT_HERE = {
    "check_classifiers_train": "two epochs do not learn; it has a test of its own, with more of them",
    "check_methods_subset_invariance": "in another batch float32 sums differ in the seventh digit, and it allows none",
}
WITHOUT_DATA = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_mixin_order,
    estimator_checks.check_estimators_unfitted,
]


@pytest.fixture(autouse=True)
def _no_time_for_timing(monkeypatch):
    monkeypatch.setattr(timing, "MIN_TIMED_SECONDS", {"cpu": 0.001})


@pytest.mark.parametrize("check", WITHOUT_DATA, ids=lambda check: check.__name__)
def test_the_classifier_itself_keeps_the_rules_that_need_no_data(check):
    check("LongTailClassifier", LongTailClassifier())


@pytest.mark.filterwarnings("ignore")
@estimator_checks.parametrize_with_checks([OnRows("ce", epochs=2, device="cpu", settings=QUICK)])
def test_behind_a_transformation_of_rows_it_keeps_the_others(estimator, check):
    if check.func.__name__ in NOT_HERE:
        pytest.skip(NOT_HERE[check.func.__name__])
    check(estimator)


def test_it_learns_what_the_checks_want_learnt():
    estimator = OnRows("ce", epochs=20, device="cpu", settings=PATIENT)
    estimator_checks.check_classifiers_train("OnRows", estimator)
