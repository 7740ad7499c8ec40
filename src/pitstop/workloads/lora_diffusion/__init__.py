"""LoRA training and serving on a FLUX-shaped diffusion transformer, as found in the field."""
