"""The rest of a decode loop from its first steps: each makes the allocations of the one before, of sizes that grow with
the step as a polynomial of degree 2 at most (a cache by one token, attention without a cache by a square).

Whether that holds is looked at, on the last four recorded steps; where it does not, the loop is traced to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from core.simulate.stream import Mark, Stream, Varying

CHECKED = 4
"""Steps that have to be alike; a third difference takes four."""

LEAST = CHECKED + 2
"""Steps to record: those before the checked ones may be different, as a pool warms up."""


@dataclass(frozen=True)
class _Step:
    """One step. `shape`: None for an allocation, (age in steps, ordinal) for the free of an allocation of a step,
    (-1, number) for one from before the loop. `numbers`: of its allocations, in order. `marked`: what happens in it.
    `places`: of the allocations; `lasting`: ordinals of those that the process keeps."""

    shape: tuple[tuple[int, int] | None, ...]
    numbers: tuple[int, ...]
    marked: tuple[tuple[int, str, str, int], ...]
    places: tuple[int, ...]
    lasting: tuple[int, ...]


def extended(stream: Stream, total: int) -> bool:
    """Make the stream of the same job with `total` passes after the first one, out of one that has a few.

    The steps but the last are regular; more of them are put in before the last, which has what a job does at its end.
    False, and nothing is changed, when the recorded steps do not show how they go on.
    """
    begins = [mark.position for mark in stream.marks if mark.kind == "step"]
    regular = len(begins) - 1
    if regular < LEAST or total <= regular + 1:
        return False
    first = _number_at(stream, begins[0])
    steps = _steps(stream, [*begins, len(stream.events)], first)
    alike, model, last = steps[-CHECKED - 1 : -1], steps[-2], steps[-1]
    if any(step.shape != model.shape or step.marked != model.marked for step in alike):
        return False
    if any(part is not None and part[0] < 0 for part in model.shape):
        return False  # each frees what was there before the loop: that cannot go on
    sizes = _sizes(stream)
    growth = _growth(stream, [[sizes[n] for n in step.numbers] for step in alike], alike)
    if growth is None:
        return False
    ending = _ending(steps, growth, sizes, total)
    if ending is None:
        return False
    tail = [mark for mark in stream.marks if mark.position > begins[-1] and mark.kind != "step"]
    _cut(stream, begins[-1], last)
    _append(stream, steps[:-1], growth, total - regular - 1)
    begin = len(stream.events)
    number = len(stream.sites)
    stream.events += [event if event >= 0 else ~_at(~event, number, steps, total) for event in ending]
    stream.sites += last.places
    stream.lasting |= {number + ordinal for ordinal in last.lasting}
    stream.marks += [mark._replace(position=mark.position - begins[-1] + begin) for mark in tail]
    return True


def _cut(stream: Stream, position: int, last: _Step) -> None:
    """Take the last step off. Its mark stays: the first of the steps that are put in begins where it began."""
    del stream.events[position:]
    del stream.sites[last.numbers[0] if last.numbers else len(stream.sites) :]
    stream.marks[:] = [mark for mark in stream.marks if mark.position <= position]
    stream.lasting -= set(last.numbers)


def _ending(steps: list[_Step], growth: Growth, sizes: list[int], total: int) -> list[int] | None:
    """The events of the last step with its sizes at the end of the longer job; frees still have their recorded numbers.

    None where it goes another way than the steps before it, or frees what each of them kept.
    """
    last, regular = steps[-1], len(steps) - 1
    ahead = _ahead(growth, total - regular)
    expected = _ahead(growth, 1)
    recorded = [sizes[number] for number in last.numbers]
    common = next(
        (n for n, (one, other) in enumerate(zip(recorded, expected, strict=False)) if one != other),
        min(len(recorded), len(expected)),
    )
    oldest = max((part[0] for part in steps[-2].shape if part is not None), default=0)
    events, ordinal = [], 0
    for part in last.shape:
        if part is None:
            events.append(ahead[ordinal] if ordinal < common else recorded[ordinal])
            ordinal += 1
            continue
        age, which = part
        if age < 0:
            events.append(~which)
        elif age <= max(oldest, 1) or age == regular:
            events.append(~steps[regular - age].numbers[which])
        else:
            return None
    return events


def _at(number: int, begin: int, steps: list[_Step], total: int) -> int:
    """The number in the longer job of an allocation that the last step frees; its own begin at `begin`."""
    last, regular = steps[-1], len(steps) - 1
    if last.numbers and number >= last.numbers[0]:
        return begin + number - last.numbers[0]
    each = len(steps[-2].numbers)
    for age in range(1, regular + 1):
        step = steps[regular - age]
        if step.numbers and step.numbers[0] <= number <= step.numbers[-1]:
            # made in the first step for all that follow, or so many steps ago
            return number if age == regular else number + (total - 1 - regular) * each
    return number


def _number_at(stream: Stream, position: int) -> int:
    return sum(event >= 0 for event in stream.events[:position])


def _sizes(stream: Stream) -> list[int]:
    return [event for event in stream.events if event >= 0]


def _steps(stream: Stream, begins: list[int], first: int) -> list[_Step]:
    born: dict[int, tuple[int, int]] = {}
    number, steps = first, []
    for index, (begin, end) in enumerate(pairwise(begins)):
        shape: list[tuple[int, int] | None] = []
        numbers: list[int] = []
        for event in stream.events[begin:end]:
            if event >= 0:
                born[number] = (index, len(numbers))
                numbers.append(number)
                shape.append(None)
                number += 1
            else:
                made = born.get(~event)
                shape.append((-1, ~event) if made is None else (index - made[0], made[1]))
        inside = (mark for mark in stream.marks if begin <= mark.position < end and mark.kind != "step")
        marked = tuple((mark.position - begin, mark.kind, mark.name, mark.size) for mark in inside)
        places = tuple(stream.sites[n] for n in numbers)
        lasting = tuple(ordinal for ordinal, n in enumerate(numbers) if n in stream.lasting)
        steps.append(_Step(tuple(shape), tuple(numbers), marked, places, lasting))
    return steps


Growth = list[tuple[int, int, int] | tuple[Varying, int]]
"""For each allocation of a step its last size and its first and second differences, or its rule and how the argument of
that grows."""


def _growth(stream: Stream, sizes: list[list[int]], alike: list[_Step]) -> Growth | None:
    growth: Growth = []
    for ordinal, (a, b, c, d) in enumerate(zip(*sizes, strict=True)):
        rules = [stream.varying.get(step.numbers[ordinal]) for step in alike]
        last, before = rules[-1], rules[-2]
        if last is not None:
            if before is None or any(rule is None or rule.rule != last.rule for rule in rules):
                return None
            arguments = [rule.argument for rule in rules if rule is not None]
            steps = {after - earlier for earlier, after in pairwise(arguments)}
            if len(steps) != 1:
                return None
            growth.append((last, steps.pop()))
        elif d - 3 * c + 3 * b - a:
            return None
        else:
            growth.append((d, d - c, d - 2 * c + b))
    return growth


def _append(stream: Stream, steps: list[_Step], growth: Growth, count: int) -> None:
    template = steps[-1]
    places = template.places
    history = [step.numbers for step in steps]
    events, sites, number = stream.events, stream.sites, len(stream.sites)
    oldest = max((part[0] for part in template.shape if part is not None), default=0)
    for ahead in range(1, count + 1):
        mine = tuple(range(number, number + len(places)))
        recent = [mine, *history[: -oldest - 1 : -1]]
        sizes = iter(_ahead(growth, ahead))
        begin = len(events)
        for part in template.shape:
            events.append(next(sizes) if part is None else ~recent[part[0]][part[1]])
        sites.extend(places)
        stream.lasting |= {mine[ordinal] for ordinal in template.lasting}
        stream.marks += [Mark(begin + offset, kind, name, size) for offset, kind, name, size in template.marked]
        stream.marks.append(Mark(len(events), "step"))
        history.append(mine)
        number += len(places)


def _ahead(growth: Growth, steps: int) -> list[int]:
    """The sizes `steps` after the last recorded step."""
    sizes = []
    for one in growth:
        if len(one) == 2:
            varying, change = one
            sizes.append(varying.rule(varying.argument + change * steps))
        else:
            last, first, second = one
            sizes.append(last + first * steps + second * steps * (steps + 1) // 2)
    return sizes
