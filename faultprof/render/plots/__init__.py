"""Plots with matplotlib, one module per kind; how all of them look is in ``style``.

Knows: which kinds there are.
Leaves to others: the kinds (``durations``, ``metrics``, ``parts``), and writing (``render.files``).
"""
