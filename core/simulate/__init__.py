"""A run on a card that is not there: the job's real code on tensors without data, and a model of the allocator."""
