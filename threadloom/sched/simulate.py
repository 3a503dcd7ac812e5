"""Simulation of sPrograms: adversarial on values (`simulate_values.py`), in time (`simulate_time.py`)."""

from threadloom.sched.simulate_time import simulate_time
from threadloom.sched.simulate_values import simulate_values

__all__ = ["simulate_time", "simulate_values"]
