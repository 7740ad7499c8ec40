"""How a kept change is written into the user's source, one per file, named after the change."""
