// Charts by uPlot. A table beside each has the same figures, for screen readers.
/* global uPlot */

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis(extra) {
  return { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") }, ...extra };
}

function draw(holder, options, data) {
  const width = () => Math.max(320, holder.clientWidth || 600);
  const chart = new uPlot({ width: width(), height: 260, ...options }, data, holder);
  new ResizeObserver(() => chart.setSize({ width: width(), height: options.height ?? 260 })).observe(holder);
  return chart;
}

// Field of a row, colour, and name if it differs from the field's.
const SERIES = [["before", "--before"], ["promised", "--promised"], ["measured", "--measured"]];

const FIELDS = { before: "before", promised: "expected", measured: "measured" };

/** Load distance of every version: before, promised, measured. */
export function distances(holder, versions, open) {
  const pick = (name) => versions.map((v) => v.load_distance?.[FIELDS[name]] ?? null);
  const said = (name, i) => versions[i]?.load_distance?.[`${name}_text`] ?? "–";
  const chart = draw(holder, {
    height: 240,
    scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.08] } },
    axes: [versionAxis(), axis({ label: "load distance, % of mean", size: 60 })],
    series: [{ label: "version" }, ...SERIES.map(([name, hue]) => ({
      label: name, stroke: color(hue), width: 2, dash: name === "before" ? [4, 4] : undefined, points: { show: true, size: 5 },
      value: (_u, _value, _series, i) => said(name, i),
    }))],
  }, [versions.map((v) => v.version), ...SERIES.map(([name]) => pick(name))]);
  opensVersion(chart, versions, open);
}

function versionAxis() {
  return axis({ label: "version", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] });
}

function opensVersion(chart, versions, open) {
  chart.over.addEventListener("click", () => {
    if (chart.cursor.idx !== null && chart.cursor.idx !== undefined) open(versions[chart.cursor.idx].version);
  });
}

/** Promised interval, expected and measured load distance of every version. */
export function promiseChart(holder, versions, open) {
  const rows = versions.map((v) => v.load_distance);
  const top = scaleTop(rows);
  const chart = draw(holder, {
    height: 240,
    scales: {
      x: { time: false, range: (_u, min, max) => [min - 0.6, max + 0.6] },
      y: { range: () => [0, top] },
    },
    axes: [versionAxis(), axis({ label: "load distance, % of mean", size: 60 })],
    hooks: { draw: [(u) => rows.forEach((row, i) => paintPromise(u, versions[i].version, row, top))] },
    series: [{ label: "version" }, ...["promised", "measured"].map((name) => ({
      label: name, stroke: color(`--${name}`), paths: () => null, points: { show: false },
      value: (_u, _value, _series, i) => rows[i]?.[`${name}_text`] ?? "–",
    }))],
  }, [versions.map((v) => v.version), rows.map((row) => row.expected), rows.map((row) => row.measured)]);
  opensVersion(chart, versions, open);
}

/** The end of the scale: a measured value far above all intervals is drawn at the edge. */
function scaleTop(rows) {
  const values = rows.flatMap((row) => [row.expected, row.high, row.measured]).filter((value) => value !== null);
  const highs = rows.map((row) => row.high).filter((value) => value !== null);
  const limit = highs.length ? 2 * Math.max(...highs) : Infinity;
  return 1.08 * Math.min(Math.max(...values), limit) || 1;
}

/** One promise: a bar with ends, a line at the expected value, a mark at the measured one. */
function paintPromise(chart, version, row, top) {
  const { ctx } = chart;
  const unit = devicePixelRatio;
  const at = chart.valToPos(version, "x", true);
  const room = Math.abs(chart.valToPos(version + 1, "x", true) - at);
  const half = Math.min(7 * unit, Math.max(2 * unit, room / 4));
  const y = (value) => chart.valToPos(Math.min(value, top), "y", true);
  ctx.save();
  if (row.low !== null && row.high !== null) {
    ctx.fillStyle = color("--promised");
    ctx.globalAlpha = 0.25;
    ctx.fillRect(at - half, y(row.high), 2 * half, y(row.low) - y(row.high));
    ctx.globalAlpha = 1;
    for (const end of [row.low, row.high]) ctx.fillRect(at - half, y(end) - unit / 2, 2 * half, unit);
  }
  if (row.expected !== null) {
    ctx.fillStyle = color("--promised");
    ctx.fillRect(at - 1.4 * half, y(row.expected) - unit, 2.8 * half, 2 * unit);
  }
  if (row.measured !== null) mark(ctx, row.side, at, y(row.measured), 5 * unit);
  ctx.restore();
}

// A circle is inside, a triangle points to the side that a value is out; a hollow diamond has no interval.
const CORNERS = { above: [[0, -1], [1, 0.8], [-1, 0.8]], below: [[0, 1], [1, -0.8], [-1, -0.8]], none: [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]] };

function mark(ctx, side, x, y, size) {
  ctx.beginPath();
  if (side === "inside") ctx.arc(x, y, size, 0, 2 * Math.PI);
  else CORNERS[side ?? "none"].forEach(([dx, dy]) => ctx.lineTo(x + dx * size * 1.3, y + dy * size * 1.3));
  ctx.closePath();
  ctx.fillStyle = color(side === "inside" ? "--good" : side ? "--bad" : "--page");
  ctx.strokeStyle = color(side ? "--page" : "--measured");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.fill();
  ctx.stroke();
}

// Colours behind the bars of nodes that change; the state is also written above, for readers without colour.
const MARKED = { new: "--new", "taken back": "--new", draining: "--draining", removed: "--removed", dead: "--bad" };

/** Calls paint for each node that changes, with its state, left edge and width. */
function atMarked(nodes, step, paint) {
  return (chart) => {
    chart.ctx.save();
    nodes.forEach((node, i) => {
      if (!(node.state in MARKED)) return;
      const left = chart.valToPos(i * step - 1, "x", true);
      paint(chart, node.state, left, chart.valToPos((i + 1) * step - 1, "x", true) - left);
    });
    chart.ctx.restore();
  };
}

function band({ ctx, bbox }, state, left, width) {
  ctx.globalAlpha = 0.16;
  ctx.fillStyle = color(MARKED[state]);
  ctx.fillRect(left, bbox.top, width, bbox.height);
}

function title({ ctx, bbox }, state, left, width) {
  const unit = devicePixelRatio;
  if (width < 60 * unit) return;
  ctx.font = `${11 * unit}px system-ui, sans-serif`;
  const half = ctx.measureText(state).width / 2 + 4 * unit;
  ctx.fillStyle = color("--page");
  ctx.fillRect(left + width / 2 - half, bbox.top, 2 * half, 16 * unit);
  ctx.fillStyle = color("--text");
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(state, left + width / 2, bbox.top + 8 * unit);
}

/** The promised interval of each node, as a line with ends before its promised bar. */
function whiskers(nodes, step, at) {
  return (chart) => {
    const { ctx } = chart;
    const unit = devicePixelRatio;
    ctx.save();
    ctx.fillStyle = color("--text");
    nodes.forEach((node, i) => {
      if (at < 0 || node.low === null || node.low === undefined) return;
      const x = chart.valToPos(i * step + at, "x", true);
      const [low, high] = [node.low, node.high].map((value) => chart.valToPos(value, "y", true));
      ctx.fillRect(x - unit / 2, high, unit, low - high);
      for (const end of [low, high]) ctx.fillRect(x - 5 * unit, end - unit / 2, 10 * unit, unit);
    });
    ctx.restore();
  };
}

/** Load of every node in groups of bars; charts side by side have the same ``top``. */
export function loads(holder, nodes, series = SERIES, top = null) {
  const step = series.length + 1;
  const x = nodes.flatMap((_node, i) => series.map((_s, s) => i * step + s));
  const column = (name, at) => nodes.flatMap((node) => series.map((_s, s) => (s === at ? node[name] ?? null : null)));
  const room = nodes.some((node) => node.state in MARKED) ? 1.2 : 1.08;
  const every = Math.ceil(nodes.length / 16);
  const labelled = nodes.map((_node, i) => i).filter((i) => i % every === 0);
  draw(holder, {
    scales: { x: { time: false, range: () => [-1, nodes.length * step - 1] }, y: { range: (_u, _min, max) => [0, (top ?? Math.max(max || 1, ...nodes.map((node) => node.high ?? 0))) * (top ? 1.2 : room)] } },
    cursor: { points: { show: false }, drag: { x: false, y: false } },
    legend: { live: false },
    hooks: { drawClear: [atMarked(nodes, step, band)], draw: [whiskers(nodes, step, series.findIndex(([name]) => name === "promised")), atMarked(nodes, step, title)] },
    axes: [
      axis({ splits: () => labelled.map((i) => i * step + (series.length - 1) / 2), values: (_u, splits) => splits.map((v) => nodes[Math.floor(v / step)].node_id), rotate: nodes.length > 8 ? -45 : 0, size: nodes.length > 8 ? 70 : 40, grid: { show: false } }),
      axis({ label: "load, % of capacity", size: 60 }),
    ],
    series: [{ label: "node" }, ...series.map(([name, hue, said]) => ({
      label: said ?? name, stroke: color(hue), fill: color(hue), width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [0.9, 40] }),
    }))],
  }, [x, ...series.map(([name], at) => column(name, at))]);
}

/** The frontier of a budget: load distance and proven bound for each number of moves. */
export function budgets(holder, points) {
  const solved = points.filter((point) => point.on_front).sort((a, b) => a.moves - b.moves);
  draw(holder, {
    height: 240,
    scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.08] } },
    axes: [axis({ label: "key groups moved" }), axis({ label: "load distance, % of mean", size: 60 })],
    series: [{ label: "moves" }, ...[["load distance", "--promised"], ["no plan is below", "--before"]].map(([name, hue], i) => ({
      label: name, stroke: color(hue), width: 2, dash: i ? [4, 4] : undefined, points: { show: true, size: 5 },
      value: (_u, value) => (value === null ? "–" : `${value.toFixed(2)} %`),
    }))],
  }, [solved.map((point) => point.moves), solved.map((point) => point.load_distance_pct), solved.map((point) => point.bound_pct)]);
}
