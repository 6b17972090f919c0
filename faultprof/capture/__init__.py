"""Runs a command under probes and fills a recording."""
