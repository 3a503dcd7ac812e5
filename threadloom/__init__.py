"""threadloom: tile kernels and CUDA C++ compiled for the machine you have."""

__version__ = "0.1.0"
