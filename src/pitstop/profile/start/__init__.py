"""Start: the user's command as if typed, the recorder in it, and all that ends with it."""
