"""Faults are injected into the same data folder with scripted workers that the tests of the queue use."""

from tests.runs.conftest import act, home

__all__ = ["act", "home"]
