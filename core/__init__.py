"""VRAMscope: where GPU memory goes when a language model generates."""
