"""A server that really listens, in a thread of the test's process."""

import threading
from contextlib import contextmanager

import httpx

from seawall import Seawall, access
from seawall.web.server import Server
from tests.support.processes import free_ports
from tests.web.conftest import ROLES, tasks_on

PATIENCE_SECONDS = 60.0


class Served:
    """Where it listens, and who comes to it."""

    def __init__(self, app, address, server):
        self.app, self.address, self.server = app, address, server
        self.words = {}
        for role, given in ROLES.items():
            if given is not None:
                scope, owner = given
                self.words[role], _ = access.made(app.store, scope=scope, owner=owner)

    def client(self, role="operator", **how):
        headers = {} if role == "nobody" else {"authorization": f"Bearer {self.words[role]}"}
        return httpx.Client(
            base_url=self.address, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False, **how
        )


@contextmanager
def served(url, **settings):
    (port,) = free_ports(1)
    app = Seawall(url, port=port, **settings)
    tasks_on(app)
    server, up, found = Server(app), threading.Event(), []

    def ready(address):
        found.append(address)
        up.set()

    thread = threading.Thread(target=server.run, args=(ready,), daemon=True)
    thread.start()
    assert up.wait(PATIENCE_SECONDS), "it does not listen"
    try:
        yield Served(app, found[0], server)
    finally:
        server.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        app.close()
