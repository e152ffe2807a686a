"""What the tests share: where real data lies, and models of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from lab_browser import browser, lab_runs, lab_server, lab_translators, lab_words, open_page  # noqa: F401, fixtures

settings.register_profile("any machine", settings(), deadline=None)  # no test asserts a time
settings.load_profile("any machine")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def shared() -> Path:
    """The folder of real data, or a skip where it is not."""
    if not SHARED.is_dir():
        pytest.skip("../shared/data is not here")
    return SHARED


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' cache of the embedded corpus out of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp().parent / "cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests run side by side; each keeps to one core."""
    torch.set_num_threads(1)
