"""`loom translate`: a CUDA program as C++ with OpenMP; the host source stays, kernels become plain loops."""
