"""Drives llm-sandbox: a word a line on stdin, a JSON value a line on stdout, until stdin ends."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

IMAGE, PROGRAM, CROWD = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Missing(Exception):
    """What is measured is not on this machine."""


def library():
    try:
        import docker
        from llm_sandbox import SandboxSession
    except ImportError as error:
        raise Missing(f"{error}; fix: pip install 'llm-sandbox[docker]'") from error
    return docker, SandboxSession


def session():
    docker, make = library()
    try:
        # Through the same socket as everything else; the library's own look-up is the same.
        docker.from_env().ping()
    except docker.errors.DockerException as error:
        raise Missing(f"no docker engine: {error}") from error
    # Without what it would install beforehand, and without a network, as its rivals.
    return make(
        backend="docker",
        lang="python",
        image=IMAGE,
        keep_template=True,
        skip_environment_setup=True,
        runtime_configs={"network_mode": "none"},
        verbose=False,
    )


def timed(action):
    begin = time.perf_counter_ns()
    action()
    return time.perf_counter_ns() - begin


def check(opened):
    result = opened.run(PROGRAM)
    if result.exit_code != 0 or result.stdout != "1\n":
        raise RuntimeError(f"exit code {result.exit_code}, stdout {result.stdout!r}")


def remove(opened):
    # Not its own end, which takes ten seconds.
    opened.container.remove(force=True)


class Sessions:
    def __init__(self):
        self.warm = None
        self.opened = None

    def run(self):
        if self.warm is None:
            warm = session()
            warm.open()
            self.warm = warm
        return timed(lambda: check(self.warm))

    def open(self):
        if self.opened is not None:
            remove(self.opened)
            self.opened = None
        opened = session()
        took = timed(opened.open)
        self.opened = opened
        return took

    def close(self):
        if self.opened is None:
            self.open()
        opened, self.opened = self.opened, None
        return timed(opened.close)

    def crowd(self):
        sessions = [session() for _ in range(CROWD)]

        def one(opened):
            opened.open()
            try:
                check(opened)
            finally:
                opened.close()

        def all_at_once():
            with ThreadPoolExecutor(CROWD) as pool:
                list(pool.map(one, sessions))

        return timed(all_at_once)

    def end(self):
        for opened in (self.warm, self.opened):
            if opened is not None:
                remove(opened)


def main():
    sessions = Sessions()
    try:
        for line in sys.stdin:
            try:
                answer = {"nanoseconds": getattr(sessions, line.strip())()}
            except Missing as error:
                answer = {"missing": str(error)}
            except Exception as error:  # A rival that fails is no fault of what is measured beside it.
                answer = {"missing": f"llm-sandbox failed: {type(error).__name__}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        sessions.end()


main()
