"""Tests on stock Debian kernels, each in a virtual machine."""
