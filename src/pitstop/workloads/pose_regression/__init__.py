"""Camera pose regression helped by views rendered from 3-D Gaussians (report 004)."""
