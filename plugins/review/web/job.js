// One job: state, waiting reviews, versions as a timeline, log.
import { rollbackButton, triggerButton, whatIfButton } from "./actions.js";
import { airflow, ballast } from "./api.js";
import { distances } from "./charts.js";
import { card, fill, h, table } from "./dom.js";
import { bytes, count, time, word } from "./format.js";
import { lastRun, refusal } from "./jobs.js";
import { go, link } from "./main.js";
import { pager } from "./moves.js";
import { before, lastMeasured, laterMeasured, measured, noiseSection, promised, promiseSection, withoutInterval } from "./promises.js";
import { explain, planningStopped, withoutPlans } from "./error_pages.js";

const LOG_ROWS = 50;

export async function jobPage(name) {
  const [{ job, versions, drafts, promises }, waiting, run, log, noise] = await Promise.all([
    ballast.job(name), airflow.waiting(name), airflow.lastRun(`reoptimize__${name}`), ballast.log(name, { limit: LOG_ROWS }),
    ballast.noise(name).then(noiseSection, (error) => explain(error, {})),
  ]);
  const open = (version) => go({ job: name, plan: version });
  const holder = h("div", { class: "chart", "aria-hidden": "true" });
  const section = promiseSection(versions, promises, open);
  const newestFirst = [...versions].reverse();
  const asked = await Promise.all(waiting.map((item) => airflow.asked(item)));
  const node = h("section", {},
    h("div", { class: "row" }, h("h1", {}, name), triggerButton(name), job.plans ? whatIfButton(name) : null),
    planningStopped(name, job.planning),
    asked.map((item) => waitingPanel(name, item)),
    job.version ? cards(job, run) : withoutPlans(name, job.last_refusal),
    withoutInterval(job.load_distance), noChange(name, job.no_change),
    job.version && job.last_refusal ? h("p", {}, "Last refusal: ", refusal(job.last_refusal)) : null,
    versions.length ? h("h2", {}, "Versions") : null,
    versions.length ? h("div", { class: "two" }, h("div", {}, h("h3", {}, "Load distance"), holder), section.node) : null,
    versions.length ? table("Versions, newest first", versionColumns(name), newestFirst) : null,
    noise,
    drafts.length ? h("h2", {}, "Plans that did not come into force") : null,
    drafts.length ? table("Drafts, newest first", draftColumns(name), drafts) : null,
    h("h2", {}, "Who did what"), pagedLog(log, (offset) => ballast.log(name, { limit: LOG_ROWS, offset })));
  const draw = () => { distances(holder, versions, open); section.draw(); };
  return { node, after: () => { if (versions.length) draw(); } };
}

/** The verdict of the newest run, if it is that nothing changes. */
function noChange(name, verdict) {
  return verdict ? h("p", {}, h("strong", {}, "No change"), ` in the newest run (${time(verdict.at)}): ${verdict.reason} `,
    link({ job: name, plan: verdict.plan_id }, "Look at its draft")) : null;
}

function cards(job, run) {
  return h("div", { class: "cards" },
    card("version in force", link({ job: job.job, plan: job.version }, String(job.version))),
    card("load distance before", before(job.load_distance)),
    card("promised, 90 % interval", promised(job.load_distance)),
    card("measured last", lastMeasured(job.load_distance)),
    card("taken up by the job", job.take_up ? word(job.take_up) : "not yet"),
    card("last run", lastRun(run)));
}

/** A waiting review, with a link to the plan: it is answered on the plan's page only. */
function waitingPanel(name, item) {
  return h("div", { class: "panel waiting" },
    h("h2", {}, "Waiting for approval"),
    h("p", {}, item.subject ?? "", item.since ? ` (since ${time(item.since)})` : ""),
    item.plan ? link({ job: name, plan: item.plan }, "Look at the plan and answer")
      : h("p", { class: "quiet" }, `Run ${item.run} names no plan; answer it under Required Actions in Airflow.`));
}

function versionColumns(job) {
  return [
    { title: "version", number: true, of: (row) => link({ job, plan: row.version }, String(row.version)) },
    { title: "", of: (row) => (row.in_force ? h("span", { class: "tag good" }, "in force") : null) ?? "" },
    { title: "when", of: (row) => time(row.at) },
    { title: "how", of: (row) => word(row.event) },
    { title: "approved by", of: (row) => row.approved_by },
    { title: "before", number: true, of: (row) => before(row.load_distance) },
    { title: "promised", number: true, of: (row) => promised(row.load_distance) },
    { title: "measured", number: true, of: (row) => measured(row.load_distance) },
    { title: "measured last", number: true, of: (row) => laterMeasured(row.load_distance) },
    { title: "moves", number: true, of: (row) => count(row.moves) },
    { title: "state", number: true, of: (row) => bytes(row.bytes) },
    { title: "taken up", of: (row) => word(row.take_up) },
    { title: "", of: (row) => (row.in_force ? "" : rollbackButton(job, row.version)) },
  ];
}

function draftColumns(job) {
  return [
    { title: "plan", of: (row) => link({ job, plan: row.plan_id }, row.plan_id) },
    { title: "drafted", of: (row) => time(row.created_at) },
    { title: "last event", of: (row) => word(row.last_event) },
    { title: "why", of: (row) => row.last_reason, long: true },
    { title: "before", number: true, of: (row) => before(row.load_distance) },
    { title: "promised", number: true, of: (row) => promised(row.load_distance) },
    { title: "moves", number: true, of: (row) => count(row.moves) },
  ];
}

/** The log in pages, newest events first. */
function pagedLog(first, ask) {
  const holder = h("div", {});
  const turn = (page, offset) => {
    const to = (next) => async () => turn(await ask(next), next);
    const newer = offset > 0 ? to(Math.max(0, offset - LOG_ROWS)) : null;
    const older = offset + page.rows.length < page.total ? to(offset + LOG_ROWS) : null;
    fill(holder, logTable(page), newer || older ? pager(newer, older, `from event ${count(offset + 1)} of ${count(page.total)}, newest first`, ["Newer", "Older"]) : null);
  };
  turn(first, 0);
  return holder;
}

export function logTable({ rows }) {
  const caption = "Log, newest first";
  return table(caption, [
    { title: "when", of: (row) => time(row.at) },
    { title: "what", of: (row) => word(row.event) },
    { title: "version", number: true, of: (row) => (row.version === null ? "–" : String(row.version)) },
    { title: "who", of: (row) => row.actor, long: true },
    { title: "why", of: (row) => row.reason, long: true },
  ], rows);
}
