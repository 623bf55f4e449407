"""Begins the longest test files first, has a record written of each file that was seen, and lends
a browser to the tests that click.

It stands here, not in tests/, so that a run of one notebook finds it too.
"""

import parts
import pytest
import records
import warm


def pytest_configure(config):
    warm.install()
    if not hasattr(config, "workerinput"):  # a worker's results reach the process that started it
        config.pluginmanager.register(records.Recorder(config.rootpath, config.option))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Tell every test how many its file has, whichever of them are chosen afterwards."""
    report = yield
    for node in report.result if isinstance(collector, pytest.File) else ():
        node.user_properties = [(records.WHOLE, len(report.result))]
    return report


def file_of(item):
    return item.nodeid.partition("::")[0]


def pytest_collection_modifyitems(config, items):
    """Workers take the longest files first, so that none is left over late."""
    if hasattr(config, "workerinput"):
        rank = {file: k for k, file in enumerate(parts.longest_first(map(file_of, items)))}
        items.sort(key=lambda item: rank[file_of(item)])


@pytest.fixture(scope="module")
def browser():
    """A browser to click in, with this machine's fonts. It is imported where a test asks for it."""
    import site_checks
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = site_checks.start(playwright.chromium)
        yield chromium
        chromium.close()
