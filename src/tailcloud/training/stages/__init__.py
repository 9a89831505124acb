"""One stage of training.

``start`` puts the stage's head into the model, ``parts`` makes what the stage trains with, ``trainable`` freezes the
rest. ``factory`` makes a loss, an objective or a head transform from the recipe; ``cost`` counts images and FLOPs.
"""
