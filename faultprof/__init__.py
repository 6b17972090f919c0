"""faultprof: where the Linux kernel's page-fault path spends its time."""

__version__ = "0.1.0"
