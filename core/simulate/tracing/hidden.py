"""Memory that CUDA kernels allocate inside, which no tensor shows.

Each function is a generator that gets the mode and the operation's arguments. What it takes before it yields is there
when the output is allocated, what it takes after that comes later, as in the kernel's own code. Sizes come from the
sources that are named; where a library decides (CUB's temporary storage) they are its documented needs. Where a size
follows the length of the keys by a rule with steps in it, the rule is recorded with it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from core.simulate.allocator.sizes import round_up

if TYPE_CHECKING:
    from core.simulate.tracing.mode import CardMode

_aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)


CUB_ALIGNMENT = 256
"""CUB aligns each part of its temporary storage, and asks for one less than that on top (alias_temporaries)."""


def _sort(mode: CardMode, x: torch.Tensor, *args: Any, **kwargs: Any) -> Iterator[None]:
    """aten/src/ATen/native/cuda/Sort.cpp and SortStable.cu: up to 4,096 elements a slice are sorted in place."""
    yield
    dim = next((value for value in args if type(value) is int), kwargs.get("dim", -1))
    length = x.shape[dim] if x.dim() else 1
    if length <= 4096 or not x.numel():
        return
    total, size = x.numel(), x.element_size()
    slices = total // length
    if slices == 1 or length >= 1_000_000:
        with mode.scratch("sort: indices", length * 8), mode.scratch("sort: CUB", _cub(length * size, length * 8)):
            return
    if slices < 128:
        # pairs of (slice, index) before and after, sorted by value and then by slice
        with mode.scratch("sort: pairs", total * 8), mode.scratch("sort: pairs", total * 8):
            with mode.scratch("sort: keys", total * size), mode.scratch("sort: CUB", _cub(total * size, total * 8)):
                pass
            with mode.scratch("sort: CUB", _cub(total * 8)):
                return
    with mode.scratch("sort: indices", total * 8), mode.scratch("sort: CUB", _cub(total * size, total * 8)):
        return


def _cub(*parts: int) -> int:
    return sum(round_up(part, CUB_ALIGNMENT) for part in parts) + CUB_ALIGNMENT - 1


TOPK_THREADS = 256
TOPK_DIGITS = 256
TOPK_REGISTERS = 40
TOPK_SCAN_STATES = 33


def _several_blocks_a_slice(slices: int, length: int) -> bool:
    """should_use_multiblock in aten/src/ATen/native/cuda/TensorTopK.cu."""
    limits = ((20, 20_000), (40, 10_000), (80, 8_000), (199, 5_000), (799, 3_000), (4_000, 800))
    return length >= next((least for most, least in limits if slices <= most), 400)


def _topk(mode: CardMode, x: torch.Tensor, k: int, dim: int = -1, *_: Any, **__: Any) -> Iterator[None]:
    """`mbtopk::launch` in TensorTopK.cu: counts of digits for every block, and the state of the search by slice."""
    yield
    if not x.dim():
        return
    length = x.shape[dim]
    slices = x.numel() // max(length, 1)
    if not slices or not _several_blocks_a_slice(slices, length):
        return
    blocks_on_card = mode.gpu.sm_count * min(65_536 // (TOPK_REGISTERS * TOPK_THREADS), 32)
    items = max(4, min(64, -(-length * slices // (blocks_on_card * TOPK_THREADS))))
    blocks = slices * -(-length // (items * TOPK_THREADS))
    with contextlib.ExitStack() as counts:
        for size in (
            slices * x.element_size(),  # kth values
            2 * slices * 4,  # ranks to find
            2 * slices * 4,  # desired bits
            blocks * TOPK_DIGITS * 2,  # counts of digits
            slices * TOPK_DIGITS * 4,  # their sums
            blocks * 4,
            blocks * 4,
        ):
            counts.enter_context(mode.scratch("topk: counts", size))
        for _pass in range(2):  # two scans by key: the state of a tile and those before it, and a key
            with mode.scratch("topk: CUB", _cub(TOPK_SCAN_STATES * 16, 4)):
                pass


class PaddedMask(NamedTuple):
    """A copy of a mask with rows of a multiple of `alignment` elements (pad_bias in attention.cpp), if they are not."""

    rows: int
    element_size: int
    alignment: int

    def __call__(self, columns: int) -> int:
        excess = columns % self.alignment
        return self.rows * (columns + self.alignment - excess) * self.element_size if excess else 0


class FlashSplits(NamedTuple):
    """Partial results of flash attention in fp32, when a few long rows are split over the card.

    `width` is 1 for the sums, the padded head for the outputs. Source: set_params_splitkv in flash_attn/flash_api.cpp.
    """

    rows: int  # batch x heads
    queries: int
    head: int
    sm_count: int
    width: int

    def __call__(self, keys: int) -> int:
        block = 256 if self.head <= 64 else 128 if self.head <= 128 else 64
        splits = flash_splits(self.rows * -(-self.queries // 64), 2 * self.sm_count, -(-keys // block))
        return splits * self.rows * self.queries * self.width * 4 if splits > 1 else 0


def flash_splits(blocks: int, slots: int, key_blocks: int, most: int = 128) -> int:
    """num_splits_heuristic in flash_api.cpp: the fewest splits that fill the card to 85 % of the best filling."""
    if blocks >= 0.8 * slots:
        return 1
    most = min(most, slots, key_blocks)
    filling = []
    for splits in range(1, most + 1):
        useful = splits == 1 or -(-key_blocks // splits) != -(-key_blocks // (splits - 1))
        waves = blocks * splits / slots
        filling.append(waves / math.ceil(waves) if useful else 0.0)
    best = max(filling, default=0.0)
    return next((splits for splits, value in enumerate(filling, 1) if value and value >= 0.85 * best), 1)


def _flash(mode: CardMode, query: torch.Tensor, key: torch.Tensor, *_: Any, **__: Any) -> Iterator[None]:
    yield
    batch, heads, queries, head = query.shape
    if queries == 1 and heads > key.shape[1]:  # seqlenq_ngroups_swapped: heads of a group become queries
        queries, heads = heads // key.shape[1], key.shape[1]
    padded = -(-head // 32) * 32 if head <= 192 else 256
    rows, keys = batch * heads, key.shape[2]
    sums = FlashSplits(rows, queries, head, mode.gpu.sm_count, 1)
    outputs = sums._replace(width=padded)
    with (
        mode.scratch("flash: sums", sums(keys), sums, keys),
        mode.scratch("flash: outputs", outputs(keys), outputs, keys),
    ):
        pass


def _efficient(
    mode: CardMode, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
) -> Iterator[None]:
    """mem_eff_attention/kernel_forward.h: an accumulator in fp32 where the head does not fit in registers."""
    yield
    if value.shape[-1] > 128 and query.dtype in HALF:
        with mode.scratch(
            "attention: accumulator", query.shape[0] * query.shape[1] * query.shape[2] * value.shape[-1] * 4
        ):
            pass


CUDNN_WORKSPACE = 256
"""Bytes that cuDNN's attention asks for when there is more than one query (streams in bench/reference/h200)."""


def _cudnn(mode: CardMode, query: torch.Tensor, *_: Any, **__: Any) -> Iterator[None]:
    """aten/src/ATen/native/cudnn/MHA.cpp: the workspace of the plan."""
    yield
    if query.shape[2] > 1:
        with mode.scratch("cuDNN: workspace", CUDNN_WORKSPACE):
            pass


def _sum(mode: CardMode, x: torch.Tensor, *args: Any, dtype: torch.dtype | None = None, **_: Any) -> Iterator[None]:
    """make_reduction in ReduceOpsUtils.h: integers and booleans are cast to int64 before they are summed."""
    yield
    if not x.dtype.is_floating_point and x.dtype != (dtype or torch.int64):
        with mode.scratch("sum: cast", x.numel() * (dtype or torch.int64).itemsize, shape=tuple(x.shape)):
            pass


def _scalar_power(mode: CardMode, base: float, exponent: torch.Tensor, **_: Any) -> Iterator[None]:
    """pow(Scalar, Tensor) in Pow.cpp: the base goes to the card as a tensor of its own."""
    yield
    with mode.scratch("pow: base", 8):
        pass


def _index(mode: CardMode, x: torch.Tensor, indices: Any, *_: Any, **__: Any) -> Iterator[None]:
    """AdvancedIndex in TensorAdvancedIndexing.cpp: on a card, several indices have to have the same strides."""
    tensors = [index for index in indices if index is not None]
    shape = torch.broadcast_shapes(*(index.shape for index in tensors))  # type: ignore[no-untyped-call]  # as torch has it
    expanded = [_expanded_strides(index, shape) for index in tensors]
    with contextlib.ExitStack() as copies:
        if len(set(expanded)) > 1:
            whole = _contiguous_strides(shape)
            for index, strides in zip(tensors, expanded, strict=True):
                if strides != whole:
                    copies.enter_context(mode.scratch("index: copy", math.prod(shape) * index.element_size()))
        yield


def _expanded_strides(tensor: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    missing = len(shape) - tensor.dim()
    kept = (0 if size == 1 and wanted != 1 else stride for size, stride, wanted in _aligned(tensor, shape, missing))
    return (0,) * missing + tuple(kept)


def _aligned(tensor: torch.Tensor, shape: torch.Size, missing: int) -> Iterator[tuple[int, int, int]]:
    return zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)


def _contiguous_strides(shape: torch.Size) -> tuple[int, ...]:
    return tuple(math.prod(shape[position + 1 :]) for position in range(len(shape)))


HIDDEN: dict[int, Callable[..., Iterator[None]]] = {
    id(_aten.sort.default): _sort,
    id(_aten.sort.stable): _sort,
    id(_aten.topk.default): _topk,
    id(_aten._scaled_dot_product_flash_attention.default): _flash,
    id(_aten._scaled_dot_product_efficient_attention.default): _efficient,
    id(_aten._scaled_dot_product_cudnn_attention.default): _cudnn,
    id(_aten.sum.default): _sum,
    id(_aten.sum.dim_IntList): _sum,
    id(_aten.pow.Scalar): _scalar_power,
    id(_aten.index.Tensor): _index,
    id(_aten.index_put_.default): _index,
}
"""By the identity of the operation, which is one object for the life of the process and hashes slowly."""

_SEED_FIRST = (6, 7, 0, 1)


def order_of_outputs(func: Any) -> tuple[int, ...] | None:
    """Positions of outputs in the order in which they are allocated, where it is not their own."""
    # MHA.cpp makes seed and offset of the dropout before anything else
    return _SEED_FIRST if func is _aten._scaled_dot_product_cudnn_attention.default else None


def not_made(func: Any, args: Any) -> tuple[int, ...]:
    """Positions of outputs that have no memory behind them on a card, though the meta kernel returns them."""
    # a logsumexp, unless a backward pass will want it
    if func is _aten._scaled_dot_product_cudnn_attention.default and not args[4]:
        return (1,)
    return ()


GEMMS = frozenset(
    {
        _aten.mm.default,
        _aten.bmm.default,
        _aten.addmm.default,
        _aten.baddbmm.default,
        _aten.addmv.default,
        _aten.mv.default,
        _aten.dot.default,
        _aten.mm.out,
        _aten.bmm.out,
        _aten.addmm.out,
        _aten.baddbmm.out,
    }
)
"""Operations that cuBLAS executes."""


def multinomial(probabilities: torch.Tensor, count: int, replacement: bool = False, generator: Any = None) -> Any:
    """multinomial_out in Distributions.cpp, without replacement: checks of the input, then a race over a copy of it."""
    if count != 1 and replacement:
        return NotImplemented
    result = torch.empty((*probabilities.shape[:-1], count), dtype=torch.long, device=probabilities.device)
    valid = (probabilities.max() < float("inf")) & (probabilities.min() >= 0)
    empty = (probabilities.sum(-1) == 0).any()
    ~empty  # noqa: B018 - it allocates, which is the point
    race = torch.empty_like(probabilities)
    torch.div(probabilities, race, out=race)
    if count == 1:
        torch.argmax(race, -1, keepdim=True, out=result)
    else:
        torch.topk(race, count, out=(torch.empty(result.shape, dtype=race.dtype, device=race.device), result))
    del valid
    return result
