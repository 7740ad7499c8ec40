"""The words everybody shares. Imports nothing of ours, and never torch."""
