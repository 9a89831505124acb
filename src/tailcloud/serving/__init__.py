"""Using trained models: load, predict, evaluate, embed, export."""

from tailcloud.serving.load import TrainedClassifier, load

__all__ = ["TrainedClassifier", "load"]
