"""Inside: what runs in the process of the script, and what a change may ask of it there."""
