"""Fixtures of the tests of the CUDA target without a GPU."""

from tests.unit.cuda_target.fake_driver import gpu  # noqa: F401
