"""A model of PyTorch's CUDA caching allocator, and of the driver below it.

Facts are those of torch 2.11 to 2.13: c10/cuda/CUDACachingAllocator.cpp (`DeviceCachingAllocator`),
c10/core/AllocatorConfig.{h,cpp} and c10/cuda/CUDAAllocatorConfig.h. Where the driver decides, which has no public
source, they are measured: bench/reference says on what.
"""
