"""Tests that run inside the virtual machines."""
