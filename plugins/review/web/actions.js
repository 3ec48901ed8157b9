// Buttons that start runs. Each opens a dialog for confirmation and then calls Airflow's API with
// the user's login: Airflow checks their rights and logs their name.
import { airflow } from "./api.js";
import { h } from "./dom.js";
import { go, show, notify } from "./main.js";

/** A dialog; resolves to the form's values, or null if it was closed. */
function ask(title, text, fields, verb) {
  return new Promise((resolve) => {
    const inputs = fields.map((field) => ({
      ...field,
      input: h("input", { type: field.type ?? "text", name: field.name, maxlength: 500, min: field.min, required: field.required }),
    }));
    const form = h("form", { method: "dialog" },
      h("h2", {}, title), h("p", {}, text),
      inputs.map((field) => h("label", { class: "field" }, field.title, " ", field.input)),
      h("div", { class: "row" }, h("button", { class: "main", value: "yes" }, verb), h("button", { value: "no", formnovalidate: true }, "Cancel")));
    const dialog = h("dialog", { "aria-label": title }, form);
    // form-action 'none' of the content policy also blocks forms of dialogs, so submit is handled here.
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close(event.submitter?.value ?? "no");
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? Object.fromEntries(inputs.map((f) => [f.name, f.type === "checkbox" ? f.input.checked : f.input.value])) : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function attempt(what, call) {
  try {
    await call();
    notify(what);
  } catch (error) {
    const why = error.status === 403 ? "you may not do this: it needs the right to edit the job's DAG" : error.message;
    notify(`Not done: ${why}`, true);
  }
  await show();
}

/** Starts a run of a DAG; returns a note if the DAG is paused, because its runs do not begin. */
async function start(dag, conf) {
  const found = await airflow.dag(dag);
  await airflow.trigger(dag, conf);
  return found?.is_paused ? " It begins when the DAG is unpaused." : "";
}

export function triggerButton(job) {
  const dag = `reoptimize__${job}`;
  return h("button", {
    class: "main",
    onclick: async () => {
      const yes = await ask("Reoptimize now?", `Starts a run of ${dag}: it measures, plans, and publishes if the policy allows it.`,
        [
          { name: "method", title: "method of this plan (empty: the policy's)" },
          { name: "dry_run", title: "dry run: publish nothing", type: "checkbox" },
        ], "Start");
      if (!yes) return;
      let note = "";
      const conf = { ...(yes.method && { method: yes.method }), ...(yes.dry_run && { dry_run: true }) };
      await attempt(`Started a run of ${dag}.`, async () => { note = await start(dag, conf); });
      if (note) notify(`Started a run of ${dag}.${note}`);
    },
  }, "Reoptimize now");
}

/** Starts a run of what_if__<job>, which plans for other nodes or another load and changes nothing. */
export function whatIfButton(job) {
  const dag = `what_if__${job}`;
  return h("button", {
    onclick: async () => {
      const given = await ask("What if …?", `Starts a run of ${dag}, which plans for other nodes or another load and changes nothing. The DAG has more parameters.`,
        [
          { name: "without", title: "nodes gone at once (node-1,node-2)" }, { name: "drain", title: "nodes that drain (node-3)" },
          { name: "add", title: "additional nodes", type: "number", min: 0 }, { name: "scale", title: "other load (*=1.3)" },
          { name: "load_of", title: "load up to a time, UTC (2026-11-14T18:00)" },
          { name: "hold_pct", title: "number of nodes for a load of, %", type: "number", min: 1 },
          { name: "method", title: "method (empty: the policy's)" },
          { name: "frontier", title: "plan for each budget", type: "checkbox" },
        ], "Ask");
      if (!given) return;
      const number = (text) => (text === "" ? null : Number(text));
      const conf = { without: given.without, drain: given.drain, scale: given.scale, add: number(given.add) ?? 0,
        load_of: given.load_of || null, hold_pct: number(given.hold_pct), method: given.method || null,
        frontier: given.frontier };
      let run = null;
      await attempt("Asked.", async () => { run = await airflow.trigger(dag, conf); });
      if (run) go({ dag, run: run.dag_run_id });
    },
  }, "What if …");
}

export function rollbackButton(job, version) {
  const dag = `rollback__${job}`;
  return h("button", {
    onclick: async () => {
      const given = await ask(`Roll back to version ${version}?`, `The content of version ${version} is checked against the current nodes and published as a new version. The streaming job takes it up at its next micro-batch.`,
        [{ name: "reason", title: "Reason (for the log)", required: true }, { name: "force_nodes", title: "place key groups of dead nodes anew", type: "checkbox" }], "Roll back");
      if (!given) return;
      await attempt(`Started the rollback to version ${version}.`, () => start(dag, { version, reason: given.reason, force_nodes: given.force_nodes }));
    },
  }, `Roll back to version ${version}`);
}

/** Lets a job that has stopped planning by itself go on: a run that plans, with the reason. */
export function resumeButton(job) {
  const dag = `reoptimize__${job}`;
  return h("button", {
    class: "main",
    onclick: async () => {
      const given = await ask("Resume planning?", `Starts a run of ${dag} that resumes planning and plans. Broken promises so far are no longer counted.`,
        [{ name: "reason", title: "Why (goes into the log)", required: true }], "Resume planning");
      if (!given) return;
      let note = "";
      const started = `Started a run of ${dag} that resumes planning.`;
      await attempt(started, async () => { note = await start(dag, { resume: given.reason }); });
      if (note) notify(`${started}${note}`);
    },
  }, "Resume planning");
}

/** Approve and reject, for a review that waits for the plan on this page. */
export function reviewButtons(item, plan) {
  if (item.content !== plan.content_hash) {
    return h("p", { class: "bad" }, "A review waits for this plan with other content than is shown here: do not approve it, and tell the operators of Ballast.");
  }
  const one = (option, text) => h("button", {
    class: option === "Approve" ? "main" : null,
    onclick: async () => {
      const given = await ask(`${option} this plan?`, text, [{ name: "reason", title: "Reason (optional)" }], option);
      if (given) await attempt(`${option === "Approve" ? "Approved" : "Rejected"}. Your name is in the log.`, () => airflow.answerReview(item, option, given.reason));
    },
  }, option);
  return h("span", { class: "row" },
    one("Approve", "Exactly the content shown here is published, by its hash; a stale plan is refused."),
    one("Reject", "The plan in force stays."));
}
