"""``pitstop run --guard``: an unedited script that takes no step with numbers that are not finite.

``begin`` puts ``parts.nan_guard`` around every optimizer of the script. ``batches`` remembers what
the loaders gave for the last steps. After a bad step it gives that batch once more, and ``replay``
looks at the repeated step: at each operation, and at the graph behind the loss. ``story`` says in
one line what it found.
"""
