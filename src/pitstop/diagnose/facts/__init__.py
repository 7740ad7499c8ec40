"""Facts: what rules ask of a recording, each worked out in one place."""
