"""``python -m faultprof``."""

from faultprof.cli import main

main()
