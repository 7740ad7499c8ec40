"""Tiled video VAE: a causal 3-D autoencoder that codes large clips tile by tile."""
