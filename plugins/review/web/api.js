// Two servers with one login: the JSON of this page, which only reads, and Airflow's API, which writes.
// The browser sends the login cookie to both; both refuse writes from other sites.

export class Refused extends Error {
  constructor(status, body) {
    super(body?.problem ?? body?.detail ?? `the server answered ${status}`);
    this.status = status;
    this.kind = body?.kind ?? null;
    this.allowed = body?.allowed ?? null;
    this.remedy = body?.remedy ?? null;
  }
}

async function answer(url, options) {
  const response = await fetch(url, { credentials: "same-origin", ...options });
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    body = null;
  }
  if (!response.ok) throw new Refused(response.status, flat(body));
  return body;
}

/** Converts "detail" to text: Airflow and FastAPI also use lists and objects there. */
function flat(body) {
  if (!body || typeof body.detail === "string" || body.detail === undefined) return body;
  return { ...body, detail: JSON.stringify(body.detail) };
}

const part = encodeURIComponent;

function query(values) {
  const given = Object.entries(values ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}

export const ballast = {
  jobs: () => answer("api/jobs"),
  job: (job) => answer(`api/jobs/${part(job)}`),
  noise: (job) => answer(`api/jobs/${part(job)}/noise`),
  log: (job, values) => answer(`api/jobs/${part(job)}/log${query(values)}`),
  run: (job, run) => answer(`api/jobs/${part(job)}/run${query({ run_id: run })}`),
  plan: (job, plan, what = "", values = {}) =>
    answer(`api/jobs/${part(job)}/plans/${part(plan)}${what ? `/${what}` : ""}${query(values)}`),
};

function write(method, path, body) {
  return answer(`../api/v2/${path}`, {
    method,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

// A review is visible shortly before its task waits; an answer in between would fail the run.
const WAITING = ["awaiting_input", "deferred"];

// A task that is answered before the scheduler has seen the end of its process counts as killed and
// fails. The process may run for another heartbeat, 5 s, before the scheduler checks it.
const SETTLED_AFTER_MS = 12000;

function settled(since) {
  const left = SETTLED_AFTER_MS - (Date.now() - Date.parse(since));
  return new Promise((done) => setTimeout(done, Math.min(Math.max(left, 0), SETTLED_AFTER_MS)));
}

export const airflow = {
  /** The newest run of a DAG; null without one, or if the user may not see it. */
  async lastRun(dag) {
    const runs = await answer(`../api/v2/dags/${part(dag)}/dagRuns?limit=1&order_by=-run_after`).catch(() => null);
    return runs?.dag_runs?.[0] ?? null;
  },

  /** Waiting approvals of one job or of all jobs. */
  async waiting(job) {
    const dag = job ? `review__${part(job)}` : "~";
    const found = await answer(`../api/v2/dags/${dag}/dagRuns/~/hitlDetails?response_received=false&limit=100`).catch(() => null);
    const rows = (found?.hitl_details ?? []).map((detail) => ({
      dag: detail.task_instance.dag_id,
      run: detail.task_instance.dag_run_id,
      task: detail.task_instance.task_id,
      map: detail.task_instance.map_index,
      state: detail.task_instance.state,
      subject: detail.subject,
      options: detail.options ?? [],
      since: detail.created_at ?? detail.task_instance.start_date,
    }));
    return rows.filter((row) => row.dag.startsWith("review__") && row.task === "approve" && WAITING.includes(row.state));
  },

  trigger: (dag, conf) => write("POST", `dags/${part(dag)}/dagRuns`, { logical_date: null, conf }),

  /** Adds the plan and the content hash that a review's run was started with. */
  async asked(item) {
    const run = await answer(`../api/v2/dags/${part(item.dag)}/dagRuns/${part(item.run)}`).catch(() => null);
    return { ...item, plan: run?.conf?.plan_id ?? null, content: run?.conf?.content_hash ?? null };
  },

  answerReview: (item, option, reason) =>
    settled(item.since).then(() => write("PATCH", `dags/${part(item.dag)}/dagRuns/${part(item.run)}/taskInstances/${part(item.task)}/${part(item.map)}/hitlDetails`,
      { chosen_options: [option], params_input: { reason } })),

  /** An XCom value of a task; null without one, or if the user may not see it. */
  async result(dag, run, task, key) {
    const found = await answer(`../api/v2/dags/${part(dag)}/dagRuns/${part(run)}/taskInstances/${part(task)}/xcomEntries/${part(key)}`).catch(() => null);
    const value = found?.value ?? null;
    return typeof value === "string" && key === "return_value" ? JSON.parse(value) : value;
  },

  run: (dag, run) => answer(`../api/v2/dags/${part(dag)}/dagRuns/${part(run)}`).catch(() => null),

  dag: (dag) => answer(`../api/v2/dags/${part(dag)}`).catch(() => null),
};
