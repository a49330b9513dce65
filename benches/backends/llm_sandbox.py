"""Creates a session of llm-sandbox, runs `true` in it twice, and closes it.

Prints a JSON list: nanoseconds of the creation, of the second run, and of the close.
"""

import json
import sys
import time

from llm_sandbox import SandboxSession

# Without packages to install first and without a network, like the other contenders.
session = SandboxSession(
    backend="docker",
    lang="python",
    image=sys.argv[1],
    keep_template=True,
    skip_environment_setup=True,
    runtime_configs={"network_mode": "none"},
    verbose=False,
)


def run_true():
    result = session.execute_command("true")
    if result.exit_code != 0:
        raise RuntimeError(f"exit code {result.exit_code}")


nanoseconds = []
for action in (session.open, run_true, run_true, session.close):
    start = time.perf_counter_ns()
    action()
    nanoseconds.append(time.perf_counter_ns() - start)
del nanoseconds[1]
print(json.dumps(nanoseconds))
