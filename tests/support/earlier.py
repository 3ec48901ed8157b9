"""Tables as an earlier version of Ballast wrote them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from deltalake import write_deltalake

from ballast.contracts.settings import Settings
from ballast.contracts.tables import TABLES
from ballast.store.tables import address, open_table


def without_columns(settings: Settings, name: str, columns: Sequence[str]) -> None:
    """Rewrite a table with its rows and without these columns."""
    short = open_table(settings, name).to_pyarrow_table().drop_columns(list(columns))
    shutil.rmtree(address(settings, name))
    write_deltalake(address(settings, name), short, partition_by=list(TABLES[name].partition_by))
