"""Simulation of sPrograms: see `simulate_values.py` (adversarial, on data) and `simulate_time.py` (timed)."""

from threadloom.sched.simulate_time import simulate_time

__all__ = ["simulate_time"]
