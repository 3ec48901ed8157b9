// Promised figures with their 90 % intervals, and what was measured; the server writes the numbers.
import { promiseChart } from "./charts.js";
import { h } from "./dom.js";

export const before = (figure) => figure?.before_text ?? "–";
export const promised = (figure) => figure?.promised_text ?? "–";

/** A figure of a plan by its name, as it is promised; the other text where it has no promise. */
export function promisedOf(detail, name, other) {
  return detail.figures.find((row) => row.figure === name)?.promised_text ?? other;
}

/** What was first measured after take-up, which the promise is about, with its side of the interval. */
export const measured = (figure) => sided(figure, figure?.measured, figure?.measured_text, figure?.side);

/** The newest measurement. */
export const lastMeasured = (figure) => sided(figure, figure?.last_measured, figure?.last_measured_text, figure?.last_side);

/** The newest measurement, if it is another than the first. */
export function laterMeasured(figure) {
  return figure?.last_measured_at === figure?.measured_at ? "–" : lastMeasured(figure);
}

/** Without an interval, a word says that a load distance is much worse. */
function sided(figure, value, text, side) {
  if (!text) return "not measured yet";
  if (side) return h("span", { class: side === "inside" ? null : "bad" }, text);
  const worse = figure.figure === "load_distance_pct" && value > figure.expected + 5;
  return worse ? h("span", { class: "bad" }, `${text} (worse)`) : text;
}

/** Why a figure has no interval; null where it has one. */
export function withoutInterval(figure) {
  return figure?.reason ? h("p", { class: "quiet" }, `The promise has no interval: ${figure.reason}.`) : null;
}

const LEGEND = [
  ["interval", "90 % interval and expected value"], ["inside", "first measured after take-up: inside"],
  ["above", "above"], ["below", "below"], ["without", "no interval was promised"],
];
const SHAPES = { interval: "", inside: "●", above: "▲", below: "▼", without: "◇" };

/** The picture of promises against outcomes over the versions; draw() fills it once it is in the page. */
export function promiseSection(versions, counts, open) {
  const known = versions.filter((version) => version.load_distance);
  const holder = h("div", { class: "chart promises", "aria-hidden": "true" });
  const legend = h("p", { class: "quiet legend", "aria-hidden": "true" }, LEGEND.map(([kind, text]) =>
    h("span", {}, h("span", { class: `mark ${kind}` }, SHAPES[kind]), ` ${text}`)));
  return {
    node: h("div", {}, h("h3", {}, "Promised and measured"), holder, legend, h("p", {}, `${counts.text}.`)),
    draw: () => promiseChart(holder, known, open),
  };
}

const STATUSES = { steady: "good", trend: "bad", too_few_windows: "bad" };

/** How much the loads vary, of the newest snapshot. */
export function noiseSection(noise) {
  return h("section", { class: "noise" }, h("h2", {}, "Noise of the loads"),
    noise.resources.length === 0 ? h("p", { class: "quiet" }, `Not known: ${noise.reason}.`)
      : h("div", { class: "panel" }, noise.resources.map((row) =>
        h("p", {}, h("span", { class: `tag ${STATUSES[row.status]}` }, row.resource), ` ${row.text}.`))));
}
