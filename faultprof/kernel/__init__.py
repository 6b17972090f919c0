"""Read-only knowledge of a kernel: features, symbols, debuginfo, fault-path functions."""
