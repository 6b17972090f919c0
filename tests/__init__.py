"""The suite: unit, host and kernels, and what they share."""
