# What is checked as one of the users.
who=$1
. /media/settings
PATH=/media/bin:$PATH
results=/tmp/results/$who
mkdir -p "$results/matrix" && cd "$results" || exit
export SANDBOX_TEST_BIN=/media/bin/sandbox INSTA_WORKSPACE_ROOT=/media/checkout INSTA_UPDATE=no
case $who in
    root) expected="in a scope of systemd" manager= ;;
    stranger) expected="the user's systemd does not answer" manager= ;;
    *) expected="in a scope of the user's systemd" manager=--user ;;
esac

step() {
    local name=$1
    shift
    if "$@"; then echo "GUEST $who/$name ok"; else echo "GUEST $who/$name failed"; fi
}

# Repeats a command for up to 10 s, until it succeeds.
eventually() {
    local turn
    for turn in $(seq 100); do
        "$@" && return
        sleep 0.1
    done
    echo "not within 10 s: $*"
    return 1
}

groups() { find /sys/fs/cgroup -name 'sandbox-*' 2>/dev/null | grep -q .; }
no_groups() { ! groups; }
ended() { ! kill -0 "$1" 2>/dev/null; }
# Code that no other process is like. (The client's arguments name it as well.)
code() { grep -lx tail /proc/[0-9]*/comm 2>/dev/null | grep -q .; }
no_code() { ! code; }

doctor() {
    sandbox doctor -b local | tee doctor
    grep -qF "$expected" doctor
}

killed_owner() {
    sandbox run -b local --timeout 5m -- tail -f /dev/null &
    local owner=$!
    eventually code || return
    [ "$who" = stranger ] || groups || return
    kill -KILL $owner
    wait $owner 2>/dev/null
    eventually no_code && eventually no_groups
}

detached() {
    sandbox create -b local --name guest-check --ttl 5m || return
    [ "$who" = stranger ] || groups || return
    sandbox exec -b local guest-check -- /bin/sh -c 'echo "detached works"' | grep -qx "detached works" || return
    sandbox rm -b local guest-check || return
    eventually no_groups
}

# Somebody stops the scope: code and client end, and the next sandbox gets another one.
stopped_scope() {
    sandbox run -b local --timeout 5m -- tail -f /dev/null &
    local client=$!
    eventually code || return
    systemctl $manager stop 'sandbox-*.scope' || return
    eventually no_code && eventually ended $client && eventually no_groups || return
    sandbox run -b local -- /bin/true
}

suite() {
    sandbox-conformance --tier local --require local --jobs 2 --verbose --reports "$results/reports" \
        --matrix "$results/matrix" --document "$results/none" "${SUITE[@]}"
}

tests() {
    local test good=0
    for test in /media/tests/*; do
        # In the folder that cargo would run it in.
        (cd /media/checkout/sandbox-local && timeout 900 "$test" --test-threads 2 "${SKIP[@]}") || good=1
    done
    return $good
}

step doctor doctor
step killed-owner killed_owner
step detached detached
[ "$who" = stranger ] || step stopped-scope stopped_scope
[ -z "$RUN_SUITE" ] || step suite suite
[ -z "$RUN_TESTS" ] || step tests tests
step nothing-left eventually no_groups
