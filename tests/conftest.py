"""Fixtures that several folders of tests share, and how Hypothesis looks for counter-examples.

No example has a deadline: machines are noisy. In CI the examples are the same every time, so that
a change is judged by what it changed; at home they are new every time.
"""

import os

from hypothesis import settings

settings.register_profile("seawall", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("seawall")

pytest_plugins = ["tests.support.postgres", "tests.support.objects", "tests.support.llm"]
