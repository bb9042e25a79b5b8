"""Out-of-memory errors: what a pasted text says, which tensor it was, who held the memory, what to change."""
