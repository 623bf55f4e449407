"""What the pages show: shipped source, derivations step by step, pictures."""

from normlib.book.pictures import planted_picture
from normlib.book.source import CheatSheet, Entry, Reference, Source, entry
from normlib.book.steps import Mean, StepError, Steps, mean
