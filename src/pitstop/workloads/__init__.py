"""The five systems of the field reports, as found and after the pit stop."""
