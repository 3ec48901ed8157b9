// The table of all jobs.
import { airflow, ballast } from "./api.js";
import { h, table } from "./dom.js";
import { time, word } from "./format.js";
import { link } from "./main.js";
import { lastMeasured, promised } from "./promises.js";
import { emptyWarehouse } from "./error_pages.js";

export async function jobsPage() {
  const [{ jobs }, waiting] = await Promise.all([ballast.jobs(), airflow.waiting()]);
  if (jobs.length === 0) return { node: emptyWarehouse() };
  const runs = await Promise.all(jobs.map((job) => airflow.lastRun(`reoptimize__${job.job}`)));
  const run = new Map(jobs.map((job, i) => [job.job, runs[i]]));
  const waits = (job) => waiting.filter((item) => item.dag === `review__${job}`).length;
  return {
    node: h("section", {}, h("h1", {}, "Streaming jobs"), table("Jobs at a glance", [
      { title: "job", of: (row) => h("span", {}, link({ job: row.job }, row.job), row.planning.is_stopped ? h("span", { class: "tag bad after", title: row.planning.reason }, "planning stopped") : null) },
      { title: "version in force", number: true, of: (row) => (row.version ? link({ job: row.job, plan: row.version }, String(row.version)) : "none") },
      { title: "load distance promised", number: true, of: (row) => promised(row.load_distance) },
      { title: "measured last", number: true, of: (row) => (row.version ? lastMeasured(row.load_distance) : "–") },
      { title: "last run", of: (row) => h("span", {}, lastRun(run.get(row.job)), row.no_change ? ", no change" : null) },
      { title: "waiting", of: (row) => (waits(row.job) ? h("span", { class: "tag bad" }, `${waits(row.job)} for approval`) : "–") },
      { title: "last refusal", long: true, of: (row) => (row.last_refusal ? refusal(row.last_refusal) : "–") },
    ], jobs)),
  };
}

/** The last refusal with its reason, and since when runs succeed again. */
export function refusal(row) {
  const over = row.over_since ? h("span", { class: "quiet" }, ` Over since ${time(row.over_since)}.`) : null;
  return h("span", {}, h("span", { class: over ? "quiet" : "bad" }, `${time(row.at)}, ${word(row.event)}: `), row.reason, over);
}

export function lastRun(run) {
  if (!run) return "none yet";
  return h("span", {}, h("span", { class: run.state === "failed" ? "bad" : null }, run.state), ` ${time(run.start_date ?? run.run_after)}`);
}
