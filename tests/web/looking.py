"""A person without a browser: signed in, looking at pages, sending their forms."""

import html
import re
from html.parser import HTMLParser

HTML = {"accept": "text/html"}
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'"


class Person:
    """Somebody with a cookie, who reads pages and presses their buttons."""

    def __init__(self, world, role="operator"):
        self.world = world
        world.house.glances.fresh_seconds = 0
        world.client.cookies.clear()
        answer = world.client.post("/login", data={"token": world.words[role]})
        assert answer.status_code == 303

    def ask(self, path):
        return self.world.client.get(path, headers=HTML)

    def sees(self, path):
        """The page, as it is written."""
        answer = self.ask(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def reads(self, path):
        """The words of a page, without its elements."""
        return words(self.sees(path))

    def presses(self, path, action, **fields):
        """Send the form of a page that leads there; what the next page tells of it."""
        found = re.search(
            rf'<form[^>]*action="{re.escape(action)}"[^>]*>.*?</form>', self.sees(path), re.DOTALL
        )
        assert found, f"{path} has no form for {action}"
        assert 'method="post"' in found[0]
        word = re.search(r'name="csrf" value="(\w+)"', found[0])[1]
        return self.sends(action, csrf=word, **fields)

    def sends(self, action, **fields):
        """What is told after a form was sent, and whether it went well."""
        answer = self.world.client.post(action, data=fields, headers=HTML)
        shown = answer.text  # a form that is refused comes back as it was filled in
        if answer.status_code != 422:
            assert answer.status_code == 303, answer.text
            shown = self.sees(answer.headers["location"])
        found = re.search(r'class="said( wrong)?" role="\w+">([^<]*)<', shown)
        assert found, "nothing is told"
        return html.unescape(found[2]), not found[1]

    def csrf(self, path="/"):
        return re.search(r'name="csrf" value="(\w+)"', self.sees(path))[1]


def words(text):
    text = re.sub(r"<script.*?</script>|<svg.*?</svg>|<head>.*?</head>", " ", text, flags=re.DOTALL)
    found = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
    return re.sub(r" ([.,])", r"\1", found)


class Elements(HTMLParser):
    """Every start tag of a page, with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def is_harmless(text):
    """No script, picture or handler that is not ours; no style of its own."""
    for tag, attrs in Elements(text).found:
        assert tag != "img"
        assert tag != "script" or attrs.get("src", "").startswith("/static/")
        assert not any(name == "style" or name.startswith("on") for name in attrs), (tag, attrs)
        for name in ("src", "href", "action", "hx-get"):
            assert re.match(r"[/#]", attrs.get(name) or "/"), (tag, attrs)
