"""The scikit-learn estimator: ``tailcloud.LongTailClassifier``."""

from tailcloud.estimator.longtail_classifier import LongTailClassifier

__all__ = ["LongTailClassifier"]
