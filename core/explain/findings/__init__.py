"""Rules that look at one run and say a sentence, with its numbers and the change to make."""

from core.explain.findings.finding import Case, Finding
from core.explain.findings.rules import find, ranked

__all__ = ["Case", "Finding", "find", "ranked"]
