"""What WCAG 2.2 AA asks of a page, as far as a browser can measure it. docs/accessibility.md says what people checked.

`assert_conforms` runs on any page in its present state. Each function below it names the criteria that it measures.
"""

from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.pages import SCHEMES, SETTLED, Page, restored, set_scheme

#: All rules of WCAG 2.0, 2.1 and 2.2, levels A and AA, whatever impact axe-core gives them.
_AXE: dict[str, Any] = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "rules": {"target-size": {"enabled": True}},
}
#: Width and height of a window of 1280 x 1024 at a zoom of 400 %.
_ZOOMED = {"width": 320, "height": 256}
_MAX_TAB_STOPS = 250


def assert_conforms(page: Page) -> None:
    problems: list[str] = []
    with restored(page):
        problems += structure(page)
        for scheme in SCHEMES:
            set_scheme(page, scheme)
            page.evaluate(SETTLED)
            problems += [f"{problem} ({scheme})" for problem in (*axe(page), *control_contrast(page))]
        problems += keyboard(page)
        problems += reflow(page)
        problems += text_spacing(page)
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    assert not problems, f"{page.url} does not conform:\n" + "\n".join(dict.fromkeys(problems))


def axe(page: Page) -> list[str]:
    """All rules of axe-core, target size (2.5.8) among them."""
    violations: list[dict[str, Any]] = Axe().run(page, options=_AXE).response["violations"]
    return [f"{found['id']} at {node['target']}: {found['help']}" for found in violations for node in found["nodes"]]


def structure(page: Page) -> list[str]:
    """2.4.2, 2.4.6, 3.1.1 and 1.3.1: a title, a language, one h1, one main landmark."""
    return list(
        page.evaluate(
            """() => {
                const shown = selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility());
                const h1 = shown("h1"), main = shown("main, [role=main]");
                return [
                    document.title.trim() ? "" : "no title",
                    document.documentElement.lang ? "" : "no language",
                    h1.length === 1 && h1[0].innerText.trim() ? "" : `${h1.length} h1`,
                    main.length === 1 ? "" : `${main.length} main landmarks`,
                ].filter(Boolean);
            }"""
        )
    )


_CONTROLS = """
const controls = () => [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]"
)].filter(e => e.tabIndex >= 0 && !e.disabled && e.getAttribute("tabindex") !== "-1" && e.checkVisibility(
    {visibilityProperty: true, opacityProperty: false}) && e.getClientRects().length);
const name = e => `<${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}> ` +
    `"${(e.getAttribute("aria-label") || e.innerText || e.name || "").trim().slice(0, 40)}"`;
"""


def control_contrast(page: Page) -> list[str]:
    """1.4.11: the border of each field differs from what is around it by 3 to 1."""
    return list(
        page.evaluate(
            "() => {"
            + _CONTROLS
            + """
            const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
            const rgba = colour => {
                canvas.clearRect(0, 0, 1, 1);
                canvas.fillStyle = colour;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data];
            };
            const over = (top, below) => top.slice(0, 3).map((c, n) => (c * top[3] + below[n] * (255 - top[3])) / 255);
            const around = e => {
                for (; e; e = e.parentElement) {
                    const colour = rgba(getComputedStyle(e).backgroundColor);
                    if (colour[3] === 255) return colour;
                }
                return [255, 255, 255, 255];
            };
            const luminance = colour => colour.slice(0, 3).map(c => c / 255)
                .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
            const ratio = (a, b) => {
                const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
                return (high + 0.05) / (low + 0.05);
            };
            return controls().filter(e => /^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName)
                && !/^(submit|button|image|range|file)$/.test(e.type)).flatMap(e => {
                if (getComputedStyle(e).appearance === "auto" && /^(checkbox|radio)$/.test(e.type)) return [];
                let box = e;  // the border of a text field may be that of a surrounding box
                const bordered = () => parseFloat(getComputedStyle(box).borderBottomWidth) > 0;
                for (let up = 0; up < 2 && !/^(checkbox|radio)$/.test(e.type) && !bordered(); up++) {
                    box = box.parentElement;
                }
                const style = getComputedStyle(box), outside = around(box.parentElement);
                const border = over(rgba(style.borderBottomColor), outside), inside = around(box);
                const best = Math.max(
                    parseFloat(style.borderBottomWidth) ? ratio(border, outside) : 1, ratio(inside, outside));
                return best >= 2.995 ? [] : [`border of ${name(e)} has a contrast of ${best.toFixed(2)}`];
            });
        }"""
        )
    )


def keyboard(page: Page) -> list[str]:
    """2.1.1, 2.1.2, 2.4.7 and 2.4.11: Tab reaches each control and leaves it, its focus is visible and not covered."""
    page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    expected: int = page.evaluate(
        "() => {"
        + _CONTROLS
        + """
            const look = e => {
                const parts = [];
                for (let up = 0; e && up < 3; up++, e = e.parentElement) {
                    const s = getComputedStyle(e);
                    parts.push(s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.borderColor,
                        s.backgroundColor, s.textDecoration, s.color, s.top);
                }
                return parts.join("|");
            };
            const state = window.__keyboard = {look, name, seen: new Set(), before: new Map(), problems: []};
            for (const e of controls()) state.before.set(e, look(e));
            document.body.setAttribute("tabindex", "-1");  // Tab starts at the beginning
            document.body.focus();
            document.body.removeAttribute("tabindex");
            return state.before.size;
        }"""
    )
    for _ in range(min(expected + 15, _MAX_TAB_STOPS)):
        page.keyboard.press("Tab")
        left = page.evaluate(
            """() => {
                const state = window.__keyboard, e = document.activeElement;
                if (!e || e === document.body || e === document.documentElement) return true;
                if (state.seen.has(e)) return /^(date|time|datetime-local)$/.test(e.type) ? false : true;
                state.seen.add(e);
                const before = state.before.get(e);
                if (before !== undefined && before === state.look(e))
                    state.problems.push(`focus of ${state.name(e)} is not visible`);
                const box = e.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
                const points = [[x, y], [box.x + 2, box.y + 2], [box.right - 2, box.bottom - 2], [box.x + 2, y]];
                const visible = points.some(([x, y]) => {
                    const top = document.elementFromPoint(x, y);
                    return top && (e.contains(top) || top.contains(e) || top.closest("label")?.contains(e)
                        || top.closest("label")?.control === e);
                });
                if (!visible) state.problems.push(`focus of ${state.name(e)} is covered or out of view`);
                return false;
            }"""
        )
        if left:
            break
    return list(
        page.evaluate(
            """max => {
                const state = window.__keyboard;
                const groups = new Set([...state.seen].filter(e => e.type === "radio").map(e => e.name));
                const missed = [...state.before.keys()].filter(e => e.isConnected && !state.seen.has(e)
                    && !(e.type === "radio" && groups.has(e.name)) && state.before.size < max);
                return [...state.problems, ...missed.map(e => `Tab does not reach ${state.name(e)}`)];
            }""",
            _MAX_TAB_STOPS - 15,
        )
    )


_TOO_WIDE = """() => {
    const {scrollWidth} = document.scrollingElement;
    if (scrollWidth <= innerWidth) return [];
    const scrolls = e => {
        for (; e && e !== document.body; e = e.parentElement)
            if (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX)) return true;
    };
    const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1
        && !scrolls(e.parentElement)).slice(0, 3).map(e => `<${e.tagName.toLowerCase()} class="${e.className}">`);
    return [`${scrollWidth} pixels wide in a window of ${innerWidth}: ${wide.join(", ")}`];
}"""


def reflow(page: Page) -> list[str]:
    """1.4.4 and 1.4.10: no horizontal scrolling at a zoom of 400 %; tables may scroll in a box of their own."""
    page.set_viewport_size(_ZOOMED)  # type: ignore[arg-type]
    page.evaluate(SETTLED)
    return [f"at a zoom of 400 %: {problem}" for problem in page.evaluate(_TOO_WIDE)]


def text_spacing(page: Page) -> list[str]:
    """1.4.12: with the user's own spacing of text nothing is cut and nothing scrolls horizontally."""
    problems: list[str] = []
    page.evaluate(
        """() => {
            const sheet = window.__spacing = new CSSStyleSheet();
            sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: 0.12em !important;
                word-spacing: 0.16em !important; } p { margin-bottom: 2em !important; }`);
            document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
        }"""
    )
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLED)
        problems += page.evaluate(_TOO_WIDE)
        problems += page.evaluate(
            """() => [...document.querySelectorAll("h1,h2,h3,label,button,a,p,dt,dd,th,td,li,span,summary")]
                .filter(e => e.checkVisibility() && !e.children.length && e.innerText?.trim()
                    && !e.classList.contains("material-symbols-outlined")
                    && e.clientWidth > 1 && getComputedStyle(e).overflow !== "visible"
                    && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2))
                .map(e => `"${e.innerText.trim().slice(0, 40)}" is cut`)"""
        )
    page.evaluate("document.adoptedStyleSheets = document.adoptedStyleSheets.filter(s => s !== window.__spacing)")
    return [f"with wide text spacing: {problem}" for problem in problems]
