"""What holds for every page of the lab, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab_browser import PHONE, WIDE, Watched
from ostinato.lab.bundle import TEXTS
from ostinato.lab.pages import PAGES

every_page = pytest.mark.parametrize("name", [page.name for page in PAGES])
ENGLISH, CHINESE = (json.loads((TEXTS / f"{name}.json").read_text("utf8")) for name in ("en", "zh"))


def axe(page: Any) -> list[str]:
    """What the accessibility checker finds, one line a violation."""
    library = pytest.importorskip("axe_playwright_python", reason="pip install 'ostinato[browser]'")
    page.evaluate((Path(library.__file__).parent / "axe.min.js").read_text("utf8"))
    found = page.evaluate(
        "async () => (await axe.run()).violations.map(({id, nodes}) => [id, nodes.map((node) => node.html)])"
    )
    return [f"{rule}: {node[:300]}" for rule, nodes in found for node in nodes]


@every_page
def test_a_page_is_accessible_in_english_and_light(open_page: Any, name: str) -> None:
    page = open_page(f"#{name}")
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.get_by_role("heading", level=1).inner_text() == ENGLISH[name]["title"]
    assert page.get_by_role("link", name=ENGLISH[name]["menu"]).get_attribute("aria-current") == "page"
    assert axe(page) == []


@every_page
def test_a_page_is_accessible_in_chinese_and_dark_on_a_phone(open_page: Any, name: str) -> None:
    page = open_page(f"#{name}", viewport=PHONE, color_scheme="dark", locale="zh-CN")
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    assert page.get_by_role("heading", level=1).inner_text() == CHINESE[name]["title"]
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    links = page.get_by_role("navigation").get_by_role("link").all()
    assert len(links) == len(PAGES)
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in (link.bounding_box() for link in links))
    assert axe(page) == []


@every_page
def test_a_saved_page_opens_from_disk(open_page: Any, browser: Any, tmp_path: Path, name: str) -> None:
    page = open_page(f"#{name}?lang=zh")
    page.wait_for_load_state("networkidle")
    with page.expect_download() as download:
        page.get_by_role("button", name=CHINESE["common"]["save"]).click()
    download.value.save_as(tmp_path / "page.html")
    context = browser.new_context(viewport=WIDE, offline=True)
    there = Watched(context.new_page(), "file:")
    there.page.goto((tmp_path / "page.html").as_uri())
    there.ready(name)
    assert there.page.get_by_role("heading", level=1).inner_text() == CHINESE[name]["title"]
    for selector in ("figure svg path.line", "figure canvas", "output[data-value]", "[role=option]"):
        assert there.page.locator(selector).count() == page.locator(selector).count(), selector
    assert not there.page.locator(".note:visible").count()
    context.close()
    there.check()
    assert not [url for url in there.asked if not url.startswith(("file:", "data:", "blob:"))]


def test_language_and_colours_can_be_changed_and_are_kept_in_the_address(open_page: Any) -> None:
    page = open_page("#gradient-flow?w=0.7")
    page.get_by_role("button", name="中文").click()
    page.get_by_role("heading", level=1, name=CHINESE["gradient-flow"]["title"]).wait_for()
    assert page.get_by_role("slider", name="循环权重 w").input_value() == "0.7"
    page.get_by_role("combobox", name="配色").select_option("dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(21, 25, 30)"
    assert {"lang=zh", "theme=dark", "w=0.7"} <= set(re.split("[?&]", page.url))
    page.reload()
    page.wait_for_selector("html[data-theme=dark][lang=zh-Hans]")


def test_presets_can_be_taken_back(open_page: Any) -> None:
    page = open_page("#gradient-flow?w=0.7")
    page.get_by_role("button", name="Set 2").click()
    page.wait_for_function("() => document.querySelector('#main input[type=range]').value === '1.1'")
    page.go_back()
    page.wait_for_function("() => document.querySelector('#main input[type=range]').value === '0.7'")


def test_the_first_thing_that_tab_reaches_skips_the_menu(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_a_chart_is_read_by_arrow_keys_and_has_a_table(open_page: Any) -> None:
    page = open_page("#gradient-flow?u=0&T=4&w=0.5")
    chart = page.get_by_role("figure").filter(has_text=ENGLISH["gradient-flow"]["reach_title"])
    chart.get_by_role("img").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator(".tip").inner_text().splitlines() == ["steps back: 2", "bound: 0.25", "real product: 0.25"]
    chart.get_by_text("Table").click()
    chart.get_by_role("row").nth(5).wait_for()
    rows = chart.get_by_role("row").all_inner_texts()
    assert [row.split() for row in rows[1:]] == [[str(k), f"{0.5**k:.4g}", f"{0.5**k:.4g}"] for k in range(5)]


def test_log_axes_have_true_ticks(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    code = "async ([low, high]) => (await import('/static/charts.js')).logTicks(low, high, 6)"
    known = {(1, 1000): [1, 10, 100, 1000], (20, 250): [20, 50, 100, 200], (30, 500): [30, 100, 300]}
    for (low, high), wanted in known.items():
        assert page.evaluate(code, [low, high]) == wanted
    for low, high in ((1e-9, 1e-1), (1e-60, 1), (3, 4), (0.2, 1e9)):
        ticks = page.evaluate(code, [low, high])
        assert all(low * 0.999 <= tick <= high * 1.001 for tick in ticks)
        assert 3 <= len(ticks) <= 9
        assert high / low < 1e4 or all(f"{tick:.3e}".startswith("1.000e") for tick in ticks)


def test_any_text_survives_the_address(open_page: Any) -> None:
    page = open_page("#runs?one=100%2541%26%2B%3C%2F%E5%BE%AA")
    page.get_by_role("checkbox", name="log axis across").check()
    page.wait_for_url("**xLog=1**")
    assert "one=100%2541%26%2B%3C%2F%E5%BE%AA&" in page.url


def test_tokens_are_chosen_by_arrow_keys_and_cut_ones_are_counted(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    page.evaluate("""async () => {
        const { tokenStrip } = await import("/static/charts.js");
        const strip = tokenStrip({ title: "strip", most: 3, onpick: (place) => (document.title = `picked ${place}`) });
        document.querySelector("main").append(strip.node);
        const tokens = ["a", "b c", "d", "e"].map((text, value) => ({ text, value }));
        strip.draw({ tokens, domain: [0, 3], label: "nats", selected: 0 });
    }""")
    page.get_by_role("option", name="a, nats 0").focus()
    page.keyboard.press("ArrowRight")
    assert page.title() == "picked 1"
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "b c, nats 1"
    assert page.locator(".tokens [aria-selected=true]").inner_text() == "b\u00a0c"
    assert page.get_by_text("3 of 4 are shown.").is_visible()
    assert axe(page) == []


def test_a_large_heat_map_is_drawn_smoothly(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    code = """async () => {
        const { heatMap } = await import("/static/charts.js");
        const chart = heatMap({ title: "large" });
        document.querySelector("main").append(chart.node);
        const data = Float32Array.from({ length: 256 * 512 }, (_, place) => Math.sin(place / 99));
        const times = [];
        for (let turn = 0; turn < 7; turn++) {
            const began = performance.now();
            chart.draw({ rows: 256, columns: 512, data, scale: "diverging", domain: [-1, 1] });
            times.push(performance.now() - began);
        }
        return times.sort((a, b) => a - b)[3];
    }"""
    assert page.evaluate(code) < 100  # milliseconds; 20 on a machine that is not shared


def test_the_first_page_is_painted_soon(open_page: Any) -> None:
    page = open_page("#gradient-flow")
    painted = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < 3000  # 1000 on a machine that is not shared


def test_the_front_page_without_an_address_is_the_first_one(browser: Any, lab_server: str) -> None:
    context = browser.new_context(locale="en-GB")
    watched = Watched(context.new_page(), lab_server)
    watched.page.goto(lab_server)
    watched.ready(PAGES[0].name)
    context.close()
    watched.check()
