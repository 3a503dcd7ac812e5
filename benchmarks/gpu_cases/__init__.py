"""Kernels that use what no example uses, with the interface of threadloom/examples: run by hopper_check.py."""
