"""RunSpec: the frozen, validated description of one run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.spec import rules
from core.spec.aliases import canonical
from core.spec.errors import InvalidSpec

Group = Literal["Model", "Where", "How", "Work", "Record"]
Dtype = Literal["bf16", "fp16", "fp32"]

MOST = 10_000_000
"""Above any count of tokens, rows or MiB that a card of today holds: larger is a slip of the keyboard."""


LIMITS = {
    "ge": "at least",
    "gt": "more than",
    "le": "at most",
    "lt": "less than",
    "min_length": "at least",
    "max_length": "at most",
}
TYPES = {"int": "a whole number", "float": "a number", "finite": "a number", "bool": "true or false", "string": "text"}
"""pydantic's names for what was wrong, in words: https://docs.pydantic.dev/latest/errors/validation_errors/"""


def _about(group: Group, help_: str, *, common: bool = False, unit: str | None = None) -> Any:
    """What the form and the command line say of a field. `common`: among the first choices of the form."""
    return Field(description=help_, json_schema_extra={"group": group, "common": common, "unit": unit})


Count = Annotated[int, Field(ge=1, le=MOST)]
Amount = Annotated[int, Field(ge=0, le=MOST)]


class RunSpec(BaseModel):
    """One execution of a job. Every value is stored in one spelling (`bf16`, never `bfloat16`).

    `weights` and `placement` are filled in from the model and the engine when they are not given, so a stored spec says
    them. Raises InvalidSpec (through `parse_spec`) with one line that says what to do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    model: Annotated[
        str,
        Field(min_length=1, max_length=4096),
        _about("Model", "A preset, a folder with config.json, or a hub id.", common=True),
    ]
    revision: Annotated[str | None, _about("Model", "Revision of a hub id: a branch, a tag or a commit.")] = None
    weights: Annotated[
        Literal["load", "random"],
        _about(
            "Model", "Load the weights, or build random ones from the config: memory does not depend on the values."
        ),
    ] = "random"
    placement: Annotated[
        Literal["device", "host", "device_map"],
        _about("Model", "Built on the device, loaded on the host and moved, or loaded straight to the device."),
    ] = "device"
    dtype: Annotated[Dtype, _about("Model", "Data type of the weights.", common=True)] = "bf16"
    attn_implementation: Annotated[
        Literal["eager", "sdpa", "flash_attention_2"], _about("Model", "How attention is computed.", common=True)
    ] = "sdpa"

    device: Annotated[
        str,
        Field(min_length=1, max_length=200),
        _about("Where", "auto, cpu, cuda:0, cuda:GPU-<uuid> or sim:<card>.", common=True),
    ] = "auto"
    capacity_mib: Annotated[
        Count | None, _about("Where", "Behave like a card with this much free before the run starts.", unit="MiB")
    ] = None
    environment: Annotated[
        str, Field(max_length=100), _about("Where", "A Python environment from the machine's list.")
    ] = "default"

    engine: Annotated[Literal["transformers", "deepspeed"], _about("How", "What executes the model.", common=True)] = (
        "transformers"
    )
    kernel_inject: Annotated[bool, _about("How", "DeepSpeed replaces layers by its own kernels.")] = False
    tp_size: Annotated[int, Field(ge=1, le=64), _about("How", "DeepSpeed tensor parallel size.")] = 1
    max_out_tokens: Annotated[
        Count | None, _about("How", "Tokens that DeepSpeed's workspace holds (its default is 1024).", unit="tokens")
    ] = None
    wrap: Annotated[
        Literal["none", "ddp"], _about("How", "Wrap the model in DistributedDataParallel.", common=True)
    ] = "none"
    autocast: Annotated[Literal["none", "bf16", "fp16"], _about("How", "Data type of torch.autocast.", common=True)] = (
        "none"
    )
    grad_mode: Annotated[
        Literal["inference_mode", "no_grad", "grad"], _about("How", "Gradient mode around the job.", common=True)
    ] = "inference_mode"
    use_cache: Annotated[bool, _about("How", "Keep keys and values of past tokens.")] = True
    cache_implementation: Annotated[
        Literal["dynamic", "static", "offloaded", "offloaded_static", "quantized", "sliding_window", "hybrid"] | None,
        _about("How", "Kind of KV cache; transformers' default when not given."),
    ] = None
    allocator: Annotated[
        str, Field(max_length=500), _about("How", "PYTORCH_CUDA_ALLOC_CONF, such as expandable_segments:True.")
    ] = ""
    empty_cache_before_generate: Annotated[bool, _about("How", "torch.cuda.empty_cache() before the job.")] = False
    prefill_cache_mib: Annotated[
        Amount, _about("How", "Allocate and free this much in pieces of 250 MiB before the job.", unit="MiB")
    ] = 0

    job: Annotated[
        Literal["generate", "forward", "loop"],
        _about("Work", "generate(), one forward pass, or a hand-written decode loop."),
    ] = "generate"
    batch_size: Annotated[Count, _about("Work", "Rows in the batch.", common=True, unit="rows")] = 1
    prompt_tokens: Annotated[Count, _about("Work", "Tokens of each prompt.", common=True, unit="tokens")] = 32
    new_tokens: Annotated[Amount, _about("Work", "Tokens to generate.", common=True, unit="tokens")] = 16
    padding: Annotated[Amount, _about("Work", "Left-padding tokens in the first row.", unit="tokens")] = 0
    num_beams: Annotated[int, Field(ge=1, le=1000), _about("Work", "Beams of a beam search.")] = 1
    do_sample: Annotated[bool, _about("Work", "Sample instead of taking the likeliest token.", common=True)] = False
    temperature: Annotated[float | None, Field(gt=0, le=1000), _about("Work", "Sampling temperature.")] = None
    top_k: Annotated[
        int | None, Field(ge=0), _about("Work", "Sample among the k likeliest tokens; 0 among all of them.")
    ] = None
    top_p: Annotated[
        float | None, Field(gt=0, le=1), _about("Work", "Sample among tokens of this probability mass.")
    ] = None
    seed: Annotated[int, Field(ge=0, lt=2**63), _about("Work", "Seed of the random numbers.")] = 0
    repeats: Annotated[int, Field(ge=1, le=1000), _about("Work", "How often the job runs in the same process.")] = 1

    record_interval_ms: Annotated[
        float, Field(ge=1, le=60_000), _about("Record", "Time between two samples.", unit="ms")
    ] = 10.0
    record_history: Annotated[bool, _about("Record", "Record the allocator's events (CUDA).")] = True
    record_stacks: Annotated[bool, _about("Record", "With the Python stack of each event (slower).")] = False
    record_modules: Annotated[bool, _about("Record", "Mark when each module is entered and left (slower).")] = False
    timeout_s: Annotated[
        float, Field(gt=0, le=7 * 86_400), _about("Record", "The run is ended after this long.", unit="s")
    ] = 3600.0

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise InvalidSpec(f"a run is described by fields with values, not by {type(given).__name__}")
        unknown = [str(name) for name in given if name not in cls.model_fields]
        if unknown:
            near = difflib.get_close_matches(unknown[0], cls.model_fields, 1)
            hint = f"did you mean {near[0]}?" if near else "see `python -m core run --help`"
            raise InvalidSpec(f"unknown field {unknown[0]!r}; {hint}")
        values = canonical(given)
        for name, value in values.items():
            if isinstance(value, bool) and cls.model_fields[name].annotation is not bool:
                # pydantic would take true for the number 1
                raise InvalidSpec(f"{name}={str(value).lower()} will not do; it is not a yes-or-no field")
        return rules.with_defaults(values)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        rules.check_fields(self)
        return self

    @property
    def total_tokens(self) -> int:
        """Tokens of a row at the end of the job: a forward pass adds none to the prompt."""
        return self.prompt_tokens + (0 if self.job == "forward" else self.new_tokens)

    def replace(self, **changes: Any) -> RunSpec:
        """A spec with some fields changed, checked again. Raises InvalidSpec."""
        return parse_spec({**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values; `parse_spec` of it gives an equal spec."""
        return self.model_dump(mode="json")


def parse_spec(given: Mapping[str, Any]) -> RunSpec:
    """The spec that `given` describes. Raises InvalidSpec with one line that says what is wrong and what to do."""
    try:
        return RunSpec.model_validate(given)
    except ValidationError as error:
        raise InvalidSpec(_said(error.errors()[0])) from error


def _said(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors, in the words of a user."""
    name, kind, limits = str(error["loc"][0]), str(error["type"]), error.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing; give --{name} (a preset, a folder or a hub id)"
    value = repr(error["input"])
    said = f"{name}={value if len(value) <= 60 else value[:57] + '…'} will not do"
    if isinstance(error["input"], list | tuple):
        return f"{said}; a run takes one value, a list belongs into a matrix"
    wanted = [f"{word} {limits[key]:,}" for key, word in LIMITS.items() if key in limits]
    if kind == "literal_error":
        return f"{said}; it is one of {limits['expected']}".replace("'", "")
    if wanted and kind.startswith(("greater", "less")):
        return f"{said}; it has to be {wanted[0]}"
    if wanted:
        return f"{said}; its length has to be {wanted[0]}"
    return f"{said}; it has to be {TYPES.get(kind.partition('_')[0], 'another value')}"
