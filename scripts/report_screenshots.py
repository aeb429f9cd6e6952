#!/usr/bin/env python3
"""Makes pictures of a report of 'teller diagnose --html' and tries its controls, in headless Chromium.

usage: scripts/report_screenshots.py REPORT.html FOLDER [--chromium PROGRAM] [--height PIXELS]

Writes FOLDER/{1280,400}-{light,dark}.png. Prints what each control did. Exit code 3 where a control did not do what it is
for or the page asked for anything outside itself, 4 where there is no Chromium.
"""

import argparse
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WIDTHS, THEMES = (1280, 400), {"dark": 0, "light": 1}  # Blink's preferredColorScheme

# Runs inside the page: every control once, with what it should change.
TRIES = r"""
const tried = [];
const check = (what, good) => tried.push([what, Boolean(good)]);
const click = (id) => document.getElementById(id).click();
const width = () => view[1] - view[0];
const point = (type, x, y, more = {}) => canvas.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, bubbles: true, ...more }));
canvas.setPointerCapture = () => {};
try {
  const whole = width();
  click('zoom-in'); check('zoom in', width() < whole);
  const zoomed = [...view];
  const box = canvas.getBoundingClientRect();
  point('pointerdown', box.left + 200, box.top + 60); point('pointermove', box.left + 150, box.top + 60); point('pointerup', box.left + 150, box.top + 60);
  check('drag moves', view[0] > zoomed[0] && Math.abs(width() - (zoomed[1] - zoomed[0])) < 1);
  click('zoom-out'); check('zoom out', width() > zoomed[1] - zoomed[0]);
  click('zoom-all'); check('whole step', Math.abs(width() - whole) < 1);
  canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -100, ctrlKey: true, cancelable: true })); check('ctrl and wheel', width() < whole);
  canvas.dispatchEvent(new KeyboardEvent('keydown', { key: '0' })); check('key 0', Math.abs(width() - whole) < 1);
  canvas.dispatchEvent(new KeyboardEvent('keydown', { key: '+' })); check('key +', width() < whole);
  const at = view[0]; canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' })); check('arrow key', view[0] >= at);
  click('zoom-all');
  if (step.candidates.length) {
    click('zoom-suspect');
    check('suspect is selected', selected === step.forest.suspect_nodes[0] && width() <= whole);
    check('suspect is marked in the call chain', document.querySelector('.tree .selected.suspect, .tree .suspect.selected'));
    check('detail names it', byId('detail').textContent.startsWith(step.forest.symbols[step.forest.symbol[selected]]));
    document.querySelector('#suspects tbody tr:last-child').click();
    check('a suspect row selects', selected === step.forest.suspect_nodes.at(-1));
  }
  const track = lanes.find((lane) => lane.kind === 'track' && lane.nodes.length);
  click('zoom-all');
  const [node, row] = track.nodes[0], middle = (step.forest.begin[node] + step.forest.length[node] / 2 - view[0]) / width();
  const where = canvas.getBoundingClientRect(), x = where.left + middle * where.width, y = where.top + track.y + TRACK_HEAD + row * ROW + 8;
  point('pointermove', x, y); check('hover tells', !byId('tip').hidden && byId('tip').textContent.length > 0);
  point('pointerdown', x, y); point('pointerup', x, y); check('click selects', selected >= 0);
  const summary = document.querySelector('#tree details > summary');
  const open = summary.parentElement.open; summary.click(); check('call chain folds', summary.parentElement.open !== open);
  const layer = document.querySelector('#layers input'), lanesBefore = canvasHeight; layer.click();
  check('a layer is hidden', canvasHeight <= lanesBefore && hiddenLayers.size === 1); layer.click();
  const rank = document.querySelector('#ranks input');
  if (rank) { rank.click(); check('a rank is hidden', canvasHeight < lanesBefore); rank.click(); }
  byId('log-filter').value = 'no line has this'; byId('log-filter').dispatchEvent(new Event('input'));
  check('log filter', document.querySelectorAll('#logs div').length === 0);
  byId('log-filter').value = ''; byId('log-filter').dispatchEvent(new Event('input'));
  if (data.steps.length > 1) {
    byId('picker').value = 1; byId('picker').dispatchEvent(new Event('change'));
    check('another step', step === data.steps[1]); showStep(0);
  }
  const seen = []; for (let i = 0; i < 3; ++i) { click('theme'); seen.push(document.documentElement.dataset.theme ?? 'system'); }
  check('theme', seen.join() === 'light,dark,system');
  check('nothing is wider than the page', document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1);
  check('nothing was fetched', performance.getEntriesByType('resource').length === 0);
} catch (error) { tried.push([`stopped: ${error.stack}`, false]); }
document.body.innerHTML = '';
document.body.append(Object.assign(document.createElement('pre'), { id: 'tried', textContent: JSON.stringify(tried) }));
"""


def chromium(program: str, page: pathlib.Path, theme: str, size: tuple[int, int], *options: str) -> str:
    with tempfile.TemporaryDirectory() as profile:
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                   "--disable-background-networking", f"--blink-settings=preferredColorScheme={THEMES[theme]}",
                   f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=4000", *options, page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def framed(report: pathlib.Path, width: int, height: int, folder: pathlib.Path) -> pathlib.Path:
    """Chromium makes no window under 500 pixels: a narrow page stands in a frame."""
    page = folder / f"frame-{width}.html"
    page.write_text(f'<body style="margin:0"><iframe src="{html.escape(report.as_uri())}" style="border:0;width:{width}px;'
                    f'height:{height}px"></iframe>')
    return page


def crop(picture: pathlib.Path, width: int) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(picture) as image:
        image.crop((0, 0, width, image.height)).save(picture)


def try_controls(program: str, report: pathlib.Path, width: int, folder: pathlib.Path) -> list:
    page = folder / "tried.html"
    page.write_text(report.read_text().replace("</body>", f"<script>{TRIES}</script></body>"))
    shown = chromium(program, page, "light", (width, 2000), "--dump-dom")
    found = re.search(r'<pre id="tried">(.*?)</pre>', shown, re.DOTALL)
    return json.loads(html.unescape(found.group(1))) if found else [["the page's script ran", False]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--height", type=int, default=2600)
    options = parser.parse_args()
    if shutil.which(options.chromium) is None:
        print("report_screenshots: no chromium; as root: apt-get install -y chromium", file=sys.stderr)
        return 4
    report = options.report.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    good = True
    with tempfile.TemporaryDirectory() as temporary:
        scratch = pathlib.Path(temporary)
        for width in WIDTHS:
            height = options.height * (2 if width < 500 else 1)
            page = framed(report, width, height, scratch)
            for theme in THEMES:
                picture = options.folder.resolve() / f"{width}-{theme}.png"
                chromium(options.chromium, page, theme, (max(width, 500), height), f"--screenshot={picture}")
                crop(picture, width)
                print(picture)
        for what, held in try_controls(options.chromium, report, WIDTHS[0], scratch):
            print(f"{'holds' if held else 'FAILS'}: {what}")
            good = good and held
    return 0 if good else 3


if __name__ == "__main__":
    sys.exit(main())
