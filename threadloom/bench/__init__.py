"""Timing operators beside their peers: `loom bench`."""
