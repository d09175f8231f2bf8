"""What people wait for, and how they get somewhere by keyboard."""

from playwright.sync_api import expect

_DRAWN = """() => new Promise((done) => {
    document.addEventListener("htmx:after:swap", () => done(true), { once: true });
    document.dispatchEvent(new Event("visibilitychange"));
})"""


def settled(page):
    """The page listens: what happens from now on shows by itself."""
    expect(page.locator(".live").first).to_have_text("live")


def looked_at_again(page):
    """Somebody comes back to the page: it is drawn anew soon, and not only at its next tick."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def refreshed(page, times=1):
    """Come back to the page so often, and wait each time until it was drawn anew."""
    for _ in range(times):
        page.evaluate(_DRAWN)


def tab_to(page, locator, most=80):
    """Press Tab until it has the focus."""
    for _ in range(most):
        if locator.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {locator}")
