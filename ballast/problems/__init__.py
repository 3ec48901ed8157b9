"""Problem folders and result folders: the same problem on disk as a solver sees in memory.

For the command line, for benchmarks and for bug reports; the format is in docs/solvers.md.
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
