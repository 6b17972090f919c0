"""Benchmark rows: what faultprof costs, held against its goals; ``python -m tests.bench``."""
