#!/usr/bin/env bash
# Measures how many small faults in what enforces isolation the conformance suite notices on the
# local tier. cargo-mutants makes the faults, as .cargo/mutants.toml says; the suite alone judges.
#
# Usage: ci/mutation-score.sh [--sample N] [--seed S] [OPTION…]
#
#   --sample N   about N mutants, evenly from all files; by default all, which takes days
#   --seed S     which of the samples, from 0; samples of the same size share no mutant
#
# Other options are those of cargo-mutants, such as --file and --re. The full record is in
# target/mutation-score/mutants.out; mutants that did not end count as noticed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib.sh"
PATH=$PATH:$cache/cargo-mutants/bin

sample='' seed=0 options=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage ;;
        --mutation-score) ;;
        --sample | --seed)
            [[ ${2:-} =~ ^[0-9]+$ ]] || fail "$1 needs a number" "$1 10"
            declare "${1#--}=$2" && shift
            ;;
        *) options+=("$1") ;;
    esac
    shift
done
is_root || fail "mutants need namespaces of their own to be harmless" "run it as root"
command -v jq >/dev/null && command -v ip >/dev/null || fail "jq or ip is missing" "apt-get install jq iproute2"
command -v cargo-mutants >/dev/null ||
    fail "cargo-mutants is missing" "cargo install cargo-mutants --locked --root $cache/cargo-mutants"

CARGO_TARGET_DIR=$(realpath "${CARGO_TARGET_DIR:-$here/../target}")/mutation-score
export CARGO_TARGET_DIR CARGO_INCREMENTAL=1
cd "$here/.."
# The suite hides /tmp from its run, so the changed tree is not there.
export TMPDIR=$CARGO_TARGET_DIR
mkdir -p "$TMPDIR"
if [ "${sample:-0}" -gt 0 ]; then
    all=$(cargo mutants --workspace --list "${options[@]}" | wc -l)
    shards=$(((all + sample - 1) / sample))
    options+=(--sharding round-robin --shard "$((seed % shards))/$shards")
fi
judge=(cargo test --package sandbox-conformance --test mutation_score)
"${judge[@]}" --no-run >&2
SECONDS=0
"${judge[@]}" >&2 || fail "the suite does not pass without a mutant" "see above"
# Where every sandbox fails to start, the suite takes longer than one that passes.
options+=(--baseline skip --timeout $((60 + 2 * SECONDS)))

record=$CARGO_TARGET_DIR/mutants.out/outcomes.json
rm -f "$record"
code=0
cargo mutants --workspace --output "$CARGO_TARGET_DIR" --colors never "${options[@]}" >&2 || code=$?
# 2 and 3 say that mutants were missed or did not end.
[[ $code = [023] ]] || say "ended early with code $code; these are the mutants until then:"
jq -r '
    [.outcomes[] | select(.scenario | type == "object") | {summary, mutant: .scenario.Mutant}] as $all
    | def count($name): map(select(.summary == $name)) | length;
    def row($name): "| \($name) | \(length) | \(count("CaughtMutant") + count("Timeout")) |"
        + " \(count("MissedMutant")) | \(count("Unviable")) |";
    "| crate | mutants | noticed | missed | did not build |", "|---|---|---|---|---|",
    ($all | group_by(.mutant.package)[] | row(.[0].mutant.package)), ($all | row("all")),
    ($all[] | select(.summary == "MissedMutant").mutant
        | "\(.file):\(.span.start.line): \(.name | sub("^[^ ]+ "; ""))")' "$record"
