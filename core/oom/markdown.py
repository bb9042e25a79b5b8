"""The answer as a short letter: as text for a terminal, as Markdown to paste back into a forum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.oom.account import Holders
from core.oom.diagnosis import NOTHING_FOUND, Diagnosis, Explanation
from core.plots.units import exact, size
from core.spec.fields import FIELDS

TITLES: Mapping[str, str] = {
    "deepspeed_workspace": "DeepSpeed's workspace took the memory",
    "logits_all_positions_fp32": "float32 logits of all positions",
    "logits_all_positions": "logits of all positions",
    "weights_in_float32": "the weights are loaded in float32",
    "weights_exceed_card": "the weights are larger than the card",
    "full_model_on_each_rank": "each rank loads the whole model",
    "non_torch_memory_fills_card": "memory outside PyTorch fills the card",
    "other_process_holds_card": "another process holds the card",
    "fragmentation": "fragmentation of PyTorch's cache",
    "unknown": "the cause is not known",
}
HOLDERS = (
    ("tensors", "tensors"),
    ("cache", "PyTorch's cache"),
    ("non_torch", "outside PyTorch, this process"),
    ("other_processes", "other processes"),
    ("unaccounted", "not accounted for (context, libraries, other processes)"),
    ("free", "free"),
    ("total", "the card"),
)


def title(cause: str) -> str:
    return TITLES.get(cause, cause.replace("_", " "))


def holder_lines(holders: Holders) -> list[tuple[str, int]]:
    """What is known of who holds the card: words and bytes."""
    return [(words, value) for name, words in HOLDERS if (value := getattr(holders, name)) is not None]


def by_error(explanations: Sequence[Explanation]) -> list[list[Explanation]]:
    """The explanations of each error together, in their order."""
    groups: dict[tuple[int, int], list[Explanation]] = {}
    for explanation in explanations:
        groups.setdefault(explanation.error.span, []).append(explanation)
    return list(groups.values())


def plain_text(diagnosis: Diagnosis) -> str:
    return "\n".join(_lines(diagnosis, "", "  "))


def markdown(diagnosis: Diagnosis) -> str:
    """The same in Markdown. Of the paste it holds numbers only; the words are the tool's own."""
    return "\n".join(_lines(diagnosis, "**", "- "))


def _lines(diagnosis: Diagnosis, bold: str, item: str) -> Iterator[str]:
    if not diagnosis.errors:
        yield NOTHING_FOUND
        return
    for group in by_error(diagnosis.explanations):
        first = group[0]
        error = first.error
        asked = f"{exact(error.requested_bytes)} requested" if error.requested_bytes else "no size given"
        on = "" if error.device_index is None else f", device {error.device_index}"
        yield f"{bold}{(error.backend or 'GPU').replace('_', ' ')}: {asked}{on}{bold}"
        yield ""
        for explanation in group:
            if explanation is first or explanation.tied:
                named = f"{bold}{title(explanation.cause)}{bold} ({explanation.confidence} confidence)"
                yield f"{item}{named}: {explanation.why}"
        others = [explanation for explanation in group if explanation is not first and not explanation.tied]
        if others:
            yield f"{item}less likely: {', '.join(title(explanation.cause) for explanation in others)}"
        yield from _sums(first, bold, item)
        lines = holder_lines(first.holders)
        if lines:
            yield ""
            yield f"{bold}Who holds the memory{bold}"
            yield ""
            yield from (f"{item}{words}: {size(value)}" for words, value in lines)
        yield ""
        yield f"{bold}What to change first{bold}"
        yield ""
        yield from (f"{item}{advice.text}" for advice in first.advice)
        yield ""


def _sums(first: Explanation, bold: str, item: str) -> Iterator[str]:
    if first.tensors:
        yield ""
        yield f"{bold}Which tensor{bold}" + (" (these fit equally or nearly so)" if len(first.tensors) > 1 else "")
        yield ""
        for tensor in first.tensors[:4]:
            solved = f", solved for {' and '.join(tensor.solved)}" if tensor.solved else ""
            code = "`" if bold else ""
            sums = f"{code}{tensor.formula}{code} = {tensor.counted} = {exact(tensor.bytes)}"
            yield f"{item}{tensor.name}: {sums}{solved}"
    elif first.error.requested_bytes:
        yield ""
        yield f"{item}No tensor that is known here has the requested size: no match."


def spec_patch(diagnosis: Diagnosis, patch: Mapping[str, Any]) -> dict[str, str]:
    """Fields of a run that tries a piece of advice: what is known of the job, with the change. For an Explore link."""
    facts = diagnosis.facts
    known: dict[str, Any] = {
        "model": facts.model,
        "dtype": facts.dtype if facts.dtype in ("bf16", "fp16", "fp32") else None,
        "batch_size": facts.batch_size,
        "prompt_tokens": facts.prompt_tokens,
        "new_tokens": facts.new_tokens,
        "attn_implementation": facts.attn_implementation,
        "autocast": facts.autocast,
        "wrap": facts.wrap,
        "max_out_tokens": facts.max_out_tokens,
    }
    if facts.engine and "deepspeed" in facts.engine:
        known |= {"engine": "deepspeed", "kernel_inject": facts.kernel_inject, "tp_size": facts.tp_size}
    merged = {**known, **patch}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in merged.items()
        if value is not None and name in FIELDS
    }
