"""A stream of allocations replayed through the model of the allocator, on a card with so much free."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.simulate.allocator.blocks import Block
from core.simulate.allocator.caching import CachingAllocator
from core.simulate.allocator.driver import Driver
from core.simulate.allocator.errors import OutOfMemory
from core.simulate.allocator.expandable import ExpandableAllocator
from core.simulate.allocator.settings import AllocatorSettings
from core.simulate.allocator.sizes import round_up
from core.simulate.outside import PAGE, PLAN_ROOM
from core.simulate.stream import Mark, Stream
from core.spec.deepspeed_workspace import Workspace, sizing


@dataclass(frozen=True)
class Level:
    """Where a replay stood at a mark: bytes, and the position among the events."""

    mark: Mark
    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int
    used: int


@dataclass(frozen=True)
class Failure:
    """The allocation that failed. number: None where it was not the pool's. requested: what the tensor needs."""

    position: int
    number: int | None
    message: str
    requested: int | None
    asked: int
    kind: str  # oom, or exception where a library reports it in words of its own
    free: int


@dataclass
class Replay:
    """What came out. `grown`: (position, bytes in use on the card) whenever that changed outside the pool."""

    allocator: CachingAllocator
    driver: Driver
    levels: list[Level] = field(default_factory=list)
    outside: list[tuple[int, str, int]] = field(default_factory=list)
    failure: Failure | None = None
    numbers: list[int] = field(default_factory=list)  # of the allocations that got memory, in order
    workspace: dict[str, int] | None = None
    alloc_positions: list[int] = field(default_factory=list)  # theirs among the events
    last_position: int = 0


def replay(stream: Stream, *, total: int, free: int, settings: AllocatorSettings) -> Replay:
    """Replay `stream` on a card of `total` bytes of which `free` are free before the process starts."""
    driver = Driver(free, total)
    allocator = (ExpandableAllocator if settings.expandable else CachingAllocator)(driver, settings)
    done = Replay(allocator, driver)
    blocks: list[Block | None] = []
    position, plans = 0, PAGE - PLAN_ROOM
    for mark in (*stream.marks, Mark(len(stream.events), "stop")):
        try:
            _play(stream.events[position : mark.position], allocator, blocks)
        except OutOfMemory as error:
            at = _failed_at(stream, position, len(blocks))
            done.failure = Failure(at, len(blocks), str(error), error.requested, error.segment, "oom", error.free)
            break
        position = mark.position
        if mark.kind == "outside":
            if not driver.take(mark.size):
                done.failure = _outside_failure(mark, driver)
                break
            done.outside.append((position, mark.name, mark.size))
        elif mark.kind == "workspace" and stream.workspace is not None:
            found = sizing(**stream.workspace._asdict()).at(driver.free)
            size = round_up(found.size, PAGE)
            if found.tokens <= 0 or not driver.take(size):
                done.failure = _workspace_failure(mark, driver, found)
                break
            done.outside.append((position, mark.name, size))
            done.workspace = {"free_bytes": driver.free + size, "taken_bytes": size, "tokens": found.tokens}
        elif mark.kind == "plan":
            plans += mark.size
            if plans > PAGE:
                plans -= PAGE
                if driver.take(PAGE):  # a plan that finds no room is done without
                    done.outside.append((position, mark.name, PAGE))
        elif mark.kind == "empty_cache":
            allocator.empty_cache()
        done.levels.append(
            Level(
                mark,
                allocator.allocated,
                allocator.reserved,
                allocator.peak_allocated,
                allocator.peak_reserved,
                driver.used,
            )
        )
    done.numbers = [number for number, block in enumerate(blocks) if block is not None]
    done.last_position = done.failure.position if done.failure else len(stream.events)
    done.alloc_positions = [at for at, event in enumerate(stream.events[: done.last_position]) if event > 0]
    return done


def _play(events: list[int], allocator: CachingAllocator, blocks: list[Block | None]) -> None:
    """The hot loop. A scratch buffer whose rule gives 0 bytes is not asked for."""
    malloc, release, append = allocator.malloc, allocator.release, blocks.append
    for event in events:
        if event > 0:
            append(malloc(event))
        elif event:
            block = blocks[~event]
            if block is not None:
                release(block)
        else:
            append(None)


def _failed_at(stream: Stream, position: int, number: int) -> int:
    """The position of allocation `number`, from `position` on."""
    seen = sum(event >= 0 for event in stream.events[:position])
    for offset, event in enumerate(stream.events[position:]):
        if event >= 0:
            if seen == number:
                return position + offset
            seen += 1
    return len(stream.events)


def _workspace_failure(mark: Mark, driver: Driver, found: Workspace) -> Failure:
    """GenWorkSpace's own words (csrc/transformer/inference/includes/inference_context.h)."""
    message = f"Workspace can't be allocated: {driver.free} bytes are free, {found.tokens} tokens would fit"
    return Failure(mark.position, None, message, None, found.size, "exception", driver.free)


def _outside_failure(mark: Mark, driver: Driver) -> Failure:
    """Libraries report the lack of memory in their own words."""
    if mark.name == "cuBLAS":
        message = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
        return Failure(mark.position, None, message, None, mark.size, "exception", driver.free)
    message = f"CUDA error: out of memory ({mark.name} needs {mark.size >> 20} MiB, {driver.free >> 20} MiB are free)"
    return Failure(mark.position, None, message, None, mark.size, "oom", driver.free)
