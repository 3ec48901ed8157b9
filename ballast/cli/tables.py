"""``ballast tables``: prints the table definitions as SQL or as the page of the documentation."""

from __future__ import annotations

import argparse

from ballast.contracts.errors import NotFound
from ballast.contracts.settings import load_settings
from ballast.contracts.table_schemas import ddl, tables_markdown
from ballast.contracts.tables import TABLES

EXAMPLES = {
    "ddl": "example: ballast tables ddl plans.heads",
    "docs": "example: ballast tables docs > docs/tables.md",
}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tables", help="table definitions as SQL or Markdown", epilog=EXAMPLES["ddl"]
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    sql = commands.add_parser(
        "ddl", help="SQL that creates a table, with its constraints", epilog=EXAMPLES["ddl"]
    )
    sql.add_argument("table", metavar="TABLE", help="such as plans.heads")
    sql.set_defaults(run=_ddl)
    docs = commands.add_parser("docs", help="the text of docs/tables.md", epilog=EXAMPLES["docs"])
    docs.set_defaults(run=_docs)


def _ddl(args: argparse.Namespace) -> int:
    if args.table not in TABLES:
        raise NotFound(
            f"there is no table {args.table!r}", value=args.table, allowed=", ".join(TABLES)
        )
    location = load_settings().table_uri(args.table)
    print(";\n\n".join(ddl(TABLES[args.table], location)) + ";")
    return 0


def _docs(_: argparse.Namespace) -> int:
    print(tables_markdown(), end="")
    return 0
