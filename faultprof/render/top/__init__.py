"""The live view as lines of text, and what keys do to it: pure functions of figures and a size."""
