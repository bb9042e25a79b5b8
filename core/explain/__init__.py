"""Where the memory of a run is at an instant, what differs between two runs, and what follows from it."""
