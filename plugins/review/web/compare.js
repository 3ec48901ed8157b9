// The comparison of two plans.
import { ballast } from "./api.js";
import { h, table } from "./dom.js";
import { bytes, count, percent, round } from "./format.js";
import { label, link } from "./main.js";
import { differenceSection } from "./moves.js";
import { nodeCount, nodeDifference, routeDifference } from "./nodes.js";
import { before, measured, promised, promisedOf } from "./promises.js";
import { explain } from "./error_pages.js";
import { weightDifference } from "./weights.js";

const FIGURES = [
  ["load distance before", (d) => before(d.load_distance)],
  ["load distance promised", (d) => promised(d.load_distance)],
  ["load distance measured", (d) => measured(d.load_distance)],
  ["nodes that stay", (d) => (d.scaling ? nodeCount(d.scaling) : "–")],
  ["moves", (d) => count(d.plan.moves + d.plan.forced_moves)],
  ["state moved", (d) => bytes(d.plan.bytes + d.plan.forced_bytes)],
  ["pause predicted", (d) => promisedOf(d, "pause_s", `${round(d.plan.pause_s)} s`)],
  ["collocation factor", (d) => promisedOf(d, "collocation_factor_pct", percent(d.plan.collocation_factor_pct))],
  ["keys with a route", (d) => count(d.plan.routes)],
  ["approved by", (d) => d.approved_by ?? "–"],
];

export async function comparePage({ job, plan, against }) {
  const first = against === "0";
  const part = (what, show) => ballast.plan(job, plan, what, { against }).then(show, (error) => explain(error, {}));
  const [right, left, nodes, routes] = await Promise.all([
    ballast.plan(job, plan), first ? null : ballast.plan(job, against),
    part("node_difference", (found) => [nodeDifference(found), weightDifference(found.weights)]), part("route_difference", routeDifference),
  ]);
  return {
    node: h("section", {},
      h("h1", {}, `${job}: ${first ? "before the first plan" : label(against)} and ${label(plan)}`),
      h("p", {}, link({ job, plan }, `Back to ${label(plan)}`)),
      table("What each promised", [
        { title: "", of: ([name]) => name },
        { title: first ? "before the first plan" : label(against), number: true, of: ([, of]) => (left ? of(left) : "–") },
        { title: label(plan), number: true, of: ([, of]) => of(right) },
      ], FIGURES),
      nodes, routes,
      differenceSection("Key groups that are placed differently", (values) => ballast.plan(job, plan, "difference", { against, ...values }))),
  };
}
