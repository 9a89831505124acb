"""Trained models in use: ``tailcloud.load(RUN)``."""

from tailcloud.serving.load import TrainedClassifier, load

__all__ = ["TrainedClassifier", "load"]
