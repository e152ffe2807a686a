"""Word vectors: learn them, keep them, ask them, judge them."""
