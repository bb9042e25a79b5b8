"""Out-of-memory errors: what a pasted text says, which tensor it was, who held the memory, what to change."""

from core.oom.diagnosis import Diagnosis, diagnose
from core.oom.facts import Facts, facts_from

__all__ = ["Diagnosis", "Facts", "diagnose", "facts_from"]
