"""`pytest --update` writes the golden files and generated pages anew; read the diff before committing it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# A shared machine stutters: a slow example is no fault, and a run that finds something must find it again.
hypothesis.settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write golden files and generated pages anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with the file that holds it, or write it with --update."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.exists(), f"{path} is missing: pytest --update writes it"
        assert path.read_text("utf-8") == text, f"{path} differs: pytest --update writes it anew"

    return compare


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every layout of verify_builder.py, whole: tests copy what they damage."""
    import verify_builder

    folder = tmp_path_factory.mktemp("shelf")
    verify_builder.fill(folder)
    return folder
