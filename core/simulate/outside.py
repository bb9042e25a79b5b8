"""What a process takes from the driver outside PyTorch's pool, and when: CUDA's context, libraries, NCCL."""

from __future__ import annotations

from collections.abc import Hashable

from core.simulate.stream import Stream
from core.spec.cards import Libraries

PAGE = 2 * 2**20

PLAN = 82 * 2**10
PLAN_ROOM = PAGE - 922 * 2**10
"""cuDNN compiles a kernel for each shape of attention that it has not seen, and its code stays on the card.

The runs with 1, 2, 8, 16, 32, 37 and 64 distinct shapes in bench/reference hold 8, 8, 8, 10, 10, 10 and 14 MiB more
than the same without cuDNN; capped/llama7b_b150-18600 grew between the 3rd and the 14th shape. 82 KiB a shape in pages
of 2 MiB, the first of which is 0.9 MiB full, is the one rate that agrees with all of them.
"""


class Outside:
    """Marks each library in the stream at its first use."""

    def __init__(self, stream: Stream, libraries: Libraries) -> None:
        self._stream = stream
        self._libraries = libraries
        self._loaded: set[str] = set()
        self._plans: set[Hashable] = set()

    def context(self) -> None:
        self._load("CUDA context", self._libraries.context)

    def kernels(self) -> None:
        """torch's own kernels, loaded when the first of them is launched."""
        self._load("kernels", self._libraries.kernels)

    def cublas(self) -> None:
        self._load("cuBLAS", self._libraries.cublas)

    def deepspeed_cublas(self) -> None:
        """DeepSpeed's inference context has a cuBLAS handle beside torch's (recorded: gallery/ddppuzzle)."""
        self._load("cuBLAS of DeepSpeed", self._libraries.cublas)

    def cudnn(self) -> None:
        self._load("cuDNN", self._libraries.cudnn)

    def nccl(self) -> None:
        """The communicator and its buffers, made at the first collective."""
        self._load("NCCL", self._libraries.nccl)

    def attention(self, shape: Hashable) -> None:
        """cuDNN's attention brings its library with it, and makes a plan for every shape it meets."""
        self.cudnn()
        if shape not in self._plans:
            self._plans.add(shape)
            self._stream.mark("plan", "cuDNN plan", PLAN)

    def _load(self, name: str, size: int) -> None:
        if name not in self._loaded:
            self._loaded.add(name)
            self._stream.mark("outside", name, size)
