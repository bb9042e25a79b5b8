"""The dispatch mode under which a model runs: every operation passes here once, on tensors without data.

An operation's outputs depend on the metadata of its inputs alone, so they are worked out once (by FakeTensorMode) and
remembered: the layers of a model, and the steps of a generation, repeat each other. That is 20 times as fast.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.utils._python_dispatch import TorchDispatchMode

from core.simulate.errors import NotSimulated
from core.simulate.gpu import Gpu
from core.simulate.outside import Outside
from core.simulate.stream import Stream, Varying
from core.simulate.tracing.ghosts import Ghosts, Ident, Storages
from core.simulate.tracing.hidden import GEMMS, HIDDEN, not_made, order_of_outputs
from core.simulate.tracing.operations import SPECIAL, from_values, is_composite, makes_large, on_card
from core.simulate.tracing.origins import Origins, caller
from core.simulate.tracing.values import PICKS, follow, made_up, small

_aten, _prim = torch.ops.aten, torch.ops.prim
_Tag = torch.Tag
_DEVICE = id(_prim.device.default)
_RESIZING = frozenset({_aten.resize_.default, _aten.set_.source_Tensor, _aten.set_.source_Storage_storage_offset})
_NO_KERNEL = ("empty", "detach", "alias", "lift", "set_", "view", "as_strided", "_to_copy", "copy_", "resize_", "t.")
"""Operations that launch none, or only a copy."""


class Output(NamedTuple):
    """What is remembered of one output: a view of input number `of`, or new memory of `size` bytes on the card."""

    of: int | None
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    device: torch.device
    ident: Ident
    size: int


class Constant(NamedTuple):
    """An output that is no tensor: None, or a number that follows from the shapes."""

    value: Any


class Recipe(NamedTuple):
    """How to make the outputs of an operation again. An integer stands for the input of that number, returned as it is.

    sequence: list or tuple, None for a single output. order: of allocation, where it is not that of the outputs.
    """

    sequence: type[list[Any]] | type[tuple[Any, ...]] | None
    outputs: tuple[Output | int | Constant, ...]
    order: tuple[int, ...] | None
    mutable: bool
    small: bool
    picks: bool


class CardMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it unannotated
    """Records into `stream` what the operations under it would allocate on a card of the kind `gpu`.

    in_forward: whether the model's own code runs; what it picks from scores that nobody has cannot be made up.
    module: the name of the innermost module at work, None outside the forward passes. passes: those that have begun.
    """

    def __init__(self, gpu: Gpu, stream: Stream, outside: Outside, model_class: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.gpu = gpu
        self.stream = stream
        self.outside = outside
        self.in_forward = False
        self.module: str | None = None
        self.passes = 0
        self.storages = Storages(stream.free)
        self._model_class = model_class
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._ghosts = Ghosts(self._fake)
        self._origins = Origins(stream.places)
        self._recipes: dict[Any, Recipe] = {}
        self._workspaces: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and the wrapper costs 10 µs an operation

    # ---- memory

    def take(self, size: int, op: str, shape: tuple[int, ...] | None = None, dtype: Any = None) -> int:
        """Record an allocation of `size` bytes; returns its number."""
        return self.stream.take(size, self._origins.place(op, self.module, shape, dtype, depth=3))

    def give_back(self, number: int) -> None:
        self.stream.free(~number)

    @contextlib.contextmanager
    def scratch(
        self, op: str, size: int, rule: Any = None, argument: int = 0, shape: tuple[int, ...] | None = None
    ) -> Iterator[None]:
        """Memory of a kernel while it runs. With a rule, the size is what the rule says for `argument`, 0 included."""
        number = self.take(size, op, shape)
        if rule is not None:
            self.stream.varying[number] = Varying(rule, argument)
        try:
            yield
        finally:
            self.give_back(number)

    def _workspace(self, name: str, size: int) -> None:
        """Memory that is taken at first use and never given back."""
        if name not in self._workspaces:
            self._workspaces.add(name)
            self.stream.lasting.add(self.take(size, name))

    def without_memory(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor on the card in memory that is not of PyTorch's pool."""
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        made = self._ghosts.new(shape, tuple(strides), dtype, torch.device("cuda", 0), None)
        self._ghosts.ident(made)
        return made

    # ---- dispatch

    def __torch_dispatch__(  # noqa: PLR0912 - the one place where everything passes, kept flat for its speed
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        which = id(func)  # an operation is one object for the life of the process, and hashes slowly
        if which == _DEVICE:
            tensor = args[0]
            return tensor.fake_device if type(tensor) is FakeTensor else tensor.device
        kwargs = kwargs or {}
        special = SPECIAL.get(which)
        if special is not None:
            answer = special(self, func, args, kwargs)
            if answer is not NotImplemented:
                return answer
        key: list[Any] = [which]
        inputs: list[FakeTensor] = []
        real = self._describe(args, key, inputs)
        if kwargs:
            for name, value in kwargs.items():
                key.append(name)
                real |= self._describe((value,), key, inputs)
        if not inputs and not on_card(kwargs) and not makes_large(func, args):
            return func(*args, **kwargs)  # what is real and on the host stays so
        if real:
            args, kwargs = self._with_ghosts(args), {k: self._with_ghosts((v,))[0] for k, v in kwargs.items()}
            return self.__torch_dispatch__(func, types, args, kwargs)
        names = tuple(key)
        recipe = self._recipes.get(names)
        if recipe is None and is_composite(func):  # under inference_mode it comes here before torch takes it apart
            with self:
                return func.decompose(*args, **kwargs)
        hidden = HIDDEN.get(which)
        kernel = hidden(self, *args, **kwargs) if hidden is not None and self._runs_on_card(inputs) else None
        if kernel is not None:
            next(kernel)
        if recipe is not None:
            out = self._again(recipe, func, inputs)
        else:
            out, recipe = self._first(names, func, args, kwargs, inputs)
        if kernel is not None:
            next(kernel, None)
        if recipe.small or recipe.mutable:
            self._values(func, args, kwargs, out, inputs, recipe)
        return out

    @staticmethod
    def _runs_on_card(inputs: list[FakeTensor]) -> bool:
        return any(tensor.fake_device.type == "cuda" for tensor in inputs)

    def _describe(self, values: Any, key: list[Any], inputs: list[FakeTensor]) -> bool:
        """Append what tells these arguments from others. True when there is a real tensor among them.

        1, 1.0 and True are equal as keys but not as arguments, so all but plain integers come with their type.
        """
        real = False
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                key.append(value._ident or self._ghosts.ident(value))
                inputs.append(value)
            elif kind is int or value is None:
                key.append(value)
            elif kind is list or kind is tuple:
                inner: list[Any] = []
                real |= self._describe(value, inner, inputs)
                key.append(tuple(inner))
            elif isinstance(value, torch.Tensor):
                real = True
            else:
                key.append((kind, value))
        return real

    def _with_ghosts(self, values: Any) -> list[Any]:
        """The same arguments, with real tensors of the host as tensors without data that know their values."""
        ghosts: list[Any] = []
        for value in values:
            if type(value) is list or type(value) is tuple:
                ghosts.append(self._with_ghosts(value))
            elif isinstance(value, torch.Tensor) and type(value) is not FakeTensor:
                ghosts.append(self._ghosts.of_real(value))
            else:
                ghosts.append(value)
        return ghosts

    def _again(self, recipe: Recipe, func: Any, inputs: list[FakeTensor]) -> Any:
        """The outputs of an operation that ran before on inputs like these."""
        made: list[Any] = []
        ghosts = self._ghosts
        for output in recipe.outputs:
            if isinstance(output, int):
                made.append(inputs[output])
            elif isinstance(output, Constant):
                made.append(output.value)
            elif output.of is not None:
                source = inputs[output.of]
                made.append(ghosts.view(source, output.shape, output.stride, output.dtype, output.offset, output.ident))
            else:
                new = ghosts.new(output.shape, output.stride, output.dtype, output.device, output.ident)
                if output.size and recipe.order is None:
                    self._allocated(new, func, output.size)
                made.append(new)
        for position in recipe.order or ():
            ordered = recipe.outputs[position]
            if isinstance(ordered, Output) and ordered.size:
                self._allocated(made[position], func, ordered.size)
        return made[0] if recipe.sequence is None else recipe.sequence(made)

    def _first(  # noqa: PLR0912 - as above
        self, names: tuple[Any, ...], func: Any, args: Any, kwargs: dict[str, Any], inputs: list[FakeTensor]
    ) -> tuple[Any, Recipe]:
        """Run an operation on torch's own rules, record its memory, and remember how to make its outputs again."""
        try:
            with self._fake:
                out = func(*args, **kwargs)
        except DynamicOutputShapeException as error:
            out = from_values(self._ghosts, func, args, kwargs, inputs)
            if out is None:
                raise self.not_simulated(func, "makes a tensor whose size depends on values") from error
            names = ()
        except (DataDependentOutputException, UnsupportedFakeTensorException) as error:
            raise self.not_simulated(func, "reads values") from error
        self._forget_conversions()
        sequence = type(out) if isinstance(out, list | tuple) else None
        outs: Any = out if sequence else (out,)
        missing, order = not_made(func, args), order_of_outputs(func)
        outputs: list[Output | int | Constant] = []
        known = bool(names) and func not in _RESIZING and _Tag.inplace_view not in func.tags
        fresh: set[int] = set()
        for position, one in enumerate(outs):
            if type(one) is not FakeTensor:
                known = known and (one is None or type(one) is int)
                outputs.append(Constant(one))
                continue
            storage = one.untyped_storage()
            same = next((i for i, tensor in enumerate(inputs) if tensor is one), None)
            of = next((i for i, tensor in enumerate(inputs) if tensor.untyped_storage()._cdata == storage._cdata), None)
            size = 0
            if of is None and one.fake_device.type == "cuda" and position not in missing:
                known = known and storage._cdata not in fresh  # two outputs that share memory
                if storage._cdata not in fresh and self.storages.number_of(storage) is None:
                    size = storage.nbytes()
                fresh.add(storage._cdata)
            outputs.append(same if same is not None else self._output(one, of, size))
        for position in order or range(len(outputs)):
            made = outputs[position]
            if type(made) is Output and made.size:
                self._allocated(outs[position], func, made.size)
        self._libraries(func, inputs, outs)
        recipe = Recipe(
            sequence,
            tuple(outputs),
            order,
            func._schema.is_mutable,
            all(small(one) for one in outs if isinstance(one, torch.Tensor)),
            func in PICKS,
        )
        if known:
            self._recipes[names] = recipe
        else:
            for one in (*inputs, *outs):
                if type(one) is FakeTensor:
                    one._ident = None  # it may have got another shape
        return out, recipe

    def _forget_conversions(self) -> None:
        """FakeTensorMode remembers tensors it has made by weak references, with which `module.to` cannot swap them."""
        converter = getattr(self._fake.fake_tensor_converter, "meta_converter", None)
        memo = getattr(converter, "tensor_memo", None)
        if memo:
            memo.clear()

    def _output(self, tensor: FakeTensor, of: int | None, size: int) -> Output:
        return Output(
            of,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.dtype,
            int(tensor.storage_offset()),
            tensor.fake_device,
            self._ghosts.ident(tensor),
            size,
        )

    def _allocated(self, tensor: FakeTensor, func: Any, size: int) -> None:
        shape = tuple(tensor.shape)
        number = self.take(size, func.__name__, shape, tensor.dtype)
        self.storages.watch(tensor.untyped_storage(), number)

    def _libraries(self, func: Any, inputs: list[FakeTensor], outs: Any) -> None:
        """What is loaded, and allocated for good, when an operation of this kind first runs on the card."""
        tensors = [t for t in (*inputs, *outs) if type(t) is FakeTensor and t.fake_device.type == "cuda"]
        if not tensors or func.__name__.startswith(_NO_KERNEL):
            return
        self.outside.kernels()
        if func in GEMMS:
            self.outside.cublas()
            self._workspace("cuBLAS workspace", self.gpu.cublas_workspace)
            if func is _aten.addmm.default and inputs[0].dim() == 1:
                self._workspace("cuBLASLt workspace", self.gpu.cublaslt_workspace)

    def _values(
        self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, inputs: list[FakeTensor], recipe: Recipe
    ) -> None:
        if any(tensor._shadow is None for tensor in inputs):
            if recipe.picks and not self.in_forward:
                made_up(func, out)
                return
            if not recipe.mutable:
                return
        follow(func, args, kwargs, out, inputs)

    def not_simulated(self, func: Any, what: str) -> NotSimulated:
        return NotSimulated(
            f"{self._model_class()} is not simulated: {func} {what} that tensors without data do not have, "
            f"at {caller()}; run it on a GPU or on the CPU"
        )
