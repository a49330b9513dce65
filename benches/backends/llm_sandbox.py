"""Measures llm-sandbox: `… IMAGE session` or `… IMAGE interactive`.

Prints nanoseconds by measurement, as JSON. A session is created, runs `true` twice, and is closed.
An interactive session runs a cell twice. Of two, the second counts.
"""

import json
import sys
import time

from llm_sandbox import InteractiveSandboxSession, SandboxSession

_, image, kind = sys.argv
# Without packages to install first and without a network, like the other contenders.
options = {
    "backend": "docker",
    "lang": "python",
    "image": image,
    "keep_template": True,
    "skip_environment_setup": True,
    "runtime_configs": {"network_mode": "none"},
    "verbose": False,
}


def timed(action, *arguments):
    start = time.perf_counter_ns()
    result = action(*arguments)
    elapsed = time.perf_counter_ns() - start
    if result is not None and (result.exit_code != 0 or kind == "interactive" and result.stdout.strip() != "1"):
        raise RuntimeError(f"exit code {result.exit_code}: {result.stdout}{result.stderr}")
    return elapsed


if kind == "interactive":
    # It installs IPython unless the image has it.
    with InteractiveSandboxSession(**options) as session:
        timed(session.run, "print(1)")
        times = {"warm cell": timed(session.run, "print(1)")}
else:
    session = SandboxSession(**options)
    times = {"create": timed(session.open)}
    timed(session.execute_command, "true")
    times["warm exec"] = timed(session.execute_command, "true")
    times["remove"] = timed(session.close)
print(json.dumps(times))
