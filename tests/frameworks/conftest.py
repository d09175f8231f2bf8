"""The project is Django's to test, in a Python of its own: see `test_django`."""

collect_ignore = ["project"]
