// A version or a draft: promises, costs, load per node, moves, traffic, outcome, log.
import { reviewButtons, rollbackButton } from "./actions.js";
import { airflow, ballast } from "./api.js";
import { loads } from "./charts.js";
import { card, facts, h, table } from "./dom.js";
import { bytes, count, percent, round, time, word } from "./format.js";
import { logTable } from "./job.js";
import { go, label, link } from "./main.js";
import { movesSection } from "./moves.js";
import { nodeCount, scalingSection, stateTag } from "./nodes.js";
import { before, laterMeasured, measured, promised, promisedOf, withoutInterval } from "./promises.js";
import { rulesSection } from "./rules.js";
import { trafficSection } from "./traffic.js";
import { explain } from "./error_pages.js";
import { weightsSection } from "./weights.js";

/** Loads a part of the page; an error is shown in its place. */
async function part(call, show) {
  try {
    return show(await call());
  } catch (error) {
    return { node: explain(error, {}) };
  }
}

export async function planPage(job, name) {
  const detail = await ballast.plan(job, name);
  const plan = detail.plan;
  const title = detail.version ? `Version ${detail.version}` : `Draft ${plan.plan_id}`;
  const [nodes, traffic, waiting] = await Promise.all([
    part(() => ballast.plan(job, name, "nodes"), nodesSection),
    part(() => ballast.plan(job, name, "traffic"), (found) => ({ node: trafficSection(found) })),
    detail.version ? [] : waitingFor(job, plan.plan_id),
  ]);
  const moved = plan.moves + plan.forced_moves;
  const node = h("section", {},
    h("div", { class: "row" }, h("h1", {}, `${job}, ${title.toLowerCase()}`),
      detail.in_force ? h("span", { class: "tag good" }, "in force") : null,
      detail.version && !detail.in_force ? rollbackButton(job, detail.version) : null,
      waiting.map((item) => reviewButtons(item, plan))),
    h("p", {}, `${detail.why} This plan is ${detail.quality}.`.trim()),
    h("div", { class: "cards" },
      card("load distance before", before(detail.load_distance)),
      card("promised, 90 % interval", promised(detail.load_distance)),
      detail.version ? card("measured", measured(detail.load_distance)) : null,
      plan.gain_chance_pct === null ? null : card("chance of a measurable gain", percent(plan.gain_chance_pct), "that the plan is measurably better than the placement in force"),
      detail.scaling ? card("nodes", nodeCount(detail.scaling), "that stay, before and with the plan") : null,
      card("moves", count(moved), "by choice and forced"),
      card("state moved", bytes(plan.bytes + plan.forced_bytes)),
      card("pause predicted", promisedOf(detail, "pause_s", `${round(plan.pause_s)} s`)),
      card("approved by", detail.approved_by ?? (detail.version ? "nobody, by rule" : "nobody"))),
    withoutInterval(detail.load_distance),
    compareForm(job, name, detail),
    scalingSection(detail.scaling),
    nodes.node,
    weightsSection(detail),
    rulesSection(plan),
    h("h2", {}, "Promise against outcome"), outcomeTable(detail),
    movesSection(title.toLowerCase(), moved, (values) => ballast.plan(job, name, "moves", values)),
    traffic.node,
    h("h2", {}, "Take-up by the streaming job"), acksTable(detail.acks),
    h("h2", {}, "Who did what"), logTable({ rows: [...detail.log].reverse(), total: detail.log.length }),
    h("h2", {}, "Details"), details(detail));
  return { node, after: nodes.after };
}

/** The reviews that wait for this draft. */
async function waitingFor(job, planId) {
  const waiting = await airflow.waiting(job);
  const asked = await Promise.all(waiting.map((item) => airflow.asked(item)));
  return asked.filter((item) => item.plan === planId);
}

function compareForm(job, name, detail) {
  const others = [0, ...detail.versions].filter((version) => version !== detail.version);
  const chosen = detail.version ? detail.version - 1 : detail.versions.at(-1) ?? 0;
  const select = h("select", { name: "against", "aria-label": "version to compare with" }, [...others].reverse().map((version) =>
    h("option", { value: version, selected: version === chosen }, version === 0 ? "before the first plan" : `version ${version}`)));
  return h("div", { class: "row compare" }, h("label", {}, "Compare with", select),
    h("button", { onclick: () => go({ job, plan: name, against: select.value }) }, "Compare"));
}

function nodesSection(found) {
  const resource = found.resources[0];
  const holders = found.resources.map(() => h("div", { class: "chart", "aria-hidden": "true" }));
  const columns = [
    { title: "node", of: (row) => row.node_id },
    { title: "state", of: (row) => stateTag(row.state) },
    { title: "before", number: true, of: (row) => percent(row.before) },
    { title: "promised", number: true, of: (row) => row.promised_text },
    { title: "measured", number: true, of: (row) => row.measured_text },
  ];
  return {
    node: h("section", {}, h("h2", {}, "Load per node"),
      h("p", { class: "quiet" }, `Before and promised: loads of the snapshot of ${time(found.snapshot_at)}. `,
        found.measured_at ? `Measured: the newest snapshot under this version, of ${time(found.measured_at)}.` : "Not measured yet under this version.",
        found.objective === "joint" ? " Savings by less serialisation are not subtracted here." : ""),
      found.resources.map((each, i) => h("div", {}, found.resources.length > 1 ? h("h3", {}, each.resource) : null, holders[i],
        h("details", {}, h("summary", {}, `As a table (${each.resource})`), table(`Load per node, ${each.resource}, percent of capacity`, columns, each.nodes))))),
    after: () => { if (resource) found.resources.forEach((each, i) => loads(holders[i], each.nodes)); },
  };
}

function outcomeTable(detail) {
  const reasons = detail.figures.some((row) => row.reason);
  return table("Figures", [
    { title: "figure", of: (row) => row.figure.replaceAll("_", " ") },
    { title: "before", number: true, of: before },
    { title: "promised, 90 % interval", number: true, of: promised },
    { title: "measured", number: true, of: (row) => (detail.version ? measured(row) : "not in force") },
    { title: "windows", number: true, of: (row) => count(row.windows) },
    { title: "measured at", of: (row) => time(row.measured_at) },
    { title: "measured last", number: true, of: laterMeasured },
    ...(reasons ? [{ title: "why no interval", long: true, of: (row) => row.reason }] : []),
  ], detail.figures);
}

function acksTable(rows) {
  return table("Acknowledgements", [
    { title: "when", of: (row) => time(row.acked_at) },
    { title: "status", of: (row) => word(row.status) },
    { title: "batch", number: true, of: (row) => String(row.batch_id) },
    { title: "step", number: true, of: (row) => (row.steps > 1 ? `${row.step} of ${row.steps}` : "") },
    { title: "moved", number: true, of: (row) => count(row.moved_key_groups) },
    { title: "bytes", number: true, of: (row) => bytes(row.bytes_moved) },
    { title: "pause", number: true, of: (row) => `${round(row.pause_ms)} ms` },
    { title: "longest pause of a step", number: true, of: (row) => (row.steps > 1 ? `${round(row.longest_pause_ms)} ms` : "") },
    { title: "reason", of: (row) => row.reason, long: true },
  ], rows);
}

/** The objective of the plan, with its bound or weights. */
function objective(plan) {
  if (plan.objective !== "joint") return plan.objective;
  return plan.traffic_weight === null || plan.traffic_weight === undefined
    ? `joint: least traffic, load distance at most ${percent(plan.max_load_distance_pct)}`
    : `joint: weights ${round(plan.traffic_weight)} of traffic and ${round(plan.load_weight)} of load`;
}

function details(detail) {
  const plan = detail.plan;
  return h("div", { class: "panel" }, facts([
    ["plan id", plan.plan_id], ["content hash", plan.content_hash], ["run", plan.run_id],
    ["snapshot", plan.snapshot_id], ["made against", plan.parent_version ? link({ job: detail.job, plan: plan.parent_version }, label(String(plan.parent_version))) : "the placement by hash"],
    ["objective", objective(plan)], ["report of the solvers", plan.reason], ["solver", `${plan.method}, ${plan.status}, ${round(plan.solver_seconds)} s`],
    ["precision", plan.precision], ["bound", percent(plan.bound_pct)], ["gap", percent(plan.gap_pct)],
    ["bound of the traffic within nodes", percent(plan.collocation_bound_pct)], ["on the way", detail.progress],
    ["collocation factor", plan.collocation_factor_pct === null ? null : `${percent(plan.collocation_factor_before_pct)} to ${promisedOf(detail, "collocation_factor_pct", percent(plan.collocation_factor_pct))}`],
    ["bytes between nodes", plan.wire_bytes_per_s === null ? null : `${bytes(plan.wire_bytes_before_per_s)}/s to ${promisedOf(detail, "wire_bytes_per_s", `${bytes(plan.wire_bytes_per_s)}/s`)}`],
    ["keys with a route", plan.routes ? count(plan.routes) : null],
    ["budget", [plan.budget_moves !== null && `${count(plan.budget_moves)} moves`, plan.budget_bytes !== null && bytes(plan.budget_bytes), plan.budget_pause_s !== null && `${plan.budget_pause_s} s pause`].filter(Boolean).join(", ") || "not limited"],
    ...detail.held_back.map((line) => ["held back", line]),
  ]));
}

