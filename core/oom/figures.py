"""Figures as error texts print them: rounded, with units, and sometimes not a size at all."""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"b": 1, "byte": 1, "bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50}
UNITS |= {"kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "gigabytes": 2**30}
"""Every source of these texts divides by 1024, whatever it calls the unit: MPS printed 18.13 as GB, later as GiB."""

NO_VALUE = 2**64
"""What torch prints, as 17179869184.00 GiB, for `not available` or `no limit`."""

ABSURD = 2**63

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,8})?)([a-z]*)")


def size_group(name: str) -> str:
    """A pattern for a size in squeezed text, such as `642.00mib`, under a group's name."""
    return rf"(?P<{name}>\d{{1,20}}(?:\.\d{{1,8}})?(?:bytes?|[kmgtp]i?b|b))"


def parse_size(text: str) -> int:
    """Bytes, rounded to a whole number: `10.73gib` is 11521249772."""
    match = _SIZE.fullmatch(text)
    assert match, text
    return round(Decimal(match[1]) * UNITS[match[2] or "b"])


def print_step(text: str) -> int:
    """Bytes between two neighbouring values of a printed size: 0 where it is exact, 10,737,418 for `3.17gib`."""
    match = _SIZE.fullmatch(text)
    assert match, text
    unit, decimals = UNITS[match[2] or "b"], len(match[1].partition(".")[2])
    return 0 if unit == 1 else round(unit / 10**decimals)
