"""Diagnose: a pasted error, explained. The paste lives in this visitor's form only; what it holds is shown as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.oom import Diagnosis, Facts, diagnose, facts_from
from core.oom.diagnosis import NOTHING_FOUND, Explanation
from core.oom.error import FIELDS, OomError
from core.oom.markdown import HOLDERS, by_error, markdown, spec_patch, title
from core.plots.bar import holders_bar
from core.plots.units import exact, size
from core.ui.text import plain

HINTS = (
    ("model", "Model", "llama-7b, a hub id, or a folder"),
    ("batch_size", "Batch size", "150"),
    ("prompt_tokens", "Prompt tokens", "35"),
    ("new_tokens", "New tokens", "37"),
    ("dtype", "Data type of the weights", "bf16"),
    ("engine", "Engine", "transformers, deepspeed_kernel_inject, vllm …"),
    ("attn_implementation", "Attention", "eager, sdpa"),
    ("tp_size", "Tensor parallel size", "1"),
)
MOST_SHOWN = 20


def paste_form() -> tuple[str, Facts]:
    """The paste and the hints beside it; all hints may stay empty."""
    with st.form("paste", border=False):
        text = st.text_area(
            "The error, with the traceback above it",
            height=260,
            placeholder="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 642.00 MiB. GPU 0 has …",
            key="pasted",
        )
        given: dict[str, Any] = {}
        with st.expander("What you know about the job (optional)", expanded=True):
            for start in range(0, len(HINTS), 4):
                for column, (name, label, example) in zip(st.columns(4), HINTS[start : start + 4], strict=False):
                    given[name] = column.text_input(label, placeholder=example, max_chars=500, key=f"hint-{name}")
        st.form_submit_button("Explain", type="primary", icon=":material/troubleshoot:")
    st.caption("Nothing you paste is stored or sent on.")
    return text or "", facts_from(given)


def answer(text: str, facts: Facts) -> None:
    """Causes, arithmetic, holders and advice for each different error in `text`."""
    diagnosis = diagnose(text, facts)
    if not diagnosis.errors:
        st.info(plain(NOTHING_FOUND, 1000), icon=":material/search:")
        return
    _read_off(diagnosis.facts, facts)
    for group in by_error(diagnosis.explanations):
        _letter(diagnosis, group)
    with st.popover("Copy as Markdown", icon=":material/content_copy:"):
        st.code(markdown(diagnosis), language=None, wrap_lines=True)
    _found(text, diagnosis.errors)


def _read_off(whole: Facts, given: Facts) -> None:
    """What the text itself told, so that it can be corrected."""
    names = [name for name, _, _ in HINTS if getattr(given, name) is None and getattr(whole, name) is not None]
    if names:
        said = ", ".join(f"{name.replace('_', ' ')} {getattr(whole, name)}" for name in names)
        st.caption(f"Read off the text: {plain(said, 500)}")


def _letter(diagnosis: Diagnosis, group: Sequence[Explanation]) -> None:
    first = group[0]
    asked = first.error.requested_bytes
    st.subheader(plain(f"{exact(asked)} requested" if asked else "Out of memory, no size given"), divider="gray")
    for explanation in group:
        if explanation is first or explanation.tied:
            st.markdown(f"**{plain(title(explanation.cause))}** · {explanation.confidence} confidence")
            st.markdown(plain(explanation.why, 1000))
    if any(explanation.tied for explanation in group):
        st.caption("These causes fit equally well: the text alone cannot tell which.")
    _arithmetic(first)
    _holders(first)
    _advice(diagnosis, first)


def _arithmetic(first: Explanation) -> None:
    if first.tensors:
        st.markdown("**Which tensor**" + (" — these fit equally, or nearly so" if len(first.tensors) > 1 else ""))
        lines = [
            f"{tensor.name}\n  {tensor.formula} = {tensor.counted} = {exact(tensor.bytes)}"
            + (f"   solved for {' and '.join(tensor.solved)}" if tensor.solved else "")
            for tensor in first.tensors[:4]
        ]
        st.code("\n".join(lines), language=None, wrap_lines=True)
    elif first.error.requested_bytes:
        st.markdown("**Which tensor:** no match. Naming the model, the batch and the prompt may give one.")


def _holders(first: Explanation) -> None:
    parts = [(key, words, value) for key, words in HOLDERS if key != "total" and (value := getattr(first.holders, key))]
    if parts:
        st.markdown("**Who holds the card**" + (f" ({size(first.holders.total)})" if first.holders.total else ""))
        st.plotly_chart(holders_bar(parts), width="stretch", key=f"holders-{first.error.span}")


def _advice(diagnosis: Diagnosis, first: Explanation) -> None:
    st.markdown("**What to change, in this order**")
    for place, advice in enumerate(item for item in first.advice if not item.tag.startswith("no:")):
        words, link = st.columns([5, 1])
        words.markdown(f"{place + 1}\\. {plain(advice.text, 500)}")
        query = spec_patch(diagnosis, advice.patch)
        if advice.patch and "model" in query:
            link.page_link("pages/1_Explore.py", label="Try in Explore", query_params=query)
    useless = [advice for advice in first.advice if advice.tag.startswith("no:")]
    if useless:
        st.markdown("**What will not help**")
        for advice in useless:
            st.markdown(plain(advice.text, 500))


def _found(text: str, errors: Sequence[OomError]) -> None:
    """Each error as it was read, beside the piece of text it was read from."""
    with st.expander(f"Errors found: {len(errors)}"):
        for error in errors[:MOST_SHOWN]:
            start, end = error.span
            st.code(text[start : min(end, start + 2000)], language=None, wrap_lines=True)
            fields = {name: value for name, value in error.document().items() if name in FIELDS and value is not None}
            st.dataframe([{name: str(value) for name, value in fields.items()}], hide_index=True)
        if len(errors) > MOST_SHOWN:
            st.caption(f"and {len(errors) - MOST_SHOWN} more")
