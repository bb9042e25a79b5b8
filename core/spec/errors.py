"""The errors a user can cause or meet. Each message says what was wrong, with which value, and what to do."""

from __future__ import annotations


class VramscopeError(Exception):
    """Base of every error that is shown as one line instead of a traceback."""


class InvalidSpec(VramscopeError):
    """A run's description cannot be executed as written."""


class NotAvailable(VramscopeError):
    """The description is valid, but this installation cannot execute it (yet)."""


class NoSuchDevice(VramscopeError):
    """The device named does not exist here, or cannot be used."""


class NoSuchRun(VramscopeError):
    """No run or experiment has this id in the data folder."""


class JobFailed(VramscopeError):
    """A run cannot go on, for a reason outside its job."""


class DataFolderError(VramscopeError):
    """The data folder cannot be read or written."""
