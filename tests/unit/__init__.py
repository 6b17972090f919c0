"""Tests that need neither root nor a particular kernel."""
