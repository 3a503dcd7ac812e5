"""Vectorisation of barrier-free loops over threads: W neighbouring threads become the lanes of explicit vectors."""
