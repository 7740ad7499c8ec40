"""Frame interpolation: a VQ autoencoder that warps two frames into the one between."""
