"""Pitstop: find what makes a PyTorch image or video project slow, fix it, and prove it."""

__version__ = "0.1.0"
