"""A network for objectives whose features are its images."""


class Flat:
    """Features are the images; counts how often they were asked for."""

    def __init__(self, head):
        self.head, self.calls = head, 0

    def features(self, images):
        self.calls += 1
        return images

    def __call__(self, images):
        return self.head(self.features(images))
