"""
Plans for other nodes or another load than measured. **Changes nothing**: no table is written.

| task | what it does | if it fails |
|---|---|---|
| `what_if` | plans for the newest snapshot as it is and with the question's changes, verifies both plans, and compares them in its log, in its XCom `return_value` (`report` is Markdown) and on the run's tab **Plan** | its log says why: an unknown node or operator, no snapshot yet, or no plan for the question |

| param | example |
|---|---|
| `without` | `node-1,node-2`: gone at once |
| `drain` | `node-1`: leaves within the budget |
| `add` | 2 nodes more, of the typical capacity; `resize` and `racks` know them as `new-1`, `new-2` |
| `resize` | `node-1=2,node-2=0.5`: another capacity, as a factor |
| `racks` | `node-1=rack-2` |
| `scale` | `*=1.3`, `sum_by_airplane=2`: another load, of all operators or of one |
| `load_of` | `2026-11-14T18:00`: the load up to that time (UTC); or the run id of an earlier run of `reoptimize__JOB`: the load of its snapshot |
| `moves`, `bytes`, `pause_s` | another budget; `none`: no limit; empty: the policy's limit |
| `hold_pct` | 70: the number of nodes that would keep the load at 70 % |
| `frontier` | the best load distance for each budget of moves |

The same on a command line: `ballast what-if JOB`, `ballast frontier JOB`.
"""  # noqa: E501

from __future__ import annotations

from airflow.sdk import DAG, Param

from ballast.contracts.methods import PlanningProblem, methods_of
from ballast.contracts.policy import JobPolicy
from ballast.contracts.settings import Settings
from ballast.contracts.tables import OBJECTIVES
from orchestration.dag_factory import dags_of_jobs, job_dag
from orchestration.program_operator import ProgramOperator

KIND = "what_if"
TEXT = "^[A-Za-z0-9_.,=*: -]{0,2000}$"
METHOD_NAMES = dict.fromkeys(
    name
    for problem in (PlanningProblem.BALANCE, PlanningProblem.JOINT)
    for name in methods_of(problem)
)
LIMIT = r"^(none|[0-9]{1,16}(\.[0-9]{1,6})?)?$"


def what_if_dag(policy: JobPolicy, settings: Settings) -> DAG:
    """Make the DAG of one job: one task."""
    params = _params(policy)
    with job_dag(
        KIND,
        policy,
        __doc__,
        description=f"Plans {policy.job} for other nodes or another load",
        # Several runs may be active.
        max_active_runs=4,
        is_paused_upon_creation=False,
        params=params,
    ) as dag:
        ProgramOperator(
            task_id=KIND,
            program=KIND,
            job=policy.job,
            settings=settings,
            arguments=[
                f"--job={policy.job}",
                "--run-id={{ run_id }}",
                *(f"--{name.replace('_', '-')}={_value(name)}" for name in params),
            ],
            notifies=False,
        )
    return dag


def _value(param: str) -> str:
    if param == "frontier":
        return "{{ params.frontier | lower }}"
    return f"{{{{ '' if params.{param} is none else params.{param} }}}}"


def _params(policy: JobPolicy) -> dict[str, Param]:
    def text(description: str) -> Param:
        return Param("", type="string", pattern=TEXT, description=description)

    def limit(description: str) -> Param:
        return Param("", type="string", pattern=LIMIT, description=description)

    return {
        "without": text("Nodes that are gone at once: node-1,node-2"),
        "drain": text("Nodes that leave within the budget"),
        "add": Param(0, type="integer", minimum=0, maximum=100_000, description="Additional nodes"),
        "resize": text("Other capacities: node-1=2,node-2=0.5"),
        "racks": text("Other racks: node-1=rack-2"),
        "scale": text("Other load: *=1.3 or operator=2"),
        "load_of": Param(
            None, type=["null", "string"], maxLength=250,
            description="Time or run whose load is used: 2026-11-14T18:00",
        ),
        "moves": limit("Key groups that may move; none: no limit; empty: the policy's limit"),
        "bytes": limit("Bytes that may move"),
        "pause_s": limit("Seconds of pause"),
        "objective": Param(
            None, enum=[None, *OBJECTIVES], description="Empty: the policy's objective"
        ),
        "method": Param(
            None, enum=[None, *METHOD_NAMES], description="Empty: the policy's method"
        ),
        "hold_pct": Param(
            None, type=["null", "number"], exclusiveMinimum=0, maximum=1000,
            description="Load in percent at which the nodes are counted",
        ),
        "frontier": Param(False, type="boolean", description="Plan for each budget of moves"),
        "seconds": Param(
            policy.solver.seconds, type="number", exclusiveMinimum=0, maximum=3600,
            description="Time for each plan",
        ),
    }  # fmt: skip


for _dag_id, _dag in dags_of_jobs(KIND, what_if_dag):
    globals()[_dag_id] = _dag
