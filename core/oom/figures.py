"""Figures as error texts print them: rounded, with units, and sometimes not a size at all."""

from __future__ import annotations

UNITS = {"b": 1, "byte": 1, "bytes": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50}
UNITS |= {"kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "gigabytes": 2**30}
UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""Every source of these texts divides by 1024, whatever it calls the unit: MPS printed 18.13 as GB, later as GiB."""

NO_VALUE = 2**64
"""What torch prints, as 17179869184.00 GiB, for `not available` or `no limit`."""

ABSURD = 2**63

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def size_group(name: str) -> str:
    """A pattern for a size in squeezed text, such as `642.00mib`, under a group's name; some write `3,17gib`."""
    return rf"(?P<{name}>\d{{1,20}}(?:[.,]\d{{1,8}})?(?:bytes?|[kmgtp]i?b|b))"


def parse_size(text: str) -> int:
    """Bytes, rounded to a whole number: `10.73gib` is 11521249772. A bare number is bytes."""
    return figure(text)[0]


def figure(text: str) -> tuple[int, int]:
    """Bytes, and bytes between two neighbouring values of the print: 0 where exact, 10,737,418 for `3.17gib`."""
    number = text.rstrip(_LETTERS)
    unit = UNITS[text[len(number) :] or "b"]
    whole, _, decimals = number.replace(",", "" if unit == 1 else ".").partition(".")
    value, parts = int(whole + decimals) * unit, 10 ** len(decimals)
    # every unit but 1 has more factors of two than `parts`, so that nothing lies halfway
    return (2 * value + parts) // (2 * parts), 0 if unit == 1 else (2 * unit + parts) // (2 * parts)
