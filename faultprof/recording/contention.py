"""The parts of contention: what they are called, in the order in which they are shown.

Knows: their names.
Leaves to others: measuring (``capture.contention``), what the figures mean (``analysis``).
"""

from __future__ import annotations

OCCUPANCY = "occupancy"
LOCKS = "locks"
FOLIO = "folio"
YIELD = "yield"
OUTCOMES = "outcomes"
ORDER = "order"

PARTS = (OCCUPANCY, LOCKS, FOLIO, YIELD, OUTCOMES, ORDER)
