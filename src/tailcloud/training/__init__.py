"""Training a run. Start with ``loop``: it reads from top to bottom.

* A run in memory: ``session`` (all of it), ``model``, ``run_images``, ``engine`` (executor, precision), ``devices``.
* The stages of a run: ``stages/``. How steps are run: ``executors/``. Several processes: ``distributed/``.
* After an epoch or a stage: ``stage_metrics``, ``tensorboard_log``. At the end: ``run_examples``, ``run_result``.
* Saving and stopping: ``checkpoint_policy`` (when to save), ``resume`` (from a checkpoint), ``signals`` (SIGTERM).
* ``schedule`` is the learning rate of each epoch, ``run_cost`` estimates what a run takes.
"""
