"""Try changes on an unedited script, guard its numbers, keep what is proved."""
