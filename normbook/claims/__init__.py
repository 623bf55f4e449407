"""The claims about the layers: the register, the call that decides, the tables of both."""

from normbook.claims.decision import Decision, LedgerError, decide, verdict
from normbook.claims.entries import (
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
from normbook.claims.intervals import Interval, interval
from normbook.claims.tables import Errata, Ledger, Said, Slips
