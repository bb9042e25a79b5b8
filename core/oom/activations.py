"""Tensors that a forward pass makes: shapes in words, computed where all is known, solved for what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from math import isqrt, prod

from core.oom.dims import Dims
from core.oom.facts import Facts
from core.oom.known import known_vocabularies
from core.oom.rounding import Window
from core.oom.tensor import WIDTH, Tensor

MOST_ROWS = 4096
MOST_SEQUENCES = 1024
"""In one batch: more are possible, but nobody leaves them unsaid."""
BATCHES = (1, 2, 4, 8, 16, 32)
SOLVABLE = {"batch", "prompt", "seq", "heads"}
"""What people leave out. Any size would be some vocabulary, so that is not solved for."""

HEADS = (4, 6, 8, 10, 12, 14, 16, 20, 24, 25, 28, 32, 36, 40, 48, 52, 56, 64, 71, 72, 80, 96, 112, 128)
"""What is tried for a batch or a number of heads that nobody named."""


@dataclass(frozen=True)
class Shape:
    """`words`: a tensor's dimensions; `dtypes`: what it may be held in, `?` for the model's own 16 bit."""

    kind: str
    name: str
    words: tuple[str, ...]
    dtypes: tuple[str, ...]


SHAPES = (
    # transformers before 4.45 computes float32 logits of all positions at prefill; a loss still does
    Shape("logits_all", "logits of all positions", ("batch", "prompt", "vocab"), ("fp32", "?")),
    Shape("logits_last", "logits of the last position", ("batch", "vocab"), ("?", "fp32")),
    Shape("scores", "attention scores", ("batch", "heads", "seq", "seq"), ("fp32", "?")),
    Shape("mask", "dense attention mask", ("batch", "1", "seq", "seq"), ("fp32", "?", "bool")),
    Shape("kv", "keys (or values) of one layer", ("batch", "kv_heads", "total", "head_dim"), ("?", "fp32")),
    Shape("kv", "keys and values of one layer", ("2", "batch", "kv_heads", "total", "head_dim"), ("?", "fp32")),
    Shape(
        "kv",
        "keys (or values) of one layer, repeated for each head",
        ("batch", "heads", "total", "head_dim"),
        ("?", "fp32"),
    ),
    Shape("activation", "hidden states", ("batch", "prompt", "hidden"), ("?", "fp32")),
    Shape("activation", "feed-forward activations", ("batch", "prompt", "intermediate"), ("?", "fp32")),
    Shape("activation", "gate and up activations in one", ("batch", "prompt", "2", "intermediate"), ("?", "fp32")),
)
WHOLE_CACHE = Shape(
    "kv", "keys and values of all layers", ("layers", "2", "batch", "kv_heads", "total", "head_dim"), ("?", "fp32")
)
"""llama.cpp takes it in one piece."""
LLAMA_CPP = ("llama.cpp", "llamacpp", "ggml", "ollama")


def narrow(facts: Facts) -> str:
    if facts.engine in LLAMA_CPP:
        return "fp16"
    return facts.dtype if facts.dtype in ("bf16", "fp16") else "bf16"


def _sizes(dims: Dims, facts: Facts) -> dict[str, int | None]:
    heads, keys, ranks = dims.heads, dims.kv_heads, facts.tp_size or 1
    given = facts.batch_size or (1 if facts.engine in LLAMA_CPP else None)  # it has one sequence as a rule
    batch = None if given is None else given * (facts.num_beams or 1)
    return {
        "1": 1,
        "2": 2,
        "batch": batch,
        "prompt": facts.prompt_tokens,
        "seq": facts.prompt_tokens,
        "total": facts.max_seq_len,
        "heads": heads // ranks if heads and heads % ranks == 0 else heads,
        "kv_heads": keys // ranks if keys and keys % ranks == 0 else keys,
        "head_dim": dims.head_dim,
        "layers": dims.layers,
        "hidden": dims.hidden,
        "intermediate": dims.intermediate,
        "vocab": dims.vocab,
    }


def activation_tensors(dims: Dims, facts: Facts, window: Window) -> Iterator[Tensor]:
    """Computed ones first, then solved ones; each has a size that the request can stand for."""
    sizes = _sizes(dims, facts)
    shapes = (*SHAPES, WHOLE_CACHE) if facts.engine in LLAMA_CPP else SHAPES
    for shape in shapes:
        for mark in shape.dtypes:
            dtype = narrow(facts) if mark == "?" else mark
            if shape.kind == "logits_all" and dims.vocab is None:
                # some vocabulary divides any size to a few rows: it takes the bytes themselves, and a prompt
                for vocab in known_vocabularies() if window.to_the_byte and facts.prompt_tokens else ():
                    found = _rows(shape, dtype, {**sizes, "batch": sizes["batch"] or 1, "vocab": vocab}, window)
                    yield from (replace(tensor, solved=("prompt", "vocab")) for tensor in found if not tensor.loose)
            elif shape.kind == "kv":
                yield from _cache(shape, dtype, sizes, facts, window)
            else:
                yield from _one(shape, dtype, sizes, window, facts)


def job_tensors(dims: Dims, facts: Facts) -> list[Tensor]:
    """The tensors of a job that can be computed from what is known of it, whatever was asked for."""
    sizes = _sizes(dims, facts)
    if facts.prompt_tokens is not None:
        sizes["total"] = facts.max_seq_len or facts.prompt_tokens + max(0, (facts.new_tokens or 0) - 1)
    return [
        _tensor(shape, narrow(facts) if mark == "?" else mark, sizes, ())
        for shape in (*SHAPES, WHOLE_CACHE)
        for mark in shape.dtypes
        if all(sizes[word] is not None for word in shape.words)
    ]


def _tensor(shape: Shape, dtype: str, sizes: Mapping[str, int | None], solved: tuple[str, ...]) -> Tensor:
    values = tuple(sizes[word] or 1 for word in shape.words)
    words = ["seq" if word == "total" else word for word in shape.words if word != "1"]
    return Tensor(shape.kind, shape.name, "*".join([*words, str(WIDTH[dtype])]), values, dtype, solved)


def _one(shape: Shape, dtype: str, sizes: Mapping[str, int | None], window: Window, facts: Facts) -> Iterator[Tensor]:
    unknown = [word for word in dict.fromkeys(shape.words) if sizes[word] is None]
    if not unknown:
        lengths = _lengths(facts) if "seq" in shape.words or "prompt" in shape.words else (None,)
        for length in lengths:
            here = dict(sizes) if length is None else {**sizes, "seq": length, "prompt": length}
            ends = length in (None, facts.prompt_tokens, sum(_work(facts)) - 1, sum(_work(facts)))
            tensor = _tensor(shape, dtype, here, () if ends else ("seq",))  # a step in between is solved for
            if window.holds(tensor.bytes):
                yield tensor
                return
        if shape.kind == "logits_all":
            yield from _rows(shape, dtype, sizes, window)
    elif len(unknown) == 1 and unknown[0] in SOLVABLE:
        yield from _solved(shape, dtype, sizes, unknown[0], window)
    elif shape.kind in ("scores", "mask") and set(unknown) == {"batch", "seq"}:
        for batch in BATCHES:
            yield from islice(_solved(shape, dtype, {**sizes, "batch": batch}, "seq", window, ("batch", "seq")), 1)
    elif shape.kind == "logits_all" and set(unknown) == {"batch", "prompt"}:
        yield from _solved(shape, dtype, {**sizes, "batch": 1}, "prompt", window, ("batch", "prompt"))


def _work(facts: Facts) -> tuple[int, int]:
    """Prompt and new tokens, 0 where they are not known."""
    return facts.prompt_tokens or 0, facts.new_tokens or 0


def _lengths(facts: Facts) -> tuple[int | None, ...]:
    """The prompt; without a cache each step computes it all again, up to the last new token."""
    prompt, new = _work(facts)
    return (
        (prompt, *range(prompt + 1, prompt + new + 1)) if facts.use_cache is False and new <= MOST_ROWS else (prompt,)
    )


def _rows(shape: Shape, dtype: str, sizes: Mapping[str, int | None], window: Window) -> Iterator[Tensor]:
    """Logits of more rows than were named: a chat template or special tokens add to a prompt, images add many."""
    prompt = sizes["prompt"] or 0
    for tensor in _solved(shape, dtype, {**sizes, "prompt": None}, "prompt", window):
        rows = tensor.shape[1]
        if prompt < rows <= 1.1 * prompt + 64:
            yield tensor
        elif prompt < rows:
            yield replace(tensor, loose=True)


def _solved(
    shape: Shape,
    dtype: str,
    sizes: Mapping[str, int | None],
    unknown: str,
    window: Window,
    solved: tuple[str, ...] = (),
) -> Iterator[Tensor]:
    """The few whole numbers that `unknown` can be; none where nearly any size would have some."""
    power = shape.words.count(unknown)
    rest = WIDTH[dtype] * prod(sizes[word] or 1 for word in shape.words if word != unknown)
    low, high = window.low // rest, window.high // rest
    if power == 2:
        low, high = isqrt(max(0, low)), isqrt(max(0, high))
    first = next((n for n in range(max(1, low), low + 3) if window.holds(n**power * rest)), None)
    if first is None or high < first or high - first > max(4, first // 20) or first > 10**8:
        return
    if unknown == "heads":
        found = [n for n in HEADS if first <= n <= high]
    else:
        near = sorted(range(first, high + 1), key=lambda n: abs(n**power * rest - window.asked))
        found = list(dict.fromkeys([*(_roundest(first, high) if len(solved) < 2 else []), *near]))[:4]
    for value in found:
        if unknown != "batch" or value <= MOST_SEQUENCES:
            yield _tensor(shape, dtype, {**sizes, unknown: value}, solved or (unknown,))


def _roundest(first: int, last: int) -> list[int]:
    """Of the numbers in between, the one that people choose: 128 rather than 127; empty where none is round."""
    return [n for n in range(first, last + 1) if n % 64 == 0][:1]


def _cache(shape: Shape, dtype: str, sizes: Mapping[str, int | None], facts: Facts, window: Window) -> Iterator[Tensor]:
    """A dynamic cache is as long as the tokens so far; a static one as long as it will ever be."""
    if any(sizes[word] is None for word in shape.words if word != "total"):
        return
    prompt, new = facts.prompt_tokens, facts.new_tokens or 0
    lengths: list[tuple[int, tuple[str, ...]]] = [(facts.max_seq_len, ())] if facts.max_seq_len else []
    rest = WIDTH[dtype] * prod(sizes[word] or 1 for word in shape.words if word != "total")
    if prompt is not None:
        lengths += [(length, ()) for length in (prompt, prompt + new - 1, prompt + new) if length >= prompt]
        # some step in between: nearly any size is some length, so that is solved for and no evidence of its own
        between = min(max(window.high // rest, prompt), prompt + new)
        lengths.append((between, ("total",)))
    for length, solved in lengths:
        tensor = replace(
            _tensor(shape, dtype, {**sizes, "total": length}, solved), loose=bool(solved) and 10 * new > (prompt or 0)
        )
        if window.holds(tensor.bytes):
            yield tensor
            return
