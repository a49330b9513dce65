#!/usr/bin/env python3
"""Compares the measured profiles of two commits, probe by probe.

Usage: ci/compare-profiles.py OLD [NEW] [--renamed OLD_ID=NEW_ID ...]

Prints, for each profile of NEW that OLD has too, each probe whose verdict, mechanism or gap differs,
and the probes that only one of the two has. Profiles belong together by tier and by the key of the
host. Exits with 1 if a verdict differs.
"""
import argparse
import json
import subprocess


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def profiles(commit):
    names = git("ls-tree", "-r", "--name-only", commit).splitlines()
    for name in names:
        if "matrix/" in name and name.endswith(".json"):
            profile = json.loads(git("show", f"{commit}:{name}"))
            yield (profile["tier"], str(sorted(profile["key"]))), (name, profile["probes"])


def declared(probe):
    return "; ".join(f"{key} {value}" for key, value in sorted((probe.get("declared") or {}).items()))


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("old")
parser.add_argument("new", nargs="?", default="HEAD")
parser.add_argument("--renamed", nargs="*", default=[], metavar="OLD_ID=NEW_ID")
arguments = parser.parse_args()
renamed = dict(pair.split("=") for pair in arguments.renamed)
before, after = dict(profiles(arguments.old)), dict(profiles(arguments.new))
worse = 0
for key in sorted(before.keys() ^ after.keys()):
    print(f"only in one commit: {(before.get(key) or after[key])[0]} {key[1]}")
for key in sorted(before.keys() & after.keys()):
    name, new = after[key]
    old = {renamed.get(probe, probe): value for probe, value in before[key][1].items()}
    changed = [p for p in sorted(old.keys() & new.keys()) if old[p]["verdict"] != new[p]["verdict"]]
    worse += len(changed)
    print(f"{name}: {len(old)} probes before, {len(new)} now, {len(changed)} verdicts differ")
    for probe in changed:
        print(f"  {probe}: {old[probe]['verdict']} -> {new[probe]['verdict']}")
    for probe in sorted(old.keys() - new.keys()):
        print(f"  {probe}: removed or renamed")
    texts = {}
    for probe in sorted(old.keys() & new.keys()):
        if declared(old[probe]) != declared(new[probe]):
            texts.setdefault((declared(old[probe]), declared(new[probe])), []).append(probe)
    for (old_text, new_text), probes in texts.items():
        print(f"  {len(probes)} probes, such as {probes[0]}:\n    - {old_text}\n    + {new_text}")
raise SystemExit(worse > 0)
