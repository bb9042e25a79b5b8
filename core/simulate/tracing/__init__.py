"""Running a model's real code on tensors without data, and recording what it would do with a card's memory.

The code is torch's and transformers' own. Tensors are torch's FakeTensors: shape, strides, dtype and device, but no
storage. What the code cannot know from those is added here: the kernel that a card picks for attention, what kernels
allocate inside, the values of small tensors, and what code asks about a card that is not there.
"""
