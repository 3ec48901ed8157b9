// Weights of the workers of ordered regions, and differences of two plans.
import { h, table } from "./dom.js";
import { percent, round, time, word } from "./format.js";

const ofThousand = (units) => (units === null || units === undefined ? "no weight" : percent(units / 10));

const COLUMNS = [
  { title: "region", of: (row) => row.region_id },
  { title: "worker", of: (row) => row.worker_id },
  { title: "state", of: (row) => h("span", { class: row.state === "dead" ? "tag bad" : null }, word(row.state)) },
  { title: "before", number: true, of: (row) => ofThousand(row.previous_weight) },
  { title: "with the plan", number: true, of: (row) => ofThousand(row.weight) },
  { title: "records a second", number: true, of: (row) => round(row.records_per_s) },
  { title: "expected wait", number: true, of: (row) => percent(row.blocked_pct) },
  { title: "why", of: (row) => row.reason, long: true },
];

const ACK_COLUMNS = [
  { title: "region", of: (row) => row.region_id },
  { title: "when", of: (row) => time(row.acked_at) },
  { title: "status", of: (row) => word(row.status) },
  { title: "reason", of: (row) => row.reason, long: true },
];

/** The weight of each worker of ordered regions. */
export function weightsSection(detail) {
  if (detail.weights.length === 0) return null;
  return h("section", { class: "weights" }, h("h2", {}, "Shares of workers in ordered regions"),
    detail.plan.weights_reason ? h("p", {}, detail.plan.weights_reason) : null,
    table("Share of a region's records", COLUMNS, detail.weights),
    detail.version ? table("Take-up by the regions", ACK_COLUMNS, detail.region_acks) : null);
}

/** Workers with different weights under two plans; null if there are none. */
export function weightDifference(rows) {
  if (rows.length === 0) return null;
  return h("section", {}, h("h2", {}, "Workers with another share"), table("Shares", [
    { title: "region", of: (row) => row.region_id },
    { title: "worker", of: (row) => row.worker_id },
    { title: "old", number: true, of: (row) => ofThousand(row.old_weight) },
    { title: "new", number: true, of: (row) => ofThousand(row.new_weight) },
  ], rows));
}
