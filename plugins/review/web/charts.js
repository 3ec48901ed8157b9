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

/** Load distance of every version: before, promised, measured. */
export function distances(holder, versions, open) {
  const pick = (name) => versions.map((v) => v[`load_distance_${name}_pct`] ?? null);
  const chart = draw(holder, {
    height: 240,
    scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, (max || 1) * 1.08] } },
    axes: [axis({ label: "version", incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }), axis({ label: "load distance, % of mean", size: 60 })],
    series: [{ label: "version" }, ...SERIES.map(([name, hue]) => ({
      label: name, stroke: color(hue), width: 2, dash: name === "before" ? [4, 4] : undefined, points: { show: true, size: 5 },
      value: (_u, value) => (value === null ? "–" : `${value.toFixed(2)} %`),
    }))],
  }, [versions.map((v) => v.version), ...SERIES.map(([name]) => pick(name))]);
  chart.over.addEventListener("click", () => {
    if (chart.cursor.idx !== null && chart.cursor.idx !== undefined) open(versions[chart.cursor.idx].version);
  });
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

/** Load of every node in groups of bars; charts side by side have the same ``top``. */
export function loads(holder, nodes, series = SERIES, top = null) {
  const step = series.length + 1;
  const x = nodes.flatMap((_node, i) => series.map((_s, s) => i * step + s));
  const column = (name, at) => nodes.flatMap((node) => series.map((_s, s) => (s === at ? node[name] ?? null : null)));
  const room = nodes.some((node) => node.state in MARKED) ? 1.2 : 1.08;
  const every = Math.ceil(nodes.length / 16);
  const labelled = nodes.map((_node, i) => i).filter((i) => i % every === 0);
  draw(holder, {
    scales: { x: { time: false, range: () => [-1, nodes.length * step - 1] }, y: { range: (_u, _min, max) => [0, (top ?? (max || 1)) * (top ? 1.2 : room)] } },
    cursor: { points: { show: false }, drag: { x: false, y: false } },
    legend: { live: false },
    hooks: { drawClear: [atMarked(nodes, step, band)], draw: [atMarked(nodes, step, title)] },
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
