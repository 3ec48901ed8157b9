"""Batches of key groups give the noise that all key groups give at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from solvers.noise.noise_estimate import (
    EarlierEstimate,
    KeyGroupNoise,
    earlier_nodes,
    estimate_loads,
    jumped_nodes,
    node_window_loads,
    noise_model,
)
from solvers.noise.window_moments import MomentSums, window_factors
from spark_jobs.snapshot.load_noise import (
    KEY_GROUP_NOISE,
    UNMOVED,
    WINDOWS,
    NoiseColumnNames,
    _CommonNoise,
    _noise_of_batches,
    _Period,
    _sums_of_batches,
    earlier_columns,
    loads_of_windows,
)

G, W, N = 40, 12, 4
ROWS_OF_A_BATCH = 7


def loads_of(seed: int) -> np.ndarray:
    """Loads of key groups in windows: independent noise, and bursts that all have in common."""
    rng = np.random.default_rng(seed)
    burst = rng.gamma(5.0, 0.2, W)
    return rng.pareto(1.5, (G, 1)) * burst * rng.gamma(20.0, 0.05, (G, W))


def batches_of(cpu: np.ndarray, network: np.ndarray) -> list[pa.RecordBatch]:
    """Batches as Spark packs them: windows in any order, without those in which a key group has no
    row."""
    rng = np.random.default_rng(1)
    rows = [
        [
            {"window": int(w), "cpu": float(cpu[k, w]), "network": float(network[k, w])}
            for w in rng.permutation(W)
            if cpu[k, w] > 0
        ]
        for k in range(G)
    ]
    table = pa.table({"key_group": list(range(G)), WINDOWS: rows})
    return table.to_batches(max_chunksize=ROWS_OF_A_BATCH)


def test_packed_rows_become_loads_in_the_order_of_the_windows() -> None:
    packed = pa.array(
        [[{"window": 2, "cpu": 5.0}, {"window": 0, "cpu": 1.0}], [], [{"window": 1, "cpu": 7.0}]]
    )
    assert loads_of_windows(packed, "cpu", 3).tolist() == [[1, 0, 5], [0, 0, 0], [0, 7, 0]]


@pytest.mark.parametrize("seed", range(3))
def test_chunks_give_what_one_call_gives(seed: int) -> None:
    loads = {"cpu": loads_of(seed), "network": loads_of(seed + 100)}
    loads["cpu"][3, 2:] = 0.0
    loads["network"][3, 2:] = 0.0
    node_of = np.arange(G) % N
    periods = {
        name: _Period(window_factors(node_window_loads(of, node_of, N)))
        for name, of in loads.items()
    }
    batches = batches_of(loads["cpu"], loads["network"])
    total = dict.fromkeys(loads, MomentSums())
    # Two partitions, as Spark has them.
    for part in (batches[:2], batches[2:]):
        (sums,) = _sums_of_batches(periods, iter(part))
        for row in sums.to_pylist():
            total[row["name"]] += MomentSums(*row["sums"])
    models = {
        name: _CommonNoise(of, noise_model(total[name], of.windows)) for name, of in periods.items()
    }
    found = pa.Table.from_batches(
        _noise_of_batches(models, KEY_GROUP_NOISE, ["key_group"], iter(batches))
    )
    assert found["key_group"].to_pylist() == list(range(G))
    for name, columns in KEY_GROUP_NOISE.items():
        assert_columns(found, columns, estimate_loads(name, loads[name], node_of, N).key_groups)


def assert_columns(found: pa.Table, names: NoiseColumnNames, wanted: KeyGroupNoise) -> None:
    assert found[names.window_sd].to_numpy() == pytest.approx(wanted.window_sd)
    assert found[names.mean_error].to_numpy() == pytest.approx(wanted.mean_error)
    assert found[names.level].to_numpy() == pytest.approx(wanted.level)
    assert found[names.level_error].to_numpy() == pytest.approx(wanted.level_error)


@pytest.mark.parametrize("is_apart", [True, False])
def test_chunks_after_another_snapshot_give_what_one_call_gives(is_apart: bool) -> None:
    before, now = loads_of(1), 1.3 * loads_of(2)
    was, node_of = np.arange(G) % N, np.where(np.arange(G) < 5, 0, np.arange(G) % N)
    first = estimate_loads("cpu", before, was, N)
    # A snapshot with overlapping windows gives no changes, as if everything had moved.
    home = was if is_apart else np.full(G, -1)
    earlier = EarlierEstimate(first, home)
    wanted = estimate_loads("cpu", now, node_of, N, earlier)
    period = _Period(
        window_factors(node_window_loads(now, node_of, N)),
        first.resource,
        float(now.mean(axis=1).sum() / before.mean(axis=1).sum()),
        is_apart,
    )
    table = pa.Table.from_batches(batches_of(now, now))
    known = first.key_groups
    earlier_values = (first.mean, known.level, known.level_error, known.window_sd)
    for name, values in zip(earlier_columns("cpu").values(), earlier_values, strict=True):
        table = table.append_column(name, pa.array(values))
    table = table.append_column(UNMOVED, pa.array(was == node_of))
    table = table.append_column("node_id", pa.array([f"n{node}" for node in node_of]))
    batches = table.to_batches(max_chunksize=ROWS_OF_A_BATCH)
    (sums,) = _sums_of_batches({"cpu": period}, iter(batches))
    total = MomentSums(*sums.to_pylist()[0]["sums"])
    common = noise_model(total, period.windows, first.resource)
    before = earlier.for_period(float(now.mean(axis=1).sum()), node_of)
    assert before is not None
    nodes = earlier_nodes(now.mean(axis=1), before, node_of, N)
    jumped = np.flatnonzero(jumped_nodes(period.windows, common, nodes))
    model = _CommonNoise(period, common, frozenset(f"n{node}" for node in jumped))
    names = {"cpu": KEY_GROUP_NOISE["cpu"]}
    found = pa.Table.from_batches(
        _noise_of_batches({"cpu": model}, names, ["key_group"], iter(batches))
    )
    assert_columns(found, names["cpu"], wanted.key_groups)
    assert model.common.period_variance_ratio == pytest.approx(
        wanted.resource.period_variance_ratio
    )


def test_too_few_windows_give_null_and_not_nan() -> None:
    loads = np.ones((2, 1))
    factors = window_factors(loads)
    model = _CommonNoise(_Period(factors), noise_model(MomentSums(), factors))
    packed = [[{"window": 0, "cpu": 1.0, "network": 1.0}]] * 2
    batch = pa.RecordBatch.from_pydict({"key_group": [0, 1], WINDOWS: packed})
    models = {"cpu": model, "network": model}
    (found,) = _noise_of_batches(models, KEY_GROUP_NOISE, ["key_group"], iter([batch]))
    assert found.column("cpu_window_sd_cores").null_count == 2
    assert found.column("network_mean_error_bytes_per_s").null_count == 2


def test_a_partition_without_rows_adds_nothing() -> None:
    periods = {"cpu": _Period(window_factors(np.ones((2, W))))}
    (sums,) = _sums_of_batches(periods, iter([]))
    assert MomentSums(*sums.to_pylist()[0]["sums"]) == MomentSums()
