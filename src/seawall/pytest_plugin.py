"""The pytest plugin: the fixture `seawall_in_memory`, for tests of tasks.

It imports nothing of seawall until a test asks for it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from seawall.app import Seawall
    from seawall.testing import World


@pytest.fixture
def seawall_in_memory() -> Iterator[Callable[["Seawall"], "World"]]:
    """Puts an application into memory, on a clock that you move, for the length of the test.

    world = seawall_in_memory(app)
    """
    from seawall.testing import in_memory  # noqa: PLC0415 - only where it is asked for

    with ExitStack() as worlds:
        yield lambda app: worlds.enter_context(in_memory(app))
