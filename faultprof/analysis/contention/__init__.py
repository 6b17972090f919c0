"""What the parts of contention measured, one module per part: pure functions of recordings."""
