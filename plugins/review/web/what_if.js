// The answer to a what-if question: the current plan and the question's, from the run's XCom.
import { airflow } from "./api.js";
import { budgets, loads } from "./charts.js";
import { facts, h, table } from "./dom.js";
import { bytes, count, percent, round, time } from "./format.js";
import { show } from "./main.js";
import { stateTag } from "./nodes.js";

const TASK = "what_if";
const AGAIN_MS = 4000;
const ENDED = ["success", "failed"];
const BARS = [["load_before_pct", "--before", "now"], ["load_pct", "--promised", "with the plan"]];

const FIGURES = [
  ["nodes that stay", (f) => count(f.nodes)],
  ["load distance now", (f) => percent(f.load_distance_before_pct)],
  ["load distance with the plan", (f) => percent(f.load_distance_pct)],
  ["no plan is below", (f) => percent(f.bound_pct)],
  ["fullest node now", (f) => percent(f.fullest_node_before_pct)],
  ["fullest node with the plan", (f) => percent(f.fullest_node_pct)],
  ["moves", (f) => count(f.moves)],
  ["moves off dead nodes", (f) => count(f.forced_moves)],
  ["state moved", (f) => bytes(f.bytes)],
  ["pause predicted", (f) => `${round(f.pause_s)} s`],
  ["left on draining nodes", (f) => percent(f.left_on_draining_pct)],
  ["traffic within nodes", (f) => percent(f.traffic_within_nodes_pct)],
  ["found by", (f) => `${f.method}, ${f.status}`],
];

const ASKED = {
  without: "nodes gone at once", drain: "nodes that drain", add: "additional nodes", resize: "other capacities", racks: "other racks",
  scale: "other load", load_of: "load of", hold_pct: "nodes for a load of, %", frontier: "plan for each budget", seconds: "seconds for each plan",
};

/** The parameters of the run that have a value. */
function asked(conf) {
  const given = Object.entries(conf ?? {}).filter(([, value]) => value !== null && value !== "" && value !== false && value !== 0);
  return given.map(([name, value]) => [ASKED[name] ?? name.replaceAll("_", " "), value === true ? "yes" : String(value)]);
}

export async function whatIfPage(job, dag, id) {
  const [about, run, found, refusal] = await Promise.all([
    airflow.dag(dag), airflow.run(dag, id), airflow.result(dag, id, TASK, "return_value"), airflow.result(dag, id, TASK, "refusal"),
  ]);
  const head = [
    h("h1", {}, `${job}: what if`),
    h("div", { class: "panel" }, facts(asked(run?.conf).length ? asked(run.conf) : [["question", "no changes"]])),
  ];
  if (found) return answered(head, found);
  const text = refusal ? `No answer: ${refusal}`
    : ENDED.includes(run?.state) ? "The run has no answer; its task's log says why."
      : about?.is_paused ? `${dag} is paused: the run begins when it is unpaused.`
        : "The run is not finished. This page reloads by itself.";
  const looksAgain = run && !refusal && !ENDED.includes(run.state);
  return {
    node: h("section", {}, head, h("p", { class: refusal ? "bad" : null, role: "status" }, text)),
    after: () => { if (looksAgain) setTimeout(() => { if (new URLSearchParams(location.search).get("run") === id) show(); }, AGAIN_MS); },
  };
}

function answered(head, found) {
  const known = new Set((found.today_nodes ?? []).map((row) => row.node_id));
  const there = (found.asked_nodes ?? []).map((row) => (known.has(row.node_id) ? row : { ...row, state: "new" }));
  const sides = [["Today", found.today_nodes ?? []], ["What is asked", there]];
  const holders = sides.map(() => h("div", { class: "chart", "aria-hidden": "true" }));
  const front = found.frontier ?? [];
  const frontHolder = h("div", { class: "chart", "aria-hidden": "true" });
  const node = h("section", {}, head,
    h("p", { class: "quiet" }, `With the load up to ${time(found.snapshot_at)}. No table was written, and the plan in force is the same.`),
    found.hold ? h("p", {}, h("strong", {}, `${count(found.hold.nodes)} nodes`), ` keep the load at or below ${round(found.hold.below_pct)} %: the fullest node would be at ${percent(found.hold.fullest_node_pct)}, with an unlimited budget.`) : null,
    h("div", { class: "whole" }, table("Today beside what is asked", [
      { title: "", of: ([name]) => name },
      { title: "today", number: true, of: ([, of]) => of(found.today) },
      { title: "asked", number: true, of: ([, of]) => of(found.asked) },
    ], FIGURES)),
    h("h2", {}, "Load per node, % of capacity"),
    h("div", { class: "two" }, sides.map(([title, nodes], i) => h("div", {}, h("h3", {}, title), holders[i],
      h("details", {}, h("summary", {}, `As a table (${title.toLowerCase()})`), table(`Load per node, ${title.toLowerCase()}`, NODE_COLUMNS, nodes))))),
    h("h2", {}, "Moves, the largest first"), table("Moves of what is asked", MOVE_COLUMNS, found.asked_moves ?? [], "nothing moves"),
    front.length ? h("h2", {}, "Load distance for each budget of moves") : null, front.length ? frontHolder : null,
    front.length ? table("Budgets", FRONT_COLUMNS, front) : null);
  const top = Math.max(1, ...sides.flatMap(([, nodes]) => nodes.flatMap((row) => BARS.map(([name]) => row[name] ?? 0))));
  return {
    node,
    after: () => {
      sides.forEach(([, nodes], i) => { if (nodes.length) loads(holders[i], nodes, BARS, top); });
      if (front.length) budgets(frontHolder, front);
    },
  };
}

const NODE_COLUMNS = [
  { title: "node", of: (row) => row.node_id },
  { title: "state", of: (row) => stateTag(row.state) },
  { title: "now", number: true, of: (row) => percent(row.load_before_pct) },
  { title: "with the plan", number: true, of: (row) => percent(row.load_pct) },
];

const MOVE_COLUMNS = [
  { title: "key group", of: (row) => row.key_group_id },
  { title: "from", of: (row) => row.from_node_id },
  { title: "to", of: (row) => row.to_node_id },
  { title: "state", number: true, of: (row) => bytes(row.state_bytes) },
];

const FRONT_COLUMNS = [
  { title: "moves allowed", number: true, of: (row) => (row.limit === null ? "no limit" : count(row.limit)) },
  { title: "moves", number: true, of: (row) => count(row.moves) },
  { title: "load distance", number: true, of: (row) => percent(row.load_distance_pct) },
  { title: "no plan is below", number: true, of: (row) => percent(row.bound_pct) },
  { title: "state moved", number: true, of: (row) => bytes(row.bytes) },
  { title: "on the frontier", of: (row) => (row.on_front ? "yes" : "no") },
];
