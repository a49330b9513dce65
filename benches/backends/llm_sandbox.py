"""Measures llm-sandbox: `… IMAGE session` or `… IMAGE interactive`.

Prints nanoseconds by measurement, as JSON. A session is created, runs `true` twice, and is closed.
An interactive session runs a cell twice for each line of input. Of two, the second counts.
"""

import io
import json
import sys
import time

import docker
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


# An interactive session needs an environment of this name, and installs IPython unless it has it.
ENVIRONMENT = f"""
FROM {image}
RUN python3 -m venv --system-site-packages --without-pip /sandbox/.sandbox-venv && cd /sandbox/.sandbox-venv/bin && \\
    printf '#!/bin/sh\\nexec /sandbox/.sandbox-venv/bin/python -m pip "$@"\\n' >pip && chmod +x pip
"""
if kind == "interactive":
    built, _ = docker.from_env().images.build(fileobj=io.BytesIO(ENVIRONMENT.encode()), rm=True)
    options["image"] = built.id
    with InteractiveSandboxSession(**options) as session:
        for _ in sys.stdin:
            timed(session.run, "print(1)")
            print(json.dumps({"warm cell": timed(session.run, "print(1)")}), flush=True)
else:
    session = SandboxSession(**options)
    times = {"create": timed(session.open)}
    timed(session.execute_command, "true")
    times["warm exec"] = timed(session.execute_command, "true")
    times["remove"] = timed(session.close)
    print(json.dumps(times))
