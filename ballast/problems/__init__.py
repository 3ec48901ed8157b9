"""Problem folders and result folders: a rebalance problem and its result as files.

They are used by the command line, benchmarks and bug reports. docs/solvers.md has the format.
"""

from ballast.problems.folder import (
    AllowedColumns,
    BudgetSpec,
    KeyGroupColumns,
    NodeColumns,
    ProblemFolder,
    TradeSpec,
    TrafficColumns,
    read_problem,
    write_problem,
)
from ballast.problems.results import ResultFolder, read_result, write_result

__all__ = [
    "AllowedColumns",
    "BudgetSpec",
    "KeyGroupColumns",
    "NodeColumns",
    "ProblemFolder",
    "ResultFolder",
    "TradeSpec",
    "TrafficColumns",
    "read_problem",
    "read_result",
    "write_problem",
    "write_result",
]
