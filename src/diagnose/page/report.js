'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const byId = (id) => document.getElementById(id);
const LAYERS = ['engine', 'backend', 'host_api', 'device', 'comm'];
const LAYER_COLOURS = ['--engine', '--backend', '--host', '--device', '--comm'];
const BASES = {
  baseline: 'Held against healthy runs.',
  steps: 'Held against the quieter steps of the same run: weaker than a baseline of healthy runs.',
  inside: 'Held against other ranks and other instances inside the trace: weaker than a baseline of healthy runs.',
};
const ROW = 17, TRACK_HEAD = 18, RANK_HEAD = 24, AXIS = 22, MAX_ROWS = 40;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function duration(ns) {
  if (ns === null || ns === undefined) return '-';
  const size = Math.abs(ns);
  const [scale, unit] = size < 1e3 ? [1, 'ns'] : size < 1e6 ? [1e3, 'us'] : size < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return unit === 'ns' ? `${ns} ns` : `${(ns / scale).toPrecision(3)} ${unit}`;
}
const timesText = (factor) => (factor < 10 ? factor.toFixed(1) : Math.round(factor).toLocaleString('en'));
const rankText = (rank) => (rank === null || rank < 0 ? '-' : `rank ${rank}`);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- What is said of the run -------------------------------------------------------------------

function fillTable(table, heads, rows) {
  const cell = (tag, [text, kind]) => {
    const element = make(tag, kind && kind !== 'code' ? { className: kind } : {});
    element.append(kind === 'code' ? make('code', { textContent: text }) : String(text));
    return element;
  };
  table.replaceChildren(
    make('thead', {}, make('tr', {}, ...heads.map((head) => cell('th', head)))),
    make('tbody', {}, ...rows.map((row) => make('tr', {}, ...row.map((value) => cell('td', value))))));
}

function showRun() {
  document.title = `${data.verdict}: ${data.title}`;
  byId('title').textContent = data.title;
  byId('made').textContent = `Teller ${data.made_by} - run ${data.run || 'without a name'}` +
    (data.engine ? ` - ${data.engine}` : '');
  byId('verdict').classList.add(data.verdict);
  byId('badge').textContent = data.verdict;
  byId('headline').textContent = data.headline.trim();
  byId('basis').textContent = `${BASES[data.basis]} Ranks' clocks: ` +
    (data.clock_aligned ? `aligned, residual ${duration(Math.round(data.clock_residual_ns))}.` : 'not related to each other.');
  fillTable(byId('late'),
    [['rank'], ['entered last', 'number'], ['of', 'number'], ['late together', 'number'], ['longest', 'number'], ['in step', 'number'], ['at'], ['held up by']],
    data.late_starters.map((late) => [[rankText(late.rank), 'where'], [late.collectives, 'number'], [late.of, 'number'],
      [duration(late.late_ns), 'number'], [duration(late.longest_ns), 'number'], [late.longest_step, 'number'],
      [late.collective, 'code'], [late.cause ?? '-', 'code']]));
  byId('late-section').hidden = data.late_starters.length === 0;
  fillTable(byId('left'), [['what'], ['count', 'number'], ['counter']],
    data.not_looked_at.map((item) => [[item.why], [item.count.toLocaleString('en'), 'number'], [item.counter, 'code']]));
  byId('left').hidden = data.not_looked_at.length === 0;
  const notes = data.not_looked_at.length ? data.notes : ['Everything in the trace was looked at', ...data.notes];
  byId('notes').replaceChildren(...notes.map((note) => make('li', { textContent: `${note}.` })));
}

// ---- One step ----------------------------------------------------------------------------------

let step = null;       // of data.steps
let lanes = [];        // of the timeline, top to bottom
let children = [];     // by node
let view = [0, 1];     // ns shown
let selected = -1;
const hiddenLayers = new Set(), hiddenRanks = new Set();

function sureText(suspect) {
  if (suspect.p_value !== null) return `p = ${suspect.p_value < 0.001 ? suspect.p_value.toExponential(1) : suspect.p_value.toFixed(3)}`;
  if (suspect.strength === null) return 'named by the model';
  return data.basis === 'inside' ? `cost ${suspect.strength.toFixed(1)} % of the step` : `${suspect.strength.toFixed(1)} spreads`;
}

function whatText(suspect) {
  if (suspect.late_start) return 'entered last, after the others';
  return { duration: 'took', gap_before: 'started late by', host_self: 'spent in itself', launch_delay: 'waited for its launch',
    wait: 'waited', transfer: 'transferred for', step: 'the whole step', entry_delay: 'joined late by' }[suspect.measure];
}

function showSuspects() {
  const rows = step.candidates.map((suspect) => [
    [suspect.peer === null ? rankText(suspect.rank) : `link ${suspect.rank} - ${suspect.peer}`, 'where'], [suspect.operator, 'code'],
    [whatText(suspect)], [duration(suspect.observed_ns), 'number'],
    [suspect.late_start ? '-' : duration(suspect.expected_ns), 'number'],
    [suspect.expected_ns > 0 ? `${timesText(suspect.observed_ns / suspect.expected_ns)} x` : '-', 'number'], [sureText(suspect)], [suspect.layer]]);
  fillTable(byId('suspects'), [['where'], ['operator'], ['what'], ['observed', 'number'], ['expected', 'number'], ['', 'number'], ['how sure'], ['layer']], rows);
  [...byId('suspects').querySelectorAll('tbody tr')].forEach((row, i) => {
    row.classList.toggle('first', i === 0);
    row.dataset.node = step.forest.suspect_nodes[i];
    row.addEventListener('click', () => select(step.forest.suspect_nodes[i], true));
  });
  byId('suspects').hidden = rows.length === 0;
  const waits = step.evidence.filter((item) => item.type === 'wait');
  byId('waits').textContent = waits.length === 0 ? '' : 'Waited for it: ' +
    waits.map((wait) => `${rankText(wait.rank)} ${duration(wait.observed_ns)} in ${wait.operator}`).join(', ') + '.';
}

function layOut() {
  const forest = step.forest;
  const byTrack = forest.tracks.map(() => []);
  const depth = new Array(forest.symbol.length).fill(0);
  children = forest.symbol.map(() => []);
  forest.symbol.forEach((_, i) => {
    const parent = forest.parent[i];
    if (parent >= 0) { depth[i] = depth[parent] + 1; children[parent].push(i); }
    byTrack[forest.tracks.length ? forest.track[i] : 0].push(i);
  });
  lanes = [];
  let y = AXIS, rank = null;
  const order = forest.tracks.map((_, t) => t).sort((a, b) => forest.tracks[a][0] - forest.tracks[b][0] ||
    forest.tracks[a][2] - forest.tracks[b][2] || forest.tracks[a][1] - forest.tracks[b][1]);
  for (const t of order) {
    const [of, number, device] = forest.tracks[t];
    if (hiddenRanks.has(of) || byTrack[t].length === 0) continue;
    // The root of a stream or of another thread only spans what is on it.
    const shown = byTrack[t].filter((i) => !hiddenLayers.has(forest.layer[i]) && (forest.parent[i] >= 0 || (!device && number === 0)));
    if (of !== rank) { lanes.push({ kind: 'rank', y, text: rankText(of) }); y += RANK_HEAD; rank = of; }
    if (shown.length === 0) continue;
    const rows = [...new Set(shown.map((i) => depth[i]))].sort((a, b) => a - b).slice(0, MAX_ROWS);
    const rowOf = new Map(rows.map((d, row) => [d, row]));
    const text = device ? `stream ${number}` : number === 0 ? 'step thread' : `thread ${number}`;
    lanes.push({ kind: 'track', y, text, rows: rows.length, nodes: shown.filter((i) => rowOf.has(depth[i])).map((i) => [i, rowOf.get(depth[i])]) });
    y += TRACK_HEAD + rows.length * ROW + 4;
  }
  return y + 4;
}

const canvas = byId('timeline');
let canvasHeight = 0;

function wholeView() {
  const forest = step.forest;
  let low = 0, high = step.end_ns - step.begin_ns;
  forest.begin.forEach((begin, i) => { low = Math.min(low, begin); high = Math.max(high, begin + forest.length[i]); });
  const margin = Math.max(1, (high - low) * 0.01);
  return [low - margin, high + margin];
}

function clampView(low, high) {
  const [least, most] = wholeView();
  const width = Math.min(most - least, Math.max(50, high - low));
  const begin = Math.min(most - width, Math.max(least, low));
  return [begin, begin + width];
}

function zoom(factor, around = 0.5) {
  const width = view[1] - view[0], at = view[0] + width * around;
  view = clampView(at - width * factor * around, at + width * factor * (1 - around));
  draw();
}

function fit(node) {
  const begin = step.forest.begin[node], length = Math.max(step.forest.length[node], 200);
  view = clampView(begin - length * 0.6, begin + length * 1.6);
  draw();
}

function prepare(target, height) {
  const scale = window.devicePixelRatio || 1, width = target.clientWidth;
  target.style.height = `${height}px`;
  target.width = Math.round(width * scale);
  target.height = Math.round(height * scale);
  const context = target.getContext('2d');
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

function tickStep(width, pixels) {
  const wanted = width / Math.max(2, pixels / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((m) => m * power).find((value) => value >= wanted);
}

function draw() {
  const [context, width] = prepare(canvas, canvasHeight);
  const forest = step.forest, span = view[1] - view[0];
  const x = (ns) => (ns - view[0]) / span * width;
  const palette = LAYER_COLOURS.map(colour), text = colour('--text'), soft = colour('--soft'), lane = colour('--lane'),
    grid = colour('--grid'), mark = colour('--mark'), accent = colour('--accent');
  context.font = '12px system-ui, "DejaVu Sans", sans-serif';
  context.textBaseline = 'middle';
  const tick = tickStep(span, width);
  for (let at = Math.ceil(view[0] / tick) * tick; at < view[1]; at += tick) {
    context.fillStyle = grid;
    context.fillRect(x(at), 0, 1, canvasHeight);
    context.fillStyle = soft;
    context.fillText(duration(Math.round(at)), x(at) + 4, AXIS / 2);
  }
  const suspects = new Set(forest.suspect_nodes);
  const first = forest.suspect_nodes[0];
  const places = new Map();
  for (const item of lanes) {
    if (item.kind === 'rank') {
      context.fillStyle = lane;
      context.fillRect(0, item.y, width, RANK_HEAD - 2);
      context.fillStyle = text;
      context.font = '600 13px system-ui, "DejaVu Sans", sans-serif';
      context.fillText(item.text, 8, item.y + RANK_HEAD / 2 - 1);
      context.font = '12px system-ui, "DejaVu Sans", sans-serif';
      continue;
    }
    const drawnTo = new Array(item.rows).fill(-1);
    const outlined = [];
    for (const [node, row] of item.nodes) {
      const left = x(forest.begin[node]), right = Math.max(left + 1, x(forest.begin[node] + forest.length[node]));
      const top = item.y + TRACK_HEAD + row * ROW;
      places.set(node, [left, right, top]);
      if (right < 0 || left > width) continue;
      if (suspects.has(node) || node === selected) outlined.push(node);
      if (right <= drawnTo[row] + 0.5) continue;
      const from = Math.max(left, drawnTo[row], 0), to = Math.min(right, width);
      drawnTo[row] = right;
      context.fillStyle = palette[forest.layer[node]];
      context.fillRect(from, top, Math.max(0.5, to - from - (to - from > 3 ? 0.5 : 0)), ROW - 1);
      if (to - from < 34) continue;
      context.save();
      context.beginPath();
      context.rect(from, top, to - from - 3, ROW);
      context.clip();
      context.fillStyle = '#10131a';
      context.fillText(forest.symbols[forest.symbol[node]], from + 4, top + ROW / 2);
      context.restore();
    }
    for (const node of outlined) {
      const [left, right, top] = places.get(node);
      context.strokeStyle = node === selected ? accent : mark;
      context.lineWidth = node === first || node === selected ? 2.5 : 1.5;
      const from = Math.max(left, 1), to = Math.min(right, width - 1);
      context.strokeRect(from - 1, top - 1, Math.max(3, to - from + 2), ROW + 1);
    }
    context.fillStyle = soft;
    context.fillText(item.text, 8, item.y + TRACK_HEAD / 2);
  }
  drawArrows(context, places, accent);
}

/** What the selected bar launched, was launched by, or waited with. */
function drawArrows(context, places, accent) {
  context.strokeStyle = accent;
  context.lineWidth = 1.5;
  for (const [from, to] of step.forest.edges) {
    if ((from !== selected && to !== selected) || !places.has(from) || !places.has(to)) continue;
    const a = places.get(from), b = places.get(to);
    context.beginPath();
    context.moveTo(a[0], a[2] + ROW / 2);
    context.bezierCurveTo(a[0] + 24, a[2] + ROW / 2, b[0] - 24, b[2] + ROW / 2, b[0], b[2] + ROW / 2);
    context.stroke();
  }
}

function nodeAt(event) {
  const box = canvas.getBoundingClientRect();
  const px = event.clientX - box.left, py = event.clientY - box.top;
  const span = view[1] - view[0], ns = view[0] + px / box.width * span, slack = 2 / box.width * span;
  const item = lanes.find((lane) => lane.kind === 'track' && py >= lane.y + TRACK_HEAD && py < lane.y + TRACK_HEAD + lane.rows * ROW);
  if (!item) return -1;
  const row = Math.floor((py - item.y - TRACK_HEAD) / ROW);
  let best = -1;
  for (const [node, of] of item.nodes) {
    const begin = step.forest.begin[node];
    if (of === row && begin - slack <= ns && ns <= begin + step.forest.length[node] + slack) best = node;
  }
  return best;
}

function describe(node) {
  const forest = step.forest, [rank, number, device] = forest.tracks[forest.track[node]];
  return `${forest.symbols[forest.symbol[node]]}\n${LAYERS[forest.layer[node]]}, ${rankText(rank)}, ` +
    `${device ? 'stream' : 'thread'} ${number}\n${duration(forest.length[node])} from ${duration(forest.begin[node])}, ` +
    `itself ${duration(forest.self[node])}`;
}

function select(node, zoomIn) {
  if (node < 0) return;
  selected = node;
  const forest = step.forest;
  if (hiddenLayers.delete(forest.layer[node]) | hiddenRanks.delete(forest.tracks[forest.track[node]][0])) {
    showFilters();
    canvasHeight = layOut();
  }
  const links = forest.edges.filter(([from, to]) => from === node || to === node).length;
  byId('detail').textContent = describe(node).replaceAll('\n', '. ') + (links ? `. ${links} link${links > 1 ? 's' : ''} to other tracks.` : '.');
  if (zoomIn) {
    fit(node);
    const item = lanes.find((lane) => lane.nodes && lane.nodes.some(([other]) => other === node));
    if (item) byId('timeline-box').scrollTop = Math.max(0, item.y - 80);
  } else {
    draw();
  }
  openTree(node);
}

// ---- Call chain --------------------------------------------------------------------------------

const MOST_CHILDREN = 200;

function treeLine(tag, node) {
  const forest = step.forest;
  const line = make(tag, { className: forest.suspect_nodes.includes(node) ? 'suspect' : '' },
    make('span', { className: 'swatch', style: `background: var(${LAYER_COLOURS[forest.layer[node]]}); flex: none; align-self: center` }),
    make('code', { textContent: forest.symbols[forest.symbol[node]] }),
    make('span', { className: 'time', textContent: duration(forest.length[node]), title: `itself ${duration(forest.self[node])}` }));
  line.dataset.node = node;
  return line;
}

function treeNode(node) {
  if (children[node].length === 0) {
    const leaf = treeLine('div', node);
    leaf.classList.add('leaf');
    leaf.addEventListener('click', () => select(node, true));
    return leaf;
  }
  const summary = treeLine('summary', node);
  const details = make('details', {}, summary);
  details.fill = () => {
    if (details.filled) return;
    details.filled = true;
    addChildren(details, children[node], 0);
  };
  details.addEventListener('toggle', () => details.open && details.fill());
  summary.querySelector('code').addEventListener('click', (event) => { event.preventDefault(); select(node, true); });
  return details;
}

function addChildren(parent, nodes, from) {
  for (const node of nodes.slice(from, from + MOST_CHILDREN)) parent.append(treeNode(node));
  if (from + MOST_CHILDREN >= nodes.length) return;
  const more = make('button', { type: 'button', textContent: `${nodes.length - from - MOST_CHILDREN} more` });
  more.addEventListener('click', () => { more.remove(); addChildren(parent, nodes, from + MOST_CHILDREN); });
  parent.append(more);
}

function showTree() {
  const forest = step.forest;
  const roots = forest.tracks.map((_, t) => t)
    .sort((a, b) => forest.tracks[a][0] - forest.tracks[b][0] || forest.tracks[a][2] - forest.tracks[b][2])
    .map((t) => {
      const [rank, number, device] = forest.tracks[t];
      const heads = forest.symbol.map((_, i) => i).filter((i) => forest.track[i] === t && forest.parent[i] < 0);
      const details = make('details', {}, make('summary', {}, make('strong', { textContent: `${rankText(rank)}, ${device ? 'stream' : 'thread'} ${number}` })));
      details.track = t;
      details.fill = () => { if (!details.filled) { details.filled = true; addChildren(details, heads, 0); } };
      details.addEventListener('toggle', () => details.open && details.fill());
      return details;
    });
  byId('tree').replaceChildren(...roots);
}

/** Opens the chain down to a node and marks it. */
function openTree(node) {
  const chain = [];
  for (let at = node; at >= 0; at = step.forest.parent[at]) chain.unshift(at);
  let box = [...byId('tree').children].find((child) => child.track === step.forest.track[node]);
  for (const at of chain) {
    if (!box || !box.fill) break;
    box.fill();
    box.open = true;
    const line = box.querySelector(`:scope > details > summary[data-node="${at}"], :scope > .leaf[data-node="${at}"]`);
    if (!line) break;
    box = line.tagName === 'SUMMARY' ? line.parentElement : line;
  }
  byId('tree').querySelectorAll('.selected').forEach((other) => other.classList.remove('selected'));
  const line = byId('tree').querySelector(`[data-node="${node}"]`);
  if (!line) return;
  line.classList.add('selected');
  const tree = byId('tree');
  tree.scrollTop += line.getBoundingClientRect().top - tree.getBoundingClientRect().top - tree.clientHeight / 3;
}

// ---- Log lines, overview, filters --------------------------------------------------------------

function showLogs() {
  const wanted = byId('log-filter').value.toLowerCase();
  const lines = step.forest.logs.filter(([, , text]) => text.toLowerCase().includes(wanted));
  byId('logs').replaceChildren(...lines.map(([rank, offset, text, own]) => make('div',
    { className: `${own ? '' : 'near'} ${/WARN|ERROR|FATAL/.test(text) ? 'loud' : ''}`, title: own ? '' : 'of a neighbouring step' },
    make('span', { textContent: duration(offset) }), make('span', { textContent: rank < 0 ? '' : `rank ${rank}` }), text)));
  if (lines.length === 0) {
    byId('logs').append(make('p', { className: 'hint',
      textContent: step.forest.logs.length ? 'No line has this text.' : 'No log line was written in this step or its neighbours.' }));
  }
}

function drawOverview() {
  const { step: ids, length, abnormal } = data.overview;
  byId('overview-section').hidden = ids.length < 2;
  if (ids.length < 2) return;
  const [context, width] = prepare(byId('overview'), 96);
  const sorted = [...length].sort((a, b) => a - b), top = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.995))] || 1;
  const wide = width / ids.length, good = colour('--backend'), bad = colour('--mark'), accent = colour('--accent');
  for (const pass of [0, 1]) {  // abnormal ones on top
    ids.forEach((id, i) => {
      if (abnormal[i] !== pass) return;
      const height = Math.max(2, Math.min(1, length[i] / top) * 84);
      context.fillStyle = pass ? bad : good;
      context.fillRect(i * wide, 96 - height, Math.max(1, wide - (wide > 4 ? 1 : 0)), height);
    });
  }
  const at = ids.indexOf(step.step);
  if (at >= 0) {
    context.fillStyle = accent;
    const middle = (at + 0.5) * wide;
    context.beginPath();
    context.moveTo(middle - 5, 0); context.lineTo(middle + 5, 0); context.lineTo(middle, 8);
    context.fill();
  }
  byId('overview-hint').textContent = `How long each of ${data.overview.of} steps took; abnormal ones red; the tallest bars stand for ` +
    `${duration(top)} or more. Click a step to see it, where its timeline is on this page.`;
}

function overviewAt(event) {
  const box = byId('overview').getBoundingClientRect();
  return Math.min(data.overview.step.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * data.overview.step.length)));
}

function showFilters() {
  const check = (text, set, key, swatch) => {
    const box = make('input', { type: 'checkbox', checked: !set.has(key) });
    box.addEventListener('change', () => { box.checked ? set.delete(key) : set.add(key); canvasHeight = layOut(); draw(); });
    return make('label', {}, box, ...(swatch ? [make('span', { className: 'swatch', style: `background: var(${swatch})` })] : []), text);
  };
  const layers = [...new Set(step.forest.layer)].sort();
  byId('layers').replaceChildren(...layers.map((layer) => check(LAYERS[layer], hiddenLayers, layer, LAYER_COLOURS[layer])));
  const ranks = [...new Set(step.forest.tracks.map(([rank]) => rank))].sort((a, b) => a - b);
  byId('ranks').replaceChildren(...(ranks.length > 1 ? ranks.map((rank) => check(rankText(rank), hiddenRanks, rank)) : []));
}

function showStep(index) {
  step = data.steps[index];
  selected = -1;
  hiddenLayers.clear();
  hiddenRanks.clear();
  byId('picker').value = index;
  byId('step-title').textContent = `Step ${step.step}: ${duration(step.end_ns - step.begin_ns)}` +
    (step.forest.phase !== 'unknown' ? `, ${step.forest.phase}` : '') + (step.forest.batch ? `, batch ${step.forest.batch}` : '');
  byId('explanation').textContent = step.explanation + (step.probability === undefined ? '' : ` Probability ${step.probability.toFixed(2)}.`);
  byId('left-out').textContent = step.forest.left_out ? `${step.forest.left_out.toLocaleString('en')} of the shortest bars are left out of this page.` : '';
  byId('detail').textContent = '';
  showSuspects();
  showFilters();
  canvasHeight = layOut();
  view = wholeView();
  draw();
  drawOverview();
  showTree();
  showLogs();
  const first = step.forest.suspect_nodes[0];
  if (first >= 0) select(first, false);
  else if (byId('tree').firstChild) byId('tree').firstChild.open = true;
}

// ---- Controls ----------------------------------------------------------------------------------

function tip(event, text) {
  const box = byId('tip');
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(4, Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8))}px`;
}

function listenToTimeline() {
  const pointers = new Map();
  let moved = 0, apart = 0;
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
  }, { passive: false });
  canvas.addEventListener('pointerdown', (event) => {
    pointers.set(event.pointerId, event.clientX);
    moved = 0;
    if (pointers.size === 2) apart = Math.abs([...pointers.values()][0] - [...pointers.values()][1]);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!pointers.has(event.pointerId)) {
      const node = nodeAt(event);
      tip(event, node < 0 ? '' : describe(node));
      return;
    }
    tip(event, '');
    const by = event.clientX - pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    moved += Math.abs(by);
    if (pointers.size === 2) {
      const now = Math.abs([...pointers.values()][0] - [...pointers.values()][1]);
      if (now > 8 && apart > 8) zoom(apart / now, event.offsetX / canvas.clientWidth);
      apart = now;
    } else if (moved > 3) {
      const shift = by / canvas.clientWidth * (view[1] - view[0]);
      view = clampView(view[0] - shift, view[1] - shift);
      draw();
    }
  });
  const release = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener('pointerup', (event) => {
    if (pointers.size === 1 && moved <= 3) select(nodeAt(event), false);
    release(event);
  });
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', (event) => tip(event, ''));
  canvas.addEventListener('dblclick', (event) => { const node = nodeAt(event); if (node >= 0) fit(node); });
  canvas.addEventListener('keydown', (event) => {
    const shift = (view[1] - view[0]) / 5;
    const keys = {
      ArrowLeft: () => { view = clampView(view[0] - shift, view[1] - shift); draw(); },
      ArrowRight: () => { view = clampView(view[0] + shift, view[1] + shift); draw(); },
      '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1.4),
      0: () => { view = wholeView(); draw(); }, s: () => select(step.forest.suspect_nodes[0] ?? -1, true),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}

function listen() {
  byId('zoom-in').addEventListener('click', () => zoom(0.6));
  byId('zoom-out').addEventListener('click', () => zoom(1.6));
  byId('zoom-all').addEventListener('click', () => { view = wholeView(); draw(); });
  byId('zoom-suspect').addEventListener('click', () => select(step.forest.suspect_nodes[0] ?? -1, true));
  byId('picker').addEventListener('change', (event) => showStep(Number(event.target.value)));
  byId('log-filter').addEventListener('input', showLogs);
  byId('overview').addEventListener('pointermove', (event) => {
    const i = overviewAt(event);
    tip(event, `step ${data.overview.step[i]}: ${duration(data.overview.length[i])}, score ${data.overview.score[i].toFixed(1)}` +
      (data.overview.abnormal[i] ? ', abnormal' : ''));
  });
  byId('overview').addEventListener('pointerleave', (event) => tip(event, ''));
  byId('overview').addEventListener('click', (event) => {
    const index = data.steps.findIndex((other) => other.step === data.overview.step[overviewAt(event)]);
    if (index >= 0) showStep(index);
  });
  const themes = ['system', 'light', 'dark'];
  byId('theme').addEventListener('click', () => {
    const root = document.documentElement;
    const next = themes[(themes.indexOf(root.dataset.theme ?? 'system') + 1) % themes.length];
    if (next === 'system') delete root.dataset.theme; else root.dataset.theme = next;
    byId('theme').textContent = `Theme: ${next}`;
    redraw();
  });
  const redraw = () => { if (step) { draw(); drawOverview(); } };
  window.addEventListener('resize', redraw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  listenToTimeline();
}

showRun();
for (const id of ['step-section', 'timeline-section', 'overview-section']) byId(id).hidden = data.steps.length === 0;
document.querySelector('.columns').hidden = data.steps.length === 0;
data.steps.forEach((item, i) => byId('picker').append(make('option', { value: i,
  textContent: `${item.step}: ${item.candidates.length ? `${rankText(item.candidates[0].rank)} ${item.candidates[0].operator.slice(0, 40)}` : 'no suspect'}` })));
if (data.steps.length > 0) {
  listen();
  const asked = data.steps.findIndex((item) => `#step-${item.step}` === location.hash);
  showStep(Math.max(0, asked));
}
