"""The model that all solvers and the verifier share: problem, budget, stop, objective, result."""
