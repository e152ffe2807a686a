"""Benchmarks side by side with the real peers: one file a subject, opened by `ostinato bench` alone."""
