"""Public source code beside the script that runs it: found, checked, put on the path."""

import sys
from pathlib import Path


def use_source(folder: Path | None, repository: str, landmark: str, option: str) -> Path:
    """Put the clone at ``folder`` on the path; the file ``landmark`` tells that it is the one."""
    wanted = f"pass {option} PATH, a clone of https://github.com/{repository}"
    if folder is None:
        raise SystemExit(f"the source of {repository} is needed: {wanted}")
    if not (folder / landmark).is_file():
        raise SystemExit(f"{folder} is not {repository} (it has no {landmark}): {wanted}")
    sys.path.insert(0, str(folder.resolve()))
    return folder
