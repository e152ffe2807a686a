"""Neural models: cells, how they are unrolled and stacked, networks, and the door to `LanguageModel`."""
