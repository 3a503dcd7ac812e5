import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    """Tests neither read nor fill the user's cache."""
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "cache"))
