// Traffic between nodes as a heat map. It is a table, for screen readers and the keyboard.
import { h } from "./dom.js";
import { round } from "./format.js";

const MOST_NODES = 60;

export function trafficSection(traffic) {
  if (traffic.nodes.length === 0) return h("section", {}, h("h2", {}, "Traffic between nodes"), h("p", { class: "quiet" }, "No traffic was measured for this plan."));
  const top = Math.max(...traffic.before.flat(), ...traffic.after.flat(), 1e-9);
  const within = (matrix) => {
    const all = matrix.flat().reduce((sum, rate) => sum + rate, 0);
    const own = matrix.reduce((sum, row, i) => sum + row[i], 0);
    return all > 0 ? `${round((100 * own) / all)} % stays within a node` : "";
  };
  return h("section", {}, h("h2", {}, "Traffic between nodes, records a second"),
    traffic.nodes.length > MOST_NODES ? h("p", { class: "quiet" }, `The first ${MOST_NODES} of ${traffic.nodes.length} nodes are shown.`) : null,
    traffic.routes ? h("p", { class: "quiet" }, "Keys with a route are counted in the key group of their hash.") : null,
    h("div", { class: "two" },
      heat(`Before: ${within(traffic.before)}`, traffic.nodes, traffic.before, top),
      heat(`With this plan: ${within(traffic.after)}`, traffic.nodes, traffic.after, top)));
}

function heat(caption, nodes, matrix, top) {
  const shown = nodes.slice(0, MOST_NODES);
  const cell = (from, to) => {
    const rate = matrix[from][to];
    const text = `${nodes[from]} to ${nodes[to]}: ${round(rate)} records/s`;
    const td = h("td", { title: text, "aria-label": text }, shown.length <= 8 ? round(rate) : "");
    // Set as a property, because the content policy forbids style attributes.
    td.style.backgroundColor = `rgba(${getComputedStyle(document.documentElement).getPropertyValue("--heat")}, ${(0.06 + 0.74 * Math.sqrt(rate / top)).toFixed(3)})`;
    return td;
  };
  const short = (name) => (shown.length <= 12 ? name : name.slice(-3));
  return h("div", { class: "scroll wide", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: "heat" }, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "from \\ to"), shown.map((node) => h("th", { scope: "col", title: node }, short(node))))),
      h("tbody", {}, shown.map((node, from) => h("tr", {}, h("th", { scope: "row" }, node), shown.map((_n, to) => cell(from, to)))))));
}
