"""What cannot be simulated. The run then fails with this text, and shows no number."""

from __future__ import annotations


class NotSimulated(Exception):
    """The job's code needs something that tensors without data do not have, or that is not modelled yet."""
