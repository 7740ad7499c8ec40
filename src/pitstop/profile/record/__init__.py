"""Record: what the hooks see, as slices of time, written down as the run goes."""
