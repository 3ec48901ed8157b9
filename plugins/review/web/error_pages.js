// Pages without content and pages of errors; each says what to do.
import { resumeButton } from "./actions.js";
import { h, table } from "./dom.js";
import { time, word } from "./format.js";

function page(title, ...children) {
  return h("section", {}, h("h1", {}, title), h("div", { class: "panel" }, ...children));
}

export function emptyWarehouse() {
  return page("No jobs yet",
    h("p", {}, "There is no policy and no plan that you may see."),
    h("ol", {},
      h("li", {}, "Write ", h("code", {}, "policies/<job>.yaml"), " and check it with ", h("code", {}, "ballast policy check"), "."),
      h("li", {}, "Start the streaming job, so that it writes its metrics."),
      h("li", {}, "Trigger ", h("code", {}, "reoptimize__<job>"), " here or in Airflow.")),
    h("p", { class: "quiet" }, "If jobs exist, ask for the right to read their DAGs, or check that BALLAST_WAREHOUSE and BALLAST_POLICIES of the API server are those of the pipeline."));
}

export function withoutPlans(job, refusal) {
  return h("div", { class: "panel" },
    h("h2", {}, "No plan has been in force yet"),
    h("p", {}, `Key groups of ${job} are placed by hash.`),
    refusal ? h("p", { class: "bad" }, `Last refusal (${time(refusal.at)}): ${refusal.reason}`) : null,
    h("p", {}, refusal
      ? "Do what the refusal says, then trigger a run."
      : "Trigger a run; it needs the metrics of a whole statistics period, and refuses if they are missing."));
}

export function notOurs(dag) {
  return { node: page("This is not one of Ballast's DAGs", h("p", {}, `${dag} does not belong to a streaming job. Plans are on the DAGs reoptimize__<job>, review__<job> and rollback__<job>.`)) };
}

/** A job that makes no plan by itself: since when, why, and the button that lets it go on. */
export function planningStopped(job, planning) {
  if (!planning.is_stopped) return null;
  return h("div", { class: "panel trouble", role: "status", "aria-label": "planning is stopped" },
    h("h2", {}, `Planning is stopped since ${time(planning.since)}`),
    h("p", {}, `${planning.reason}.`),
    h("p", { class: "quiet" }, "The plan in force stays. Runs go on measuring; only key groups of dead nodes still move."),
    resumeButton(job));
}

export function runWithoutPlan(job, run, { log, planning }) {
  return {
    node: h("section", {},
      h("h1", {}, "This run made no plan"),
      planningStopped(job, planning),
      h("p", {}, log.length ? "Its log:" : `Run ${run} has written no log entry yet: it is still running, or its task log says why it stopped.`),
      log.length ? table("Log of the run", [
        { title: "when", of: (row) => time(row.at) },
        { title: "what", of: (row) => word(row.event) },
        { title: "why", of: (row) => row.reason, long: true },
      ], log) : null),
  };
}

const HINTS = {
  401: "Log in to Airflow again, then reload this page.",
  403: "Ask an administrator for the right to read this job's DAG, reoptimize__<job>.",
};

export function explain(error, values) {
  const titles = { broken_table: "A table is broken", newer_table: "A table is of a later version", not_found: "This is not there", invalid: "This cannot be shown" };
  return h("section", { class: "trouble-page" },
    h("h1", {}, titles[error.kind] ?? (error.status === 403 ? "You may not see this job" : "This cannot be shown")),
    h("div", { class: "panel trouble", role: "alert" },
      h("p", {}, error.message),
      error.allowed ? h("p", {}, `Allowed: ${error.allowed}.`) : null,
      h("p", {}, `What to do: ${error.remedy ?? HINTS[error.status] ?? "reload the page; if the error stays, see the log of the API server"}.`)),
    values.job ? null : h("p", { class: "quiet" }, "Streaming jobs continue with their plans."));
}
