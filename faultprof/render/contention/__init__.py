"""The parts of contention as text and JSON, one module per part; ``report`` puts them together."""
