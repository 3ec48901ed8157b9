"""Files of connection settings: lines ``name = value``, whose values may be passwords.

Errors have the name of the setting and the number of the line, and no value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ballast.contracts.errors import SettingsError


def settings_of(
    file: Path, variable: str, names: Collection[str]
) -> Iterator[tuple[int, str, str]]:
    """Read a file of settings.

    Args:
        file: the file; empty lines and lines that begin with ``#`` do not count.
        variable: the environment variable that names it.
        names: names of settings; the file may write dots or hyphens for their underscores.

    Returns:
        Number of the line, name and text of each setting.

    Raises:
        SettingsError: the file cannot be read, or a line is no known setting.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{variable}: {file} cannot be read ({type(error).__name__})",
            value=str(file),
            remedy="make it readable for this user, and for no other",
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, is_set, text = line.partition("=")
        name = name.strip().replace(".", "_").replace("-", "_")
        if not is_set or name not in names:
            shown = f"{name!r} is" if is_set else "it is"
            raise SettingsError(
                f"{file}, line {number}: {shown} not a setting",
                allowed=", ".join(names),
                remedy="write it as name = value",
            )
        yield number, name, text.strip()
