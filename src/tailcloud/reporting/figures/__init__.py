"""The figures of a report, as SVG.

``svg`` has the canvas, scales and axes. ``class_plots``: training images and accuracy of each class; ``shot_groups``:
bars for many, medium and few; ``learning_curves``: loss, learning rate and accuracy by epoch; ``gradient_curves``:
softmax saturation; ``confusion``: confusion matrix; ``reliability``: calibration; ``embedding_maps``: t-SNE maps.
"""
