"""What a simulation must know of a card beside its size."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec.cards import Card

MIB = 2**20


@dataclass(frozen=True)
class Gpu:
    """capability: compute capability. Workspaces in bytes: cuBLAS's and cuBLASLt's inside PyTorch's pool."""

    capability: tuple[int, int]
    sm_count: int
    measured_cublas: int | None = None
    measured_cublaslt: int | None = None

    @staticmethod
    def of(card: Card) -> Gpu:
        return Gpu(card.compute_capability, card.sm_count, card.cublas_workspace, card.cublaslt_workspace)

    @property
    def sm(self) -> int:
        """90 for compute capability 9.0."""
        return self.capability[0] * 10 + self.capability[1]

    @property
    def cublas_workspace(self) -> int:
        """getChosenWorkspaceSize in aten/src/ATen/cuda/CublasHandlePool.cpp of torch 2.11: `:4096:8` on 9.0 (32 MiB),
        `:4096:2:16:8` elsewhere (8.125 MiB)."""
        if self.measured_cublas is not None:
            return self.measured_cublas
        return 32 * MIB if self.capability[0] == 9 else (2 * 4096 + 8 * 16) * 1024

    @property
    def cublaslt_workspace(self) -> int:
        """1 MiB on the H200 with torch 2.11 (recorded streams in bench/reference)."""
        return MIB if self.measured_cublaslt is None else self.measured_cublaslt

    @property
    def prefers_cudnn(self) -> bool:
        """cuDNN's attention comes first on 9.0 and 10.0 (check_prefer_cudnn_attention in sdp_utils.cpp)."""
        return self.sm in (90, 100)

    @property
    def cudnn_head_dim(self) -> int:
        """The widest head that cuDNN's attention takes (check_cudnn_tensor_shapes in sdp_utils.cpp)."""
        return 256 if self.sm == 90 else 128
