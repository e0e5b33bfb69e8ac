"""Report pages as a browser shows them. Set HAWSER_SHOTS to a folder to keep the screenshots."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

import synthetic
from hawser.report.build import build
from hawser.report.compare import compare
from hawser.report.comparison import render_comparison
from hawser.report.render import render
from hawser.store import Bundle, Sample

WIDTHS = (390, 820, 1280)
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of invented runs: one axis, two axes, hostile names, a comparison."""
    runs, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("pages")
    long = [
        Sample(
            measurement=f"m{i}", metric="x" * 300 + "<b>", unit="&" * 40, subject="s" * 90, value=i
        )
        for i in range(2)
    ]
    bundles = {
        "quickstart": synthetic.write(runs, synthetic.quickstart(6), void={4: "no answer"}),
        "mms-table1": synthetic.write(runs, synthetic.table1()),
        "hostile": synthetic.write(
            tmp_path_factory.mktemp("h"), synthetic.quickstart(2), extra=long
        ),
        "again": synthetic.write(tmp_path_factory.mktemp("a"), synthetic.table1(), seed=9),
    }
    opened = {name: Bundle.open(path) for name, path in bundles.items()}
    content = {name: render(build(bundle), "html") for name, bundle in opened.items()}
    pair = compare([opened["mms-table1"], opened["again"]])
    content["comparison"] = render_comparison(pair, "html")
    for name, page in content.items():
        (folder / f"{name}.html").write_bytes(page)
    return {name: folder / f"{name}.html" for name in content}


@contextmanager
def shown(
    browser: Browser, file: Path, width: int, scheme: Scheme = "light"
) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what went wrong with it: messages, exceptions, requests for anything else."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    wrong: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: wrong.append(r.url) if r.url != file.as_uri() else None)
    page.goto(file.as_uri(), wait_until="load")
    yield page, wrong
    if os.environ.get("HAWSER_SHOTS"):
        target = Path(os.environ["HAWSER_SHOTS"]) / f"{file.stem}-{width}-{scheme}.png"
        page.screenshot(path=target, full_page=True)
    context.close()


NAMES = ("quickstart", "mms-table1", "hostile", "comparison")

OVERFLOWING = """
() => [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll') && !e.closest('svg') && e.getClientRects().length)
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map(e => e.tagName + '.' + e.className)
"""
CLIPPED = """
() => [...document.querySelectorAll('svg[role=img]')]
  .filter(s => s.getClientRects().length)
  .flatMap(s => { const box = s.getBoundingClientRect();
    return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
      return r.left < box.left - 2 || r.right > box.right + 2 || r.top < box.top - 2
        || r.bottom > box.bottom + 2 }).map(t => t.textContent) })
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_opens_whole_and_alone(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: Scheme
) -> None:
    with shown(browser, pages[name], width, scheme) as (page, wrong):
        assert wrong == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERFLOWING) == []
        assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_one_form_of_each_figure_is_seen(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    with shown(browser, pages["mms-table1"], width) as (page, _):
        for index in range(page.locator("figure").count()):
            figure = page.locator("figure").nth(index)
            seen = [s for s in figure.locator("svg").all() if s.is_visible()]
            assert len(seen) == 1
            box = seen[0].bounding_box()
            assert box is not None
            assert box["height"] > 100
            assert 300 < box["width"] <= width


def test_plots_show_every_run(browser: Browser, pages: dict[str, Path]) -> None:
    with shown(browser, pages["mms-table1"], 1280) as (page, _):
        chart = page.locator("section[aria-labelledby=result] svg.wide")
        assert chart.locator("circle:has(title)").count() >= 100
        bottom = chart.locator("text", has_text="rates").bounding_box()
        top = chart.locator("text", has_text="Goodput").bounding_box()
        assert bottom is not None
        assert top is not None
        assert top["y"] < bottom["y"]
        colours = page.evaluate(
            "s => [...new Set([...document.querySelectorAll(s)]"
            "  .map(e => getComputedStyle(e).fill))]",
            "section[aria-labelledby=result] svg.wide circle:has(title)",
        )
        assert len(colours) == 5


def test_what_a_screen_reader_says(browser: Browser, pages: dict[str, Path]) -> None:
    with shown(browser, pages["quickstart"], 1280) as (page, _):
        images = page.get_by_role("img").all()
        names = [image.get_attribute("aria-label") or "" for image in images]
        assert all(len(name) > 20 for name in names)
        assert any("path p4 gw1.b to gw2.b 16 Mbit/s" in name for name in names)
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.get_by_role("heading", level=2).count() >= 6
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.locator("th:not([scope])").count() == 0
        assert page.locator("table:not(:has(caption))").count() == 0


CONTRAST = """
() => { const lum = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(Number).map(x => x / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2] };
  const back = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c } return 'rgb(255, 255, 255)' };
  const texts = 'h1,h2,p,li,span,small,b,td,th,dt,dd,summary,caption,pre,footer';
  return [...document.querySelectorAll(texts)]
    .filter(e => e.textContent.trim() && e.getClientRects().length)
    .map(e => [lum(getComputedStyle(e).color), lum(back(e)), e.textContent.slice(0, 30)])
    .map(([a, b, what]) => [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), what])
    .filter(([ratio]) => ratio < 4.5) }
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["quickstart", "hostile"])
def test_text_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Scheme
) -> None:
    """Contrast of at least 4.5, WCAG 2.2 criterion 1.4.3."""
    with shown(browser, pages[name], 1280, scheme) as (page, _):
        assert page.evaluate(CONTRAST) == []


def test_a_closed_table_opens(browser: Browser, pages: dict[str, Path]) -> None:
    with shown(browser, pages["quickstart"], 390) as (page, _):
        table = page.locator("details table").first
        assert not table.is_visible()
        page.locator("summary").first.click()
        assert table.is_visible()
        assert page.evaluate(OVERFLOWING) == []


def test_it_prints_light_and_whole(browser: Browser, pages: dict[str, Path]) -> None:
    with shown(browser, pages["quickstart"], 1280, "dark") as (page, _):
        assert page.pdf(format="A4").startswith(b"%PDF")
        page.emulate_media(media="print", color_scheme="dark")
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(0, 0, 0)"
        assert page.locator("svg.wide").first.is_visible()
