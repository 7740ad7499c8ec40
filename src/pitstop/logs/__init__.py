"""What went wrong in a past run? Told by its log alone, whatever wrote it.

``read`` finds the logs and gives each to its reader: ``events`` (TensorBoard) and ``wandb_file``
(W&B) by way of ``wire``, ``lines`` (CSV, JSON lines, Trainer). ``torn`` is how a reader says that
a log is damaged; what came before is kept. ``build`` makes series of the points, small however
long the log is, and ``history`` is the frozen result. ``tags`` tells what a series is about,
``numbers``, ``before`` and ``pace`` what it does. ``rules`` judge a run, ``examine`` reports.
"""
