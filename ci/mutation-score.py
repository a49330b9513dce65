#!/usr/bin/env python3
"""Measures how many small faults in what enforces isolation the conformance suite notices.

cargo-mutants lists the faults, as .cargo/mutants.toml says. All faults of a sample are compiled
into one program, each behind a number. A run of the suite sets the number in a copy of the
program, so a fault costs part of a run instead of a build.

A fault is noticed if a probe's verdict differs from the verdict without a fault, twice, or if the
suite ends early or not at all. Results are
kept in a file, by a hash of the function and the fault; only what is not there is measured.
"""

import argparse
import collections
import contextlib
import datetime
import hashlib
import json
import math
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.environ.get("SANDBOX_CACHE") or os.path.expanduser("~/.cache/sandbox")
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or f"{ROOT}/target") + "/mutation-score"
TREE = f"{TARGET}/tree"
NOT_BUILT, MISSED = "not built", "missed"
# The crates that decide what an engine or a cluster is asked for; .cargo/mutants-engines.toml lists
# their faults. The tier `local` judges all faults of .cargo/mutants.toml.
ENGINES = {
    "docker": ("sandbox-container", "sandbox-docker"),
    "podman": ("sandbox-container", "sandbox-podman"),
    "k8s": ("sandbox-k8s",),
}

# The number that is set stands behind these two in the program's data.
MAGIC = (0x6D757461_6E742073, 0x77697463_68206F66)
SWITCH = """
#[allow(missing_docs, dead_code)]
pub mod mutation_switch {
    use core::sync::atomic::{AtomicU64, Ordering};
    static SET: [AtomicU64; 3] = [AtomicU64::new(%d), AtomicU64::new(%d), AtomicU64::new(0)];
    #[cfg(not(part_of_sandbox_conformance))]
    #[inline(never)]
    pub fn is(number: u64) -> bool {
        core::hint::black_box(&SET)[2].load(Ordering::Relaxed) == number
    }
    // The probe program is part of the suite, and never has a fault.
    #[cfg(part_of_sandbox_conformance)]
    pub fn is(_: u64) -> bool {
        false
    }
}
""" % MAGIC

# Namespaces of the whole run. A fault that creates a sandbox without its own then changes the
# mounts, routes and processes of this run instead of the host's. Empty folders hide the files and
# sandboxes of other runs, which seem to have ended here and would be removed. The loopback has two
# public addresses, so that this host has some of its own; packets to them go nowhere else. The shell
# stays, because the first process of such a namespace gets the orphans of all others as its children.
PREPARE = """ip link set lo up; ip address add 8.8.8.8/32 dev lo
ip address add 2001:4860:4860::8888/128 dev lo || true; mkdir -pm 700 /run/sandbox
for folder in /tmp /var/tmp /dev/shm /run/sandbox; do mount -t tmpfs none $folder; done
chmod 700 /run/sandbox; "$@"; exit $? """
ISOLATED = "unshare --mount --net --pid --fork --kill-child --mount-proc --uts --ipc sh -ec".split()
ISOLATED += [PREPARE, "sh"]
# A self-check tests the suite, not the fault.
SUITE = "--proven-elsewhere --verbose --matrix ../sandbox-{backend}/matrix".split()
LINE = re.compile(r"(ok\+?|gap|open|FAILED) +\[\S+\] (\S+) +(\S+) ")
# The suite says at its end what it has left on the host. In the record, this is the name of a probe.
LEFT, LEFT_LINE = "the-end-of-the-run", re.compile(rb"FAILED \[\S+\] the measurement left ")


def fail(message):
    sys.exit(f"error: {message}")


def say(message):
    print(f"{datetime.datetime.now():%H:%M:%S} {message}", file=sys.stderr, flush=True)


class Mutant:
    def __init__(self, listed, source):
        self.file = listed["file"]
        self.package = listed["package"]
        self.name = re.sub(r"^\S+:\d+:\d+: ", "", listed["name"])
        function = offsets(source, listed["function"]["span"])
        fault = offsets(source, listed["span"])
        text = source[function[0] : function[1]]
        self.is_const = re.search(r"\bconst\s+(unsafe\s+)?(extern\s+\S+\s+)?fn\b", text.split("{")[0]) is not None
        self.body = body_of(text)
        if self.body is not None:
            self.body += function[0]
            self.end = function[1]
            before, after = source[self.body : fault[0]], source[fault[1] : function[1]]
            changed = before + listed["replacement"] + after
            # The fault may be the whole body.
            self.changed = changed if fault[0] >= self.body else None
            if fault[0] <= self.body and fault[1] >= function[1]:
                self.changed = "{" + listed["replacement"] + "}"
        # The place of equal faults in a function tells them apart.
        place = fault[0] - function[0]
        identity = f"{self.file} {self.name} {place} {text}"
        self.hash = hashlib.sha256(identity.encode()).hexdigest()[:16]


def offsets(source, span):
    lines = source.split("\n")
    start = lambda point: sum(len(line) + 1 for line in lines[: point["line"] - 1]) + point["column"] - 1
    return start(span["start"]), start(span["end"])


TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|b?r(#*)\".*?\"\1|[bc]?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\])'|[{}()\[\]]", re.S
)


def body_of(function):
    """The offset of the brace that the last brace closes."""
    opened = []
    for token in TOKEN.finditer(function):
        if token[0] in "{([":
            opened.append(token.start())
        elif token[0] in "})]":
            if not opened:
                return None
            last = opened.pop()
            if token.end() == len(function.rstrip()) and not opened:
                return last
    return None


def record_of(tier):
    return f"{ROOT}/sandbox-{tier}/matrix/mutants.tsv"


def listed(tier):
    packages = ENGINES.get(tier)
    command = ["cargo", "mutants", "--workspace", "--list", "--json"]
    command += ["--config", ".cargo/mutants-engines.toml"] if packages else []
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
    if run.returncode != 0:
        fail("cargo-mutants cannot list the faults; see above")
    sources = {}
    mutants = []
    for one in json.loads(run.stdout):
        if one.get("function") and (not packages or one["package"] in packages):
            if one["file"] not in sources:
                sources[one["file"]] = open(f"{ROOT}/{one['file']}", encoding="utf-8").read()
            mutants.append(Mutant(one, sources[one["file"]]))
    return [mutant for mutant in mutants if mutant.changed and not mutant.is_const]


def write_tree(mutants):
    """Copies the workspace, with the faults of `mutants`, and leaves unchanged files alone. Returns
    for each fault its number, its file, its lines, and the last line of its function."""
    by_file = collections.defaultdict(list)
    for number, mutant in mutants.items():
        by_file[mutant.file].append((number, mutant))
    roots = {f"{mutant.package}/src/lib.rs" for mutant in mutants.values()}
    roots |= {f"sandbox-agent/src/{name}.rs" for name in ("lib", "runtime_root", "program_root")}
    places, written = [], set()
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for file in files.decode().split("\0")[:-1]:
        if not os.path.isfile(f"{ROOT}/{file}"):
            continue
        with open(f"{ROOT}/{file}", "rb") as source:
            text = source.read()
        if file in by_file or file in roots or file.endswith("runtime/build.rs"):
            text = text.decode()
            insertions = []
            for number, mutant in by_file[file]:
                fault = f"if crate::mutation_switch::is({number}) {{ return {mutant.changed} }}"
                insertions.append((mutant.body + 1, f"\n{fault}\n"))
                insertions.append((mutant.end - 1, f"/* end of {number} */"))
            for offset, inserted in sorted(insertions, reverse=True):
                text = text[:offset] + inserted + text[offset:]
            if file in roots:
                text += SWITCH
            if file.endswith("runtime/build.rs"):
                # The runtime is part of the agent and of the probe program.
                own = '.args(["--cfg", "freestanding"])'
                package = 'env::var("CARGO_PKG_NAME").unwrap_or_default().replace(\'-\', "_")'
                text = text.replace(own, own + f'.args(["--cfg", &format!("part_of_{{}}", {package})])')
            for found in re.finditer(r"if crate::mutation_switch::is\((\d+)\) ", text):
                line = lambda offset: text.count("\n", 0, offset) + 1
                first = line(found.start())
                last = first + mutants[int(found[1])].changed.count("\n")
                end = line(text.index(f"/* end of {found[1]} */"))
                places.append((int(found[1]), file, first, last, end))
            text = text.encode()
        path = f"{TREE}/{file}"
        written.add(path)
        if not os.path.exists(path) or open(path, "rb").read() != text:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as copy:
                copy.write(text)
            shutil.copymode(f"{ROOT}/{file}", path)
    # A package of an earlier run would still be a member of the workspace.
    for folder, _, names in os.walk(TREE, topdown=False):
        for name in names:
            if f"{folder}/{name}" not in written and name != "Cargo.lock":
                os.remove(f"{folder}/{name}")
        if not os.listdir(folder):
            os.rmdir(folder)
    return places


def build(tier, mutants):
    """Builds the suite with the faults. Those that do not compile are removed from `mutants`."""
    rejected = []
    for _ in range(12):
        places = write_tree(mutants)
        say(f"compiling {len(mutants)} faults")
        command = f"cargo build --package sandbox-conformance --no-default-features --features {tier}"
        settings = {"CARGO_TARGET_DIR": f"{TARGET}/target", "CARGO_TERM_COLOR": "never", "RUSTFLAGS": "--cap-lints=allow"}
        run = subprocess.run(command.split(), cwd=TREE, env=os.environ | settings, stderr=subprocess.PIPE, text=True)
        if run.returncode == 0:
            return f"{TARGET}/target/debug/sandbox-conformance", rejected
        wrong = set()
        # The agent's build script writes all messages of its compiler into one line.
        messages = re.split(r"^(?=error|warning)", run.stderr.replace("\\n ", "\n"), flags=re.M)
        for message in [message for message in messages if message.startswith("error")]:
            blamed = [(file if file.startswith("sandbox-") else f"sandbox-agent/{file}", int(line))
                      for file, line in re.findall(r"(?:-->|:::) (\S+?):(\d+):\d+", message)]
            inside = {place[0] for place in places for file, line in blamed
                      if place[1] == file and place[2] <= line <= place[3]}
            # Where types differ, the compiler may blame the signature or the rest of the function.
            wrong |= inside or {place[0] for place in places for file, line in blamed
                                if place[1] == file and place[2] - 12 <= line <= place[4]}
        if not wrong:
            fail(f"the faults do not compile:\n{run.stderr[-6000:]}")
        for number in wrong:
            rejected.append(mutants.pop(number))
    fail("the faults do not compile after 12 attempts")


def with_number(program, number):
    """A copy of the program, with the fault `number`."""
    data = open(program, "rb").read()
    magic = b"".join(part.to_bytes(8, "little") for part in MAGIC)
    changed = data.replace(magic + bytes(8), magic + number.to_bytes(8, "little"))
    if number and changed == data:
        fail("the program has no switch")
    path = f"{TARGET}/suite-with-a-fault"
    with open(path, "wb") as copy:
        copy.write(changed)
    os.chmod(path, 0o755)
    return path


def verdicts(tier, program, limit, stop=lambda probe, verdict: False, more=()):
    """Runs the suite until `stop` is true for a verdict. Returns the verdicts and whether it ended."""
    # An engine creates its sandboxes outside of such namespaces.
    isolated = [] if tier in ENGINES else ISOLATED
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    command = [*isolated, program, "--tier", tier, *SUITE, "--reports", f"{TARGET}/reports", *more]
    run = subprocess.Popen(command, cwd=f"{TREE}/sandbox-conformance", env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return read_verdicts(run.stdout, time.monotonic() + limit, stop)
    finally:
        # An interrupt of this program does not reach the suite's session. The suite removes what it
        # has created in an engine; a namespace takes everything else along.
        if not isolated and run.poll() is None:
            os.killpg(run.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(90)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()


def read_verdicts(output, end, stop):
    found, buffered = {}, b""
    while time.monotonic() < end:
        if not select.select([output], [], [], max(0, end - time.monotonic()))[0]:
            break
        data = os.read(output.fileno(), 65536)
        if not data:
            return found, True
        *lines, buffered = (buffered + data).split(b"\n")
        matches = [LINE.match(line.decode(errors="replace") + " ") for line in lines]
        new = {match[2]: (match[1], match[3]) for match in matches if match}
        if any(map(LEFT_LINE.match, lines)):
            new[LEFT] = ("FAILED", "left")
        found.update(new)
        if any(stop(probe, verdict) for probe, verdict in new.items()):
            break
    return found, False


def still_notices(tier, program, number, probe):
    """Whether the fault changes the verdict of the probe that noticed it."""
    run = lambda one: verdicts(tier, with_number(program, one), 40 if probe != LEFT else 200,
                               lambda told, _: told == probe, only(probe))[0]
    normal, found = run(0), run(number)
    return (probe in normal or probe == LEFT) and found.get(probe) != normal.get(probe)


def only(probe):
    """The arguments that run what this probe needs."""
    return ["--filter", probe] if probe != LEFT else []


def judge(tier, program, normal, limit):
    """The probe that notices the fault, `None`, or why there is no answer."""
    ignored, normal = set(), {LEFT: None, **normal}
    while True:
        differs = lambda probe, verdict: probe not in ignored and normal.get(probe, verdict) != verdict
        found, ended = verdicts(tier, program, limit, differs)
        changed = [probe for probe, verdict in found.items() if differs(probe, verdict)]
        if not changed:
            missing = [probe for probe in normal if probe not in found and probe != LEFT]
            return None if ended and not missing else "the suite does not end" if not ended else "the suite ends early"
        again, _ = verdicts(tier, program, limit, lambda probe, _: probe == changed[0], only(changed[0]))
        if again.get(changed[0]) != normal[changed[0]]:
            return changed[0]
        # A busy machine, or a fault that acts now and then.
        ignored.add(changed[0])


def read_record(path):
    if not os.path.exists(path):
        return {}
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8") if not line.startswith("#")]
    return {row[0]: row for row in rows}


def write_record(path, record):
    rows = sorted(record.values(), key=lambda row: (row[3], row[4], row[0]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("# What the suite says to small faults; see ci/mutation-score.py --help\n")
        file.write("# hash\tdate\tresult\tfile\tfault\n")
        file.writelines("\t".join(row) + "\n" for row in rows)


def interval(noticed, all_):
    """Wilson's 95 % interval."""
    z, p = 1.96, noticed / all_
    middle, spread = p + z * z / (2 * all_), z * math.sqrt(p * (1 - p) / all_ + z * z / (4 * all_ * all_))
    return tuple(100 * max(0, (middle + sign * spread)) / (1 + z * z / all_) for sign in (-1, 1))


def summary(record, mutants):
    """The score by crate and what was missed, as Markdown."""
    known = [(mutant, record[mutant.hash][2]) for mutant in mutants if mutant.hash in record]
    lines = ["| crate | faults | measured | noticed | missed |", "|---|---|---|---|---|"]
    for package in sorted({mutant.package for mutant in mutants}) + ["all"]:
        results = [result for mutant, result in known if package in ("all", mutant.package) and result != NOT_BUILT]
        total = sum(package in ("all", mutant.package) for mutant in mutants)
        missed = results.count(MISSED)
        lines.append(f"| {package} | {total} | {len(results)} | {len(results) - missed} | {missed} |")
    if results:
        low, high = interval(len(results) - missed, len(results))
        share = 100 * (len(results) - missed) / len(results)
        lines += ["", f"The suite notices {share:.1f} % of these faults; of all, {low:.1f} to {high:.1f} % with 95 % confidence. "
                  f"{len(known) - len(results)} more do not compile."]
    if missed:
        lines += ["", "Missed:", ""]
        lines += [f"- `{mutant.file}`: {mutant.name}".replace("|", "\\|") for mutant, result in known if result == MISSED]
    return "\n".join(lines)


def write_document(tier, text):
    mark = lambda word: f"<!-- mutation-score:{tier}:{word} -->"
    path = f"{ROOT}/docs/matrix.md"
    with open(path, encoding="utf-8") as file:
        before, rest = file.read().split(mark("begin"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{mark('begin')}\n\n{text}\n\n{mark('end')}{rest.split(mark('end'))[1]}")


def again(tier, everything, record, count):
    """Compares random faults of the record with the probes that noticed them."""
    noticed = [mutant for mutant in everything if "::" in record.get(mutant.hash, [""] * 3)[2]]
    if count < 1 or not noticed:
        fail(f"--again {count}: the record has {len(noticed)} noticed faults; choose 1 to {len(noticed)} of them")
    chosen = dict(enumerate(random.sample(noticed, min(count, len(noticed))), 1))
    program, _ = build(tier, chosen)
    unnoticed = []
    for number, mutant in chosen.items():
        probe = record[mutant.hash][2]
        notices = still_notices(tier, program, number, probe)
        say(f"{probe} {'notices' if notices else 'does not notice'}: {mutant.file}: {mutant.name}")
        if not notices:
            unnoticed.append(f"{probe}: {mutant.file}: {mutant.name}")
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} recorded faults are noticed by their probes")
    if unnoticed or len(chosen) < count:
        fail("\n".join(["these recorded faults are not noticed, or do not compile:", *unnoticed]))


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask conformance --mutation-score", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutation-score", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tier", default="local", choices=["local", *ENGINES],
                        help="which tier judges; by default local. An engine judges what it is asked for")
    parser.add_argument("--sample", type=int, default=300, help="number of faults; by default 300")
    parser.add_argument("--seed", default="0", help="which of the samples")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time; the next run goes on")
    parser.add_argument("--only", default="", help="only faults whose file or name match this regular expression")
    parser.add_argument("--record", help="file of the results; by default matrix/mutants.tsv in the tier's crate")
    parser.add_argument("--fresh", action="store_true", help="measure what the record has, too, and fail where they differ")
    parser.add_argument("--again", type=int, metavar="N",
                        help="only measure N noticed faults again, each with its probe, and fail where it does not notice")
    options = parser.parse_args()
    tier, committed = options.tier, record_of(options.tier)
    options.record = options.record or committed
    end = time.monotonic() + 60 * options.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended by SIGTERM"))
    os.environ["PATH"] += f":{CACHE}/cargo-mutants/bin"
    if os.geteuid() != 0:
        fail("faults need namespaces of their own to be harmless; run this as root")
    if not shutil.which("cargo-mutants"):
        fail(f"cargo-mutants is missing: cargo install cargo-mutants --locked --root {CACHE}/cargo-mutants")
    os.makedirs(TREE, exist_ok=True)

    everything = listed(tier)
    try:
        only = re.compile(options.only)
    except re.error as error:
        fail(f"--only {options.only!r} is no regular expression: {error}")
    order = lambda mutant: hashlib.sha256(f"{options.seed} {mutant.hash}".encode()).digest()
    chosen = [mutant for mutant in everything if only.search(f"{mutant.file}: {mutant.name}")]
    sample = sorted(chosen, key=order)[: max(options.sample, 0)]
    if not sample:
        fail("the sample has no fault; see --sample and --only")
    record = read_record(options.record)
    if options.again is not None:
        return again(tier, everything, record, options.again)
    is_built = lambda mutant: record.get(mutant.hash, [None] * 3)[2] != NOT_BUILT
    numbers = {number: mutant for number, mutant in enumerate(sample, 1) if is_built(mutant)}
    program, rejected = build(tier, numbers)
    today = f"{datetime.date.today()}"
    keep = lambda mutant, result: record.update({mutant.hash: [mutant.hash, today, result, mutant.file, mutant.name]})
    for mutant in rejected:
        keep(mutant, NOT_BUILT)
    say("running the suite without a fault, twice")
    start = time.monotonic()
    first, second = (verdicts(tier, with_number(program, 0), 900)[0] for _ in range(2))
    normal = {probe: verdict for probe, verdict in first.items() if second.get(probe) == verdict}
    if len(normal) < 0.95 * len(first) or not first:
        fail(f"the suite without a fault is not stable: {len(normal)} of {len(first)} verdicts are equal")
    limit = 60 + time.monotonic() - start
    say(f"{len(normal)} probes")
    differences = []
    for number, mutant in numbers.items():
        known = record.get(mutant.hash)
        if known and not options.fresh:
            continue
        if time.monotonic() > end:
            break
        start = time.monotonic()
        result = judge(tier, with_number(program, number), normal, limit) or MISSED
        say(f"{number}/{len(sample)} {time.monotonic() - start:.0f} s {result}: {mutant.file}: {mutant.name}")
        if known and (known[2] == MISSED) != (result == MISSED):
            differences.append(f"{mutant.file}: {mutant.name}: {result}, not {known[2]}")
        keep(mutant, result)
        if not options.fresh:
            write_record(options.record, record)
    text = summary(record, everything)
    print(text)
    if not options.fresh:
        write_record(options.record, record)
        # The document is about the committed record alone.
        if os.path.realpath(options.record) == os.path.realpath(committed):
            write_document(tier, text)
    if differences:
        fail("the record differs:\n" + "\n".join(differences))


if __name__ == "__main__":
    main()
