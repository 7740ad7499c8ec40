"""Is this machine set up well? Reads it, measures its limits and judges it by rules."""
