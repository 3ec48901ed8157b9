// Selects the page by the address: ?job, ?plan, ?against, or ?dag and ?run from the Airflow UI.
import { airflow, ballast } from "./api.js";
import { comparePage } from "./compare.js";
import { fill, h } from "./dom.js";
import { jobPage } from "./job.js";
import { jobsPage } from "./jobs.js";
import { planPage } from "./plan.js";
import { explain, notOurs, runWithoutPlan } from "./error_pages.js";
import { whatIfPage } from "./what_if.js";

const OURS = /^(?:reoptimize|review|rollback|what_if)__([a-z][a-z0-9_]{0,62})$/;
const main = document.getElementById("main");

/** Applies the theme of the Airflow UI, which is in the storage of this origin. */
function follow() {
  const chosen = (localStorage.getItem("theme") ?? "").replaceAll('"', "");
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

export function address(values) {
  return `?${new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined))}`;
}

/** Shows another page without a reload. */
export function go(values) {
  history.pushState(null, "", address(values));
  show();
}

/** A link that works by click, by keyboard and in a new tab. */
export function link(values, ...children) {
  return h("a", {
    href: address(values),
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(values);
    },
  }, ...children);
}

/** Shows the result of an action. */
export function notify(text, bad = false) {
  const notice = document.getElementById("notice");
  notice.className = bad ? "bad" : "";
  notice.textContent = text;
}

function trail(values) {
  const steps = [link({}, "All jobs")];
  if (values.job) steps.push(link({ job: values.job }, values.job));
  if (values.plan) steps.push(link({ job: values.job, plan: values.plan }, label(values.plan)));
  if (values.against) steps.push(`against ${label(values.against)}`);
  fill(document.getElementById("trail"), h("ol", {}, steps.map((step) => h("li", {}, step))));
  document.title = ["Ballast", values.job, values.plan && label(values.plan)].filter(Boolean).join(" · ");
}

export function label(plan) {
  return /^\d{1,15}$/.test(plan) ? `version ${plan}` : `draft ${plan}`;
}

/** The page for a DAG and a run of the Airflow UI. */
async function fromAirflow(dag, run) {
  const job = OURS.exec(dag)?.[1];
  if (!job) return { page: notOurs(dag) };
  if (!run) return { job };
  if (dag.startsWith("what_if__")) return { job, page: await whatIfPage(job, dag, run) };
  const asked = dag.startsWith("review__") ? await airflow.asked({ dag, run }) : null;
  if (asked?.plan) return { job, plan: asked.plan };
  const found = await ballast.run(job, run);
  return found.plan_id ? { job, plan: found.plan_id } : { job, page: runWithoutPlan(job, run, found) };
}

async function pageOf(values) {
  if (values.page) return values.page;
  if (values.job && values.plan && values.against) return comparePage(values);
  if (values.job && values.plan) return planPage(values.job, values.plan);
  if (values.job) return jobPage(values.job);
  return jobsPage();
}

let asked = 0;

export async function show() {
  asked += 1;
  const mine = asked;
  main.setAttribute("aria-busy", "true");
  let values = Object.fromEntries(new URLSearchParams(location.search));
  try {
    if (values.dag) values = await fromAirflow(values.dag, values.run);
    const page = await pageOf(values);
    if (mine !== asked) return;
    trail(values);
    fill(main, page.node);
    page.after?.();
  } catch (error) {
    if (mine !== asked) return;
    trail({ job: values.job });
    fill(main, explain(error, values));
  }
  main.removeAttribute("aria-busy");
}

follow();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { follow(); show(); });
addEventListener("storage", (event) => { if (event.key === "theme") { follow(); show(); } });
addEventListener("popstate", show);
show();
