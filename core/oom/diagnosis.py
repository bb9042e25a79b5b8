"""The whole answer to a pasted text: its errors, their causes, the tensors, the holders and the advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from core.oom.account import Holders, account
from core.oom.advice import Advice
from core.oom.advise import advise
from core.oom.case import Case, Cause
from core.oom.causes import causes_of
from core.oom.deepspeed import workspace_of
from core.oom.dims import dims_of
from core.oom.error import OomError
from core.oom.facts import Facts
from core.oom.identify import identify
from core.oom.parse import parse
from core.oom.paste import Pasted
from core.oom.reading import read_facts
from core.oom.sites import site_after, site_before
from core.oom.tensor import Tensor

Confidence = Literal["high", "medium", "low"]

TIE = 10.0
"""Causes whose weights differ by less are a tie."""

MOST_CAUSES = 5
MOST_EXPLAINED = 4
"""Different errors of one text that are explained: a log of many ranks repeats the same one."""

NOTHING_FOUND = (
    "No out-of-memory error was found. It is looked for in the words of PyTorch (`CUDA out of memory. Tried to "
    "allocate …`, also HIP, XPU, MPS and the CPU's allocator), CUDA, cuBLAS, NCCL, "
    "DeepSpeed's workspace, torch.cuda.memory_summary(), llama.cpp, "
    "MLX, TensorRT, OpenVINO and Gaudi. Paste the last lines of the traceback, up to the error itself."
)


@dataclass(frozen=True)
class Explanation:
    """One cause of one error. `tied`: it is as likely as the first one."""

    error: OomError
    cause: str
    confidence: Confidence
    tied: bool
    why: str
    tensors: Sequence[Tensor]
    holders: Holders
    advice: Sequence[Advice]

    @property
    def text(self) -> str:
        """The cause in sentences, the arithmetic of the tensors included."""
        sums = [
            f"{tensor.name}: {tensor.formula} = {tensor.counted} = {tensor.bytes:,} bytes"
            + (f" (solved for {' and '.join(tensor.solved)})" if tensor.solved else "")
            for tensor in self.tensors[:4]
        ]
        tie = " It is a tie with other causes." if self.tied else ""
        unmatched = (
            ""
            if sums or not self.error.requested_bytes
            else " No tensor that is known here has the requested size: no match."
        )
        return self.why + tie + unmatched + "".join(f"\n{line}" for line in sums)

    def document(self) -> dict[str, Any]:
        return {
            "cause": self.cause,
            "confidence": self.confidence,
            "tensors": [tensor.document() for tensor in self.tensors],
            "holders": self.holders.document(),
            "advice": [advice.tag for advice in self.advice],
            "text": self.text,
        }


@dataclass(frozen=True)
class Diagnosis:
    """`facts`: what was given and what was read off the text. `explanations`: of the most telling error first."""

    errors: Sequence[OomError]
    explanations: Sequence[Explanation]
    facts: Facts

    def document(self) -> dict[str, Any]:
        """The answer as JSON values: the shape that `diagnose --json` prints."""
        return {
            "errors": [error.document() for error in self.errors],
            "diagnoses": [explanation.document() for explanation in self.explanations],
        }


def diagnose(text: str, facts: Facts | None = None) -> Diagnosis:
    """What `text` says went wrong. Never raises for what a text or a fact holds; no error found is an empty answer."""
    pasted = Pasted(text)
    errors = parse(pasted)
    whole = (
        (facts or Facts()).or_else(read_facts(pasted, errors[0].span[0], errors[-1].span[1]))
        if errors
        else facts or Facts()
    )
    explanations: list[Explanation] = []
    for error in _worth_explaining(errors):
        explanations += _explain(error, pasted, whole, errors)
    return Diagnosis(errors, explanations, whole)


def _worth_explaining(errors: Sequence[OomError]) -> list[OomError]:
    """One of each kind and size, the most telling first: what a banner or a table says comes after what failed."""
    first: dict[tuple[str | None, str, int | None], OomError] = {}
    for error in errors:
        key = (error.backend, error.kind, error.requested_bytes)
        if key not in first or first[key].said() < error.said():
            first[key] = error
    passive = ("deepspeed_banner", "deepspeed_banner_bytes", "memory_summary")
    ranked = sorted(
        first.values(), key=lambda error: (error.kind in passive, error.requested_bytes is None, -error.said())
    )
    return ranked[:MOST_EXPLAINED]


def _explain(error: OomError, pasted: Pasted, facts: Facts, errors: Sequence[OomError]) -> list[Explanation]:
    start, end = error.span
    before = pasted.squeezed_between(max(0, start - 8000), start)
    dims = dims_of(facts.model, facts.config)
    own = pasted.squeezed_between(start, min(len(pasted.text), start + 4000)) if error.kind.startswith("ggml") else ""
    site = site_after(own) or site_before(before)
    if error.kind.startswith("ggml"):
        facts = facts.or_else(Facts(engine="llama.cpp"))
    tensors = identify(error, dims, facts, site)
    devices = {(other.device_index, other.span) for other in errors if other.kind == error.kind}
    holders = account(error, facts)
    case = Case(error, facts, dims, holders, tensors, site, workspace_of(dims, facts), len(devices))
    ranked = causes_of(case)
    kept = [cause for cause in ranked if cause.weight >= 20][:MOST_CAUSES]
    ties = [cause for cause in kept if kept[0].weight - cause.weight < TIE]
    message = pasted.text[start:end]
    return [
        Explanation(
            error,
            cause.tag,
            _confidence(cause, kept[0], len(ties)),
            len(ties) > 1 and cause in ties,
            cause.why,
            tensors,
            holders,
            advise(cause.tag, case, message),
        )
        for cause in kept
    ]


def _confidence(cause: Cause, first: Cause, tied: int) -> Confidence:
    """Tied causes are as sure as each other, and none of them is certain."""
    weight = first.weight if first.weight - cause.weight < TIE else cause.weight
    if weight >= 78 and tied == 1:
        return "high"
    return "medium" if weight >= 58 else "low"
