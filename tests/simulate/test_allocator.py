"""The model of the caching allocator: invariants under any requests, and the segments that real runs took."""

from __future__ import annotations

import gzip
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from core.simulate.allocator.blocks import Block
from core.simulate.allocator.caching import CachingAllocator
from core.simulate.allocator.driver import Driver
from core.simulate.allocator.errors import OutOfMemory
from core.simulate.allocator.expandable import ExpandableAllocator
from core.simulate.allocator.settings import parse_settings
from core.spec.cards import find_card

MIB = 2**20
REFERENCE = Path(__file__).resolve().parents[2] / "bench" / "reference" / "h200"

SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5",
)


def made(settings: str, free: int = 2**40) -> CachingAllocator:
    parsed = parse_settings(settings)
    return (ExpandableAllocator if parsed.expandable else CachingAllocator)(Driver(free, 2**40), parsed)


def segments_of(allocator: CachingAllocator) -> int:
    """What the events of the segments come to."""
    sign = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
    return sum(sign[event.action] * event.size for event in allocator.segments)


def chain(block: Block) -> list[Block]:
    while block.prev is not None:
        block = block.prev
    found = []
    following: Block | None = block
    while following is not None:
        found.append(following)
        following = following.next
    return found


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_invariants_hold_under_any_requests(settings: str, seed: int) -> None:
    draw = random.Random(seed)
    allocator = made(settings, 4 * 2**30)
    live: list[Block] = []
    asked: dict[int, int] = {}
    for _ in range(1500):
        if live and (draw.random() < 0.45 or allocator.allocated > 3 * 2**30):
            block = live.pop(draw.randrange(len(live)))
            del asked[id(block)]
            allocator.release(block)
        else:
            size = draw.choice([draw.randint(1, 4096), draw.randint(1, 2 * MIB), draw.randint(MIB, 80 * MIB)])
            try:
                block = allocator.malloc(size)
            except OutOfMemory as error:
                assert "Tried to allocate" in str(error)
                continue
            assert block.size >= size
            live.append(block)
            asked[id(block)] = size
        if draw.random() < 0.01:
            allocator.empty_cache()
    assert allocator.allocated == sum(block.size for block in live)
    assert allocator.reserved == segments_of(allocator) >= allocator.allocated
    assert allocator.peak_reserved >= allocator.reserved
    assert allocator.peak_allocated >= allocator.allocated
    spans = sorted((block.address, block.address + block.size) for block in live)
    for (_, end), (start, _) in pairwise(spans):
        assert end <= start, "two blocks overlap"
    for block in live:
        whole = chain(block)
        for left, right in pairwise(whole):
            assert left.address + left.size == right.address, "a segment has no gaps"
            assert not (left.free and right.free), "free neighbours are merged"
    for block in live:
        allocator.release(block)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (0, 0), "everything goes back"
    assert allocator.driver.used == 0


def recorded(path: str) -> dict[str, Any]:
    with gzip.open(REFERENCE / path) as stream:
        document: dict[str, Any] = json.load(stream)
    return document


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("generate/qwen05_b64.json.gz", ""),
        ("generate/gpt2_b32_fp16_sample.json.gz", ""),
        ("generate/llama7b_b150.json.gz", ""),
        ("more/qwen05_b32_load_device_map.json.gz", ""),
        ("segments/llama7b_b150_expandable.json.gz", "expandable_segments:True"),
    ],
)
def test_a_recorded_stream_takes_the_segments_that_the_card_saw(path: str, settings: str) -> None:
    document = recorded(path)
    card = find_card("h200")
    parsed = parse_settings(settings)
    driver = Driver(card.memory_bytes, card.memory_bytes)
    allocator = (ExpandableAllocator if parsed.expandable else CachingAllocator)(driver, parsed)
    blocks: list[Block] = []
    for event in document["events"]:
        if event >= 0:
            blocks.append(allocator.malloc(event))
        else:
            allocator.release(blocks[-event - 1])
    taken = [(s.before, s.size) for s in allocator.segments if s.action in ("segment_alloc", "segment_map")]
    wanted = [
        (sum(e >= 0 for e in document["events"][: entry[0]]), entry[1])
        for entry in document["segments"]
        if entry[2] in ("alloc", "segment_alloc", "segment_map", "map")
    ]
    assert sum(size for _, size in taken) == sum(size for _, size in wanted)
    assert sorted(size for _, size in taken) == sorted(size for _, size in wanted)


def test_running_out_is_said_in_torchs_words() -> None:
    allocator = made("", 100 * MIB)
    allocator.malloc(60 * MIB)
    with pytest.raises(OutOfMemory, match=r"CUDA out of memory\. Tried to allocate 58\.00 MiB\. GPU 0 has a total"):
        allocator.malloc(58 * MIB)
    assert (allocator.retries, allocator.out_of_memory) == (1, 1)


def test_a_retry_gives_back_what_is_cached() -> None:
    allocator = made("", 100 * MIB)
    allocator.release(allocator.malloc(60 * MIB))
    allocator.malloc(80 * MIB)
    assert (allocator.retries, allocator.reserved) == (1, 80 * MIB)
