"""Optimisations of raised CUDA kernels at level `par`, before barriers are lowered; `pipeline.py` has the order."""
