"""Fixtures that several folders of tests share, and how Hypothesis looks for counter-examples.

No example has a deadline: machines are noisy. In CI the examples are the same every time, so that
a change is judged by what it changed; at home they are new every time. What is shown on the newer
PostgreSQL is shown on the older one as well in CI, and at home with SEAWALL_ALL_STORES=1.
"""

import os

from hypothesis import settings

settings.register_profile("seawall", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("seawall")

pytest_plugins = ["tests.support.postgres", "tests.support.objects", "tests.support.llm"]

ON_THE_OLDER_SERVER = "postgres16"
"""In the names of tests; those of whole processes and of crashes, which are few, always run."""


def pytest_collection_modifyitems(config, items):
    asked_for = ON_THE_OLDER_SERVER in " ".join([*config.args, config.option.keyword])
    if asked_for or {"CI", "SEAWALL_ALL_STORES"} & os.environ.keys():
        return
    twice = [
        item
        for item in items
        if ON_THE_OLDER_SERVER in item.name and item.path.parent.name in ("store", "doors")
    ]
    config.hook.pytest_deselected(items=twice)
    left = set(map(id, twice))
    items[:] = [item for item in items if id(item) not in left]
