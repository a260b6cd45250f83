"""How a file or folder is opened to the serving user, with the least that does it; it looks at nothing."""

from __future__ import annotations

import shlex

from ds_doctor.probes.model_access import Blocked


def opened(block: Blocked, uid: int) -> str:
    """The command: a file is opened to all, a folder to this user alone."""
    path = shlex.quote(block.path)
    if block.what == "read":
        return f"sudo chmod a+r {path}"
    return f"sudo setfacl -m u:{uid}:{'x' if block.what == 'search' else 'rx'} {path}"


def trial(block: Blocked, uid: int) -> str:
    """The command that shows whether it is open now."""
    flag = {"read": "-r", "list": "-r", "search": "-x"}[block.what]
    return f"sudo -u '#{uid}' test {flag} {shlex.quote(block.path)} && echo yes"
