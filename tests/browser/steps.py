"""What people wait for, and how they get somewhere by keyboard."""

from playwright.sync_api import expect


def settled(page):
    """The page listens: what happens from now on shows by itself."""
    expect(page.locator(".live").first).to_have_text("live")


def refreshed(page, times=1):
    """Wait until the page was drawn anew so often."""
    for _ in range(times):
        page.evaluate(
            "new Promise(done => document.addEventListener('htmx:after:swap', done, { once: true })).then(() => true)"
        )


def tab_to(page, locator, most=80):
    """Press Tab until it has the focus."""
    for _ in range(most):
        if locator.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {locator}")
