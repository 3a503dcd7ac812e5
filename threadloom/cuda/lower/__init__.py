"""Barrier lowering: from a raised CUDA kernel to `par` without barriers and collectives; see `pipeline.py`."""
