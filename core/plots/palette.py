"""Colours that mean the same everywhere and are told apart by people who see fewer of them (Okabe and Ito, 2008)."""

from __future__ import annotations

RUNS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#5E4B8B", "#7F7F7F", "#000000")
"""One a run, in the order in which they are compared; after ten they begin again."""

METRICS = {
    "device_used": "#7F7F7F",
    "process_used": "#56B4E9",
    "other_processes_used": "#A6A6A6",
    "reserved": "#E69F00",
    "allocated": "#0072B2",
    "host_rss": "#009E73",
}
"""One a metric, where a plot shows a single run."""

PHASES = {
    "imports": "#C7C7C7",
    "device context": "#7F7F7F",
    "process group": "#5E4B8B",
    "load": "#0072B2",
    "op build": "#8C6D31",
    "engine": "#8C6D31",
    "wrap": "#56B4E9",
    "inputs": "#CC79A7",
    "prefill": "#D55E00",
    "decode": "#E69F00",
    "release": "#009E73",
}

HOLDERS = {
    "tensors": "#0072B2",
    "cache": "#C7C7C7",
    "non_torch": "#7F7F7F",
    "other_processes": "#A6A6A6",
    "unaccounted": "#8C6D31",
    "free": "rgba(0,158,115,0.35)",
}
"""Who holds a card; other processes are hatched beside it."""

GRID = "rgba(127,127,127,0.22)"
FAINT = "rgba(127,127,127,0.75)"


def run_colour(position: int) -> str:
    """The colour of the run at `position` in a comparison."""
    return RUNS[position % len(RUNS)]


CATEGORIES = {
    "weights": "#0072B2",
    "buffers": "#3F95C6",
    "kv_cache": "#009E73",
    "logits": "#D55E00",
    "activations": "#E69F00",
    "autocast_copies": "#CC79A7",
    "ddp_buckets": "#56B4E9",
    "library_workspaces": "#8C6D31",
    "inputs": "#B39B6B",
    "load": "#D9C89E",
    "unattributed": "#4D4D4D",
    "rounding": "#9E9E9E",
    "cached_segments": "#C7C7C7",
    "cached_holes": "#C7C7C7",
    "deepspeed_workspace": "#F0E442",
    "nccl": "#5E4B8B",
    "cuda_context": "#7F7F7F",
    "libraries": "#979797",
    "non_torch": "#A6A6A6",
    "other_processes": "#BDBDBD",
    "driver": "#666666",
    "process_memory": "#009E73",
}
"""One a category of a breakdown, in every plot."""

HATCHED = {"cached_holes": "/", "other_processes": "x"}
"""Told apart from their neighbours by a pattern as well: free pieces, and what is not ours."""

OUTLINED = {"deepspeed_workspace"}
"""Too light to stand on a white page without a line around it."""
