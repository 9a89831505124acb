"""The classifier with scikit-learn's manners: ``tailcloud.LongTailClassifier``."""

from tailcloud.estimator.longtail_classifier import LongTailClassifier

__all__ = ["LongTailClassifier"]
