"""Makes a card look smaller: a process that keeps the rest of its memory while a run lasts."""
