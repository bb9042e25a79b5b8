"""The reference configurations (bench/reference/h200) as specs, and what was measured of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.spec.run_spec import RunSpec, parse_spec

ROOT = Path(__file__).parent / "reference" / "h200"
MIB = 2**20

JOBS = {"generate": "generate", "forward": "forward", "forward_grad": "forward", "loop_grad": "loop"}
FIELDS = {
    "batch": "batch_size",
    "prompt": "prompt_tokens",
    "new": "new_tokens",
    "dtype": "dtype",
    "attn": "attn_implementation",
    "autocast": "autocast",
    "pad": "padding",
    "do_sample": "do_sample",
    "top_k": "top_k",
    "top_p": "top_p",
    "temperature": "temperature",
    "use_cache": "use_cache",
    "cache_implementation": "cache_implementation",
    "num_beams": "num_beams",
}


@dataclass(frozen=True)
class Configuration:
    """`config`: the model's config.json. `measured`: its row of summary.json. capacity: bytes free before it."""

    name: str
    spec: RunSpec
    config: dict[str, Any]
    measured: dict[str, Any]
    capacity: int | None = None

    @property
    def bound(self) -> bool:
        """Whether the card was made so small that it matters."""
        return self.capacity is not None

    def folder(self, root: Path) -> Path:
        """A folder with the config.json, under `root`."""
        folder = root / self.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        return folder


def spec_of(entry: dict[str, Any]) -> RunSpec:
    """A configuration of the reference as a spec; the model's name does not matter, its config is beside it."""
    mode = entry.get("mode", "generate")
    fields: dict[str, Any] = {"model": "gpt2", "weights": "random", "device": "sim:h200", "job": JOBS[mode]}
    fields |= {ours: entry[theirs] for theirs, ours in FIELDS.items() if theirs in entry}
    fields["grad_mode"] = "inference_mode" if entry.get("inference_mode") else "grad" if "grad" in mode else "no_grad"
    if entry.get("ddp"):
        fields["wrap"] = "ddp"
    if entry.get("load"):
        fields |= {"placement": "host" if entry["load"] == "cpu" else "device_map"}
    spec = parse_spec({**fields, "placement": "host"} if entry.get("load") else fields)
    # saved weights are named, not loaded: only a simulation may be asked for them without a folder
    return spec.model_copy(update={"weights": "load", "placement": fields["placement"]}) if entry.get("load") else spec


def _document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def configurations() -> Iterator[Configuration]:
    """All 19 + 2 + 5 + 4 of them, in that order."""
    generate = _document(ROOT / "generate" / "configs.json")
    rows = {row["name"]: row for row in _document(ROOT / "generate" / "summary.json")["results"]}
    more = _document(ROOT / "more" / "configs.json")
    rows |= {row["name"]: row for row in _document(ROOT / "more" / "summary.json")["results"]}
    entries = {entry["name"]: entry for entry in (*generate["configs"], *more["configs"])}
    models = {**generate["models"], **more["models"]}

    def made(
        name: str, label: str, measured: dict[str, Any], capacity: int | None = None, **fields: Any
    ) -> Configuration:
        entry = entries[name]
        spec = spec_of(entry).model_copy(update=fields)
        return Configuration(label, spec, {**models[entry["model"]], **entry.get("override", {})}, measured, capacity)

    for entry in generate["configs"]:
        if entry["name"] in rows:
            yield made(entry["name"], entry["name"], rows[entry["name"]])
    for name, allocator in (("llama7b_b150", ""), ("llama7b_b150_expandable", "expandable_segments:True")):
        yield made("llama7b_b150", f"segments/{name}", _segments(name, rows["llama7b_b150"]), allocator=allocator)
    for folder in sorted((ROOT / "capped").iterdir()):
        summary = _document(folder / "summary.json")
        free = int(summary["held"]["free_mib"] * MIB)
        name = folder.name.rpartition("-")[0]
        yield made(name, f"capped/{folder.name}", summary["results"][0], free, capacity_mib=free // MIB)
    for entry in more["configs"]:
        yield made(entry["name"], f"more/{entry['name']}", rows[entry["name"]])


def _segments(name: str, plain: dict[str, Any]) -> dict[str, Any]:
    """Peaks of a run of which only the stream was kept: reserved by its marks; allocated is that of the same work."""
    with gzip.open(ROOT / "segments" / f"{name}.json.gz") as stream:
        marks = json.load(stream)["marks"]
    peaks = {"peak_reserved": max(mark[5] for mark in marks), "peak_allocated": max(mark[3] for mark in marks)}
    return {**plain, **peaks, "outside_allocator": None}
