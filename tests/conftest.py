"""What several test files share by name."""

import pytest
import site_checks


@pytest.fixture(scope="module")
def browser():
    """A browser to click in, with this machine's fonts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = site_checks.start(playwright.chromium)
        yield chromium
        chromium.close()
