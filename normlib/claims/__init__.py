"""What is claimed about the layers: the register, the call that decides, the tables of both."""

from normlib.claims.decision import Decision, LedgerError, decide, verdict
from normlib.claims.entries import (
    COMPUTATION,
    CONDITIONS,
    EVIDENCE,
    EXPERIMENT,
    FALSE,
    HOLDS,
    LIMIT,
    OPEN,
    PROOF,
    UNDECIDED,
    VERDICTS,
    Claim,
    Lines,
    Passage,
    Register,
    Slip,
    read,
    register,
)
from normlib.claims.intervals import Interval, interval
from normlib.claims.tables import Errata, Ledger, Said, Slips
