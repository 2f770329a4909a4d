"""Keeps the fuzzer's hands off the disks of the machine that it runs on.

A pool may be made on any path of a node, and the nodes are this machine. So whatever path the fuzzer
thinks of is moved to a folder that does not exist.
"""

import schemathesis

NOWHERE = "/holdfast-fuzz-there-is-no-such-folder"


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict) and isinstance(body.get("disks"), list):
        moved = [NOWHERE + d if isinstance(d, str) and d[:1] == "/" else d for d in body["disks"]]
        case.body = {**body, "disks": moved}
