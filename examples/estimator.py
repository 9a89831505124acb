"""A classifier with scikit-learn's interface, on long-tailed digits: fit, score, compare, save. Some ten seconds."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_score

from tailcloud import LongTailClassifier
from tailcloud.data import open_dataset

digits = open_dataset("digits-lt")  # grey images of 8×8 pixels: 120 of the zero, 2 of the nine
names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
images, labels = digits.train.pixels, names[digits.train.labels]
new_images, new_labels = digits.test.pixels, names[digits.test.labels]

classifier = LongTailClassifier(epochs=30, device="cpu")  # without epochs, as many as the data need
classifier.fit(images, labels)

answers = classifier.predict(new_images)
print("accuracy", classifier.score(new_images, new_labels))
print("balanced accuracy", balanced_accuracy_score(new_labels, answers))
print("probabilities", classifier.predict_proba(new_images[:1]).round(2), "of", classifier.classes_)

for method in ("ce", "gcl"):  # on classes that have an image for each fold
    common = np.isin(labels, names[:8])
    candidate = LongTailClassifier(method, epochs=10, device="cpu")
    scores = cross_val_score(candidate, images[common], labels[common], cv=2, scoring="balanced_accuracy")
    print(method, scores.mean().round(3))

folder = Path(tempfile.mkdtemp(), "digits")
classifier.save(folder)  # a run folder: "tailcloud predict", "export" and "report" read it too
again = LongTailClassifier.load(folder)
assert (again.predict(new_images) == answers).all()
