"""Spike-camera video deblurring with a video restoration transformer (field report 001)."""
