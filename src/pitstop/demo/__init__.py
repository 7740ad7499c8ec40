"""What `pitstop demo` tunes: a small training with defects that real scripts have."""
