// Nodes that a plan adds, drains or removes, with the reason; and differences of two plans.
import { facts, h, table } from "./dom.js";
import { count, percent } from "./format.js";

const share = (value) => (value === null || value === undefined ? "–" : percent(100 * value));

/** The state or change of a node, as a tag. */
export function stateTag(state) {
  const kind = { new: "new", added: "new", draining: "draining", removed: "removed", dead: "bad", "taken back": "new" }[state];
  return h("span", { class: kind ? `tag ${kind}` : null }, state);
}

function listed(verb, rows) {
  const names = rows.map((row) => row.node_id);
  return names.length ? `${verb} ${names.slice(0, 12).join(", ")}${names.length > 12 ? " and others" : ""}` : null;
}

/** The node changes in a sentence, for instance "This plan adds node-07; drains node-02." */
export function changeSentence(scaling) {
  const of = (change) => scaling.changes.filter((row) => row.change === change);
  const parts = [listed("adds", of("added")), listed("takes back", of("taken back")), listed("drains", of("draining")), listed("removes", of("removed"))].filter(Boolean);
  return parts.length ? `This plan ${parts.join("; ")}.` : "This plan adds, drains and removes no node.";
}

export function nodeCount(scaling) {
  return scaling.before === scaling.wanted ? count(scaling.wanted) : `${count(scaling.before)} → ${count(scaling.wanted)}`;
}

/** The decision on nodes: change, reason, limiting metric, and figures that would have changed it. */
export function scalingSection(scaling) {
  if (!scaling) return null;
  return h("section", { class: "scaling" }, h("h2", {}, "Nodes"),
    h("div", { class: "panel" }, h("p", { class: "first" }, changeSentence(scaling)),
      facts([
        ["why", scaling.reason], ["bound by", scaling.binding], ["would have changed it", scaling.would_change],
        ["kept spare", scaling.spare_count ? spares(scaling) : null],
        ["sizes of operators", scaling.operators.map((row) => `${row.operator_id} ${row.wanted}`).join(", ")],
      ])),
    scaling.changes.length ? table("Nodes that change", CHANGE_COLUMNS, scaling.changes) : null,
    scaling.clusters.length > 1 ? table("Clusters", CLUSTER_COLUMNS, scaling.clusters) : null);
}

function spares(scaling) {
  const more = scaling.spare_count - scaling.spares.length;
  return `${scaling.spares.join(", ")}${more > 0 ? ` and ${count(more)} more` : ""}`;
}

const CHANGE_COLUMNS = [
  { title: "node", of: (row) => row.node_id },
  { title: "what", of: (row) => stateTag(row.change) },
  { title: "rounds of draining", number: true, of: (row) => (row.drain_rounds === null ? "–" : count(row.drain_rounds)) },
  { title: "key groups due to leave", number: true, of: (row) => (row.drain_rounds === null ? "–" : count(row.due)) },
  { title: "CPU promised", number: true, of: (row) => share(row.utilisation) },
];

const CLUSTER_COLUMNS = [
  { title: "cluster", of: (row) => row.cluster },
  { title: "nodes before", number: true, of: (row) => count(row.before) },
  { title: "needed", number: true, of: (row) => count(row.needed) },
  { title: "wanted", number: true, of: (row) => count(row.wanted) },
  { title: "utilisation", number: true, of: (row) => share(row.utilisation) },
];

/** Nodes that are in different states under two plans. */
export function nodeDifference(found) {
  const [before, after] = found.nodes_in_use;
  return h("section", {}, h("h2", {}, "Nodes that change"),
    h("p", {}, found.nodes.length
      ? `${found.nodes.length === 1 ? "One node is" : `${count(found.nodes.length)} nodes are`} in another state; ${count(before)} were in use before, ${count(after)} are now.`
      : `The same nodes, ${count(after)} of them in use.`),
    found.nodes.length ? table("Nodes", [
      { title: "node", of: (row) => row.node_id },
      { title: "old", of: (row) => row.old },
      { title: "new", of: (row) => row.new },
    ], found.nodes) : null,
    found.operators.length ? table("Sizes of operators", [
      { title: "operator", of: (row) => row.operator_id },
      { title: "old", number: true, of: (row) => count(row.old) },
      { title: "new", number: true, of: (row) => count(row.new) },
    ], found.operators) : null);
}

/** Keys in different key groups under two plans; null if neither plan has a route. */
export function routeDifference(found) {
  const [before, after] = found.routes;
  if (before + after === 0) return null;
  const to = (group) => (group === null ? "by hash" : String(group));
  const shown = found.rows.length < found.total ? `, the first ${count(found.rows.length)}` : "";
  return h("section", {}, h("h2", {}, "Keys that are routed differently"),
    h("p", {}, `${count(found.total)} keys are in another key group; ${count(before)} keys had a route before, ${count(after)} have one now.`),
    found.total ? h("details", {}, h("summary", {}, `Keys${shown}`), table("Keys", [
      { title: "operator", of: (row) => row.operator_id },
      { title: "key", of: (row) => row.key, long: true },
      { title: "old key group", number: true, of: (row) => to(row.old_key_group) },
      { title: "new key group", number: true, of: (row) => to(row.new_key_group) },
    ], found.rows)) : null);
}
