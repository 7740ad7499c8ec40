"""Ledger: split the median step by cause. Pure arithmetic on saved evidence."""

from pitstop.core.evidence import Evidence
from pitstop.core.ledger import Ledger
from pitstop.core.machine import Limits


def account(evidence: Evidence, limits: Limits | None) -> Ledger:
    """The ledger of one process that finished undisturbed steps."""
    raise NotImplementedError
