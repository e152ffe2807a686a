"""Language modelling: build and train, load, evaluate, score lines, generate, compare, mix."""
