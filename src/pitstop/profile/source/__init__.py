"""Source: which line and which name of the user's text is behind what torch does."""
