"""Pure functions of recordings: call trees, histograms, statistics, comparison."""
