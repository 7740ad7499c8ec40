"""Ledger: the median step split by cause, and the measures that it is split by."""
