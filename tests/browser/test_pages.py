"""Every page of the site in a real browser, at a phone's and a desktop's width."""

import base64

import pytest

from vgg_kernels.report.page import page as records
from vgg_kernels.report.publish import html
from vgg_kernels.report.publish.site import build
from vgg_kernels.report.study import root

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return build(root(), tmp_path_factory.mktemp("site"), html.fragment(records()))


def test_pages_fit_their_width_and_show_every_picture(browser, pages, shots):
    for page in pages:
        browser.get(page.as_uri())
        assert browser.title
        width, wide = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
        assert wide <= width, f"{page.name} scrolls sideways: {wide} > {width}"
        broken = browser.execute_script("return [...document.images].filter(i => !i.naturalWidth).map(i => i.alt)")
        assert broken == []
        whole = {"captureBeyondViewport": True, "format": "png"}
        picture = browser.execute_cdp_cmd("Page.captureScreenshot", whole)["data"]
        (shots / f"{page.stem}-{width}.png").write_bytes(base64.b64decode(picture))


def test_pages_ask_the_network_for_nothing(browser, pages):
    for page in pages:
        browser.get(page.as_uri())
        names = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
        assert [name for name in names if not name.startswith(("file:", "data:"))] == []


def test_every_page_can_be_reached_from_the_index(browser, pages):
    browser.get(pages[0].as_uri())
    reached = browser.execute_script("return [...document.links].map(a => a.href.split('#')[0])")
    assert {page.as_uri() for page in pages} <= set(reached) | {pages[0].as_uri()}


def test_pages_print_without_navigation(browser, pages, shots):
    for page in pages:
        browser.get(page.as_uri())
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
        printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
        (shots / f"{page.stem}.pdf").write_bytes(printed)
        assert printed.startswith(b"%PDF")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
