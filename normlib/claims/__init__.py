"""What is claimed about the layers: the register, the call that decides, the tables of both."""

from normlib.claims.decision import Decision, LedgerError, decide, verdict
from normlib.claims.entries import (
    CONDITIONS,
    FALSE,
    HOLDS,
    OPEN,
    Claim,
    Register,
    Slip,
    read,
    register,
)
from normlib.claims.tables import Errata, Ledger
