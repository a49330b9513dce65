#!/usr/bin/env bash
# Proves that unchanged clients reach what egress rules allow, and are told at once about the rest.
#
# Usage: ci/clients.sh [--install] [--require] [SANDBOX TIER [IMAGE]]
#
#   SANDBOX    the built command; TIER is local, docker, podman or k8s
#   --install  installs the clients and servers first: Debian's packages, as root, and a virtual environment
#              in $SANDBOX_CACHE/clients. Without SANDBOX, nothing else
#   --require  a missing client or server is a failure, not skipped
#
# All servers listen on 127.0.0.1 alone, with names below .test that only a name server of this script knows. Each
# check is a line: ok, FAILED with the last output, or skipped with a reason. Node.js, npm and cargo of the tier local
# are those of $SANDBOX_CACHE/node and of rustup, where they exist.

# Variables in single quotes are those of the sandbox.
# shellcheck disable=SC2016
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=clients
. "$here/lib.sh"
venv=$cache/clients/venv

install_clients() {
    install curl=curl wget=wget git=git ssh=openssh-client sshd=openssh-server openssl=openssl go=golang-go gcc=gcc \
        java=default-jdk-headless /usr/lib/postgresql=postgresql redis-server=redis-server redis-cli=redis-tools \
        busybox=busybox-static /usr/lib/python3/dist-packages/pip=python3-pip
    [ -x "$cache/node/node_modules/.bin/npm" ] || install node=nodejs npm=npm
    [ ! -x "$venv/musl/bin/uv" ] || return 0
    # Debian's Python, because the sandbox shows /usr.
    /usr/bin/python3 -m venv --clear --without-pip "$venv"
    local pip=(/usr/bin/python3 -m pip --python "$venv/bin/python" install --quiet)
    "${pip[@]}" pip requests httpx uv >&2
    # Its file for musl is a static program.
    "${pip[@]}" --target "$venv/musl" --platform "musllinux_1_1_$(uname -m)" --only-binary :all: uv >&2
}

require='' install=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage ;;
        --install) install=1 ;;
        --require) require=1 ;;
        -*) fail "there is no option $1" "--help lists them" ;;
        *) break ;;
    esac
    shift
done
[ -z "$install" ] || install_clients
[ -z "$install" ] || [ $# -gt 0 ] || exit 0
sandbox=$(realpath "${1:?SANDBOX is missing; --help tells more}") tier=${2:?TIER is missing; --help tells more}
[ -x "$sandbox" ] || fail "$sandbox is no program" "cargo build -p sandbox-cli, and name target/debug/sandbox"
case $tier in local | docker | podman | k8s) ;; *) fail "there is no tier $tier" "local, docker, podman or k8s" ;; esac
type -P openssl git ssh-keygen >/dev/null || fail "openssl, git or ssh-keygen is missing" "ci/clients.sh --install"
say "unchanged clients run in sandboxes of the tier $tier, by $sandbox"
work=$(mktemp -d "${TMPDIR:-/tmp}/clients.XXXXXX")
in=$work/in own=$work/servers www=$work/servers/www log=$work/log postgres=$(echo /usr/lib/postgresql/*/bin)

passed=0 failed=0 skipped=0 preparing=1
clean_up() {
    local pid pids
    [ -z "$preparing" ] || tail -n 15 "$log" >&2
    pids=$(jobs -rp)
    for pid in $pids; do kill "$pid" || true; done
    for pid in $pids; do
        wait_for 10 eval "! start_ticks $pid" || { say "process $pid did not end within 10 s" && kill -KILL "$pid"; }
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'preparing= && exit 130' INT
trap 'preparing= && exit 143' TERM

ok() { passed=$((passed + 1)) && echo "ok $1"; }
# wrong WHAT FILE…: with the last lines of the files in the same line, which summaries repeat.
wrong() { failed=$((failed + 1)) && echo "FAILED $1: $(tail -qn 5 "${@:2}" | tr '\n' '|')"; }
absent() {
    if [ -n "$require" ]; then wrong "$1: $2" /dev/null; else skipped=$((skipped + 1)) && echo "skipped $1: $2"; fi
}

# Servers run as an ordinary user: PostgreSQL demands it, and no test needs more.
user=$(id -un) as=(env)
if is_root; then
    user=$(getent passwd postgres >/dev/null && echo postgres || echo nobody)
    as=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env "HOME=$own")
fi
# serve NAME READY COMMAND…: starts a server, and waits until the command line READY succeeds.
serve() {
    "${as[@]}" "${@:3}" >"$log.$1" 2>&1 </dev/null &
    wait_for 30 eval "$2" || { tail -n 15 "$log.$1" >&2 && fail "$1 did not answer within 30 s" "see its log above"; }
    : >"$in/$1-runs"
}

names=(web.test git.test pypi.test npm.test crates.test goproxy.test db.test)
mkdir -m 755 "$in" "$own" "$www" "${names[@]/#/$www/}"
# Code of every tier builds here.
mkdir -m 777 "$work/out"
chmod 711 "$work"
cp "$here"/clients/{Get.java,get.go} "$in"
echo 'hello from outside' >"$www/web.test/hello"
{
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=clients.sh -keyout "$work/ca.key" -out "$in/ca.pem" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
    openssl req -newkey rsa:2048 -nodes -subj /CN=web.test -keyout "$own/web.pem" -out "$work/web.csr"
    openssl x509 -req -days 2 -in "$work/web.csr" -CA "$in/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -extfile <(
        echo "subjectAltName=$(printf ',DNS:%s' "${names[@]}" | cut -c 2-)"
        printf '%s\n' basicConstraints=CA:FALSE keyUsage=critical,digitalSignature extendedKeyUsage=serverAuth
    ) >>"$own/web.pem"
    ssh-keygen -q -t ed25519 -N '' -f "$own/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$in/key"
    git init -q "$own/repository"
    cp "$www/web.test/hello" "$own/repository"
    git -C "$own/repository" add hello
    git -C "$own/repository" -c user.name=test -c user.email=test@git.test commit -qm hello
    git clone -q --bare "$own/repository" "$www/git.test/repository.git"
    git -C "$www/git.test/repository.git" update-server-info
    [ ! -x "$venv/musl/bin/uv" ] || cp "$venv/musl/bin/uv" "$in"
} >"$log" 2>&1
chmod 644 "$in/key"
# Other users of this machine can connect, too. So the key may read the repository and nothing else.
echo "restrict,command=\"$(command -v git) upload-pack $www/git.test/repository.git\" $(cat "$in/key.pub")" >"$own/keys"
password=$(openssl rand -hex 16)
(umask 077 && echo "$password" >"$own/password" && echo "requirepass $password" >"$own/redis.conf")
! is_root || chown -R "$user:" "$own"

serve names-and-web "[ -e $www/ports ]" \
    /usr/bin/python3 "$here/clients/servers.py" "$www" "$own/web.pem" "$here/../sandbox-testing/src/registries"
# shellcheck disable=SC1091
. "$www/ports"
# The user nobody has no shell.
if command -v sshd >/dev/null && [ "$user" != nobody ]; then
    serve sshd "(exec 3<>/dev/tcp/127.0.0.1/${ssh_port:?})" "$(command -v sshd)" -D -e -f /dev/null -p "$ssh_port" \
        -h "$own/host_key" -o AuthorizedKeysFile="$own/keys" -o ListenAddress=127.0.0.1 -o PidFile=none \
        -o StrictModes=no -o UsePAM=no
    echo "[git.test]:$ssh_port $(cat "$own/host_key.pub")" >"$in/known_hosts"
fi
if [ -x "$postgres/initdb" ]; then
    "${as[@]}" timeout 60 "$postgres/initdb" -N -D "$own/postgres" -A scram-sha-256 -U test --pwfile "$own/password" \
        >"$log" 2>&1
    serve postgres "$postgres/pg_isready -h 127.0.0.1 -p ${postgres_port:?}" \
        "$postgres/postgres" -D "$own/postgres" -h 127.0.0.1 -p "$postgres_port" -k ''
fi
if command -v redis-server >/dev/null; then
    printf '%s\n' 'bind 127.0.0.1' "port ${redis_port:?}" 'save ""' >>"$own/redis.conf"
    serve redis "redis-cli -p $redis_port ping" redis-server "$own/redis.conf"
fi

tar -cf "$work/in.tar" -C "$in" .

preparing=''
# Compilers take minutes on a busy machine. Java reserves more than the default limit of memory, which counts what is
# reserved where there is no control group.
options=(--timeout 230s --memory 2GiB --allow-partial memory)
options+=(--env "PGPASSWORD=$password" --env "REDISCLI_AUTH=$password")
files=/t out=/out bring=: no_address='denied by the policy'
if [ "$tier" = k8s ]; then
    # A pod has no folder of this host, so the files are its input.
    files=/tmp/t out=/tmp/out bring='mkdir /tmp/t /tmp/out && tar -xC /tmp/t' && options+=(--interactive)
    # Nor does a pod tell of an address without a rule: its network has no route, and the client says so.
    no_address='nreachable|ENETUNREACH'
else
    options+=(--volume "$in:$files:ro" --volume "$work/out:$out")
fi
if [ "$tier" = local ]; then
    path=/usr/local/bin:/usr/bin:/bin
    for folder in "$venv" "$cache/node/node_modules" "$(rustc --print sysroot 2>/dev/null)"; do
        if [ -d "$folder" ]; then options+=(--read "$folder") && path=$folder/bin:$folder/.bin:$path; fi
    done
    options+=(--env "PATH=$path")
else
    options+=(--image "${3:-sandbox-test/languages:latest}")
fi

# inside RULE TRUST NEEDS COMMAND: runs both in a sandbox, where $host, $port, $at and $trust are set. Sets code to the
# exit code, and took to the milliseconds of COMMAND.
inside() {
    local script="$bring || exit; { $3; } >/dev/null 2>&1 </dev/null || { echo absent; exit; }; start=\$(date +%s%N)
        ($4) </dev/null; code=\$?; echo; echo \$(((\$(date +%s%N) - start) / 1000000)); exit \$code"
    script=${script//\/t\//$files/}
    timeout --kill-after=10 240 env SSL_CERT_FILE="$in/ca.pem" SANDBOX_NAME_SERVERS="127.0.0.1:${dns_port:?}" \
        "$sandbox" run --quiet --backend "$tier" "${options[@]}" --allow-host "$1" --env "host=$host" --env "port=$port" \
        --env "at=$host:$port" --env "trust=${2//\/t\//$files/}" -- sh -c "${script//\/out\//$out/}" <"$work/in.tar" \
        >"$work/stdout" 2>"$work/stderr" &
    code=0
    wait $! || code=$?
    took=$(tail -n 1 "$work/stdout")
    [ "$code" != 124 ] || echo "the sandbox did not end within 240 s" >>"$work/stderr"
}

# denied NAME WHY MOST RULE TRUST NEEDS COMMAND: COMMAND must fail within MOST milliseconds, and it or the sandbox must
# say WHY.
denied() {
    local try
    # A busy machine delays a program by seconds, but not each time.
    for try in 1 2 3; do
        inside "${@:4}"
        [ "${took:-0}" -gt "$3" ] 2>/dev/null || break
    done
    if [ "$(cat "$work/stdout")" = absent ]; then absent "$1" "missing in the sandbox: $6" && return; fi
    if [ "$code" != 0 ] && [[ $took =~ ^[0-9]+$ ]] && [ "$took" -le "$3" ] && grep -qE "$2" "$work"/std{out,err}; then
        ok "$1 ($took ms, try $try)"
    else
        wrong "$1: exit code $code after $took ms; expected a failure within $3 ms with '$2'" "$work"/std{out,err}
    fi
}

# client NAME NEEDS HOST:PORT LEVELS TRUST EXPECTED COMMAND: COMMAND prints EXPECTED at each of the LEVELS of rules. For a
# name and an address without a rule, it fails at most 2 s later than it would succeed. TRUST is $trust, by which the
# client trusts the authority; at level http the sandbox's own variables do that.
no_name='not resolve|unable to resolve|not known|bad address|no such host|ENOTFOUND|UnresolvedAddress'
client() {
    local rule trust=$5 level normal='' host=${3%:*} port=${3#*:}
    for level in $4; do
        [ "$level" != http ] || trust=''
        rule="$3 ${level/http/http GET} private"
        inside "$rule" "$trust" "$2" "$7"
        if [ "$(cat "$work/stdout")" = absent ]; then absent "$1" "missing in the sandbox: $2" && return; fi
        # The last line is the time.
        if [ "$code" = 0 ] && head -n -1 "$work/stdout" | grep -F "$6" >/dev/null &&
            ! grep -q 'denied by the policy' "$work/stderr"; then
            ok "$1, level $level ($took ms)"
        else
            wrong "$1, level $level: exit code $code; expected '$6'" "$work"/std{out,err}
        fi
        [[ $normal$took =~ ^[0-9]+$ ]] && normal=${normal:-$took}
    done
    rule="$3 ${4%% *} private"
    host=absent.test denied "$1, another name" "$no_name" $((normal + 2000)) "$rule" "$5" "$2" "$7"
    host=203.0.113.7 denied "$1, an address" "$no_address" $((normal + 2000)) "$rule" "$5" "$2" "$7"
}

web=web.test:${https_port:?} content='hello from outside' both='name http'
client curl 'command -v curl' "$web" "$both" '--cacert /t/ca.pem' "$content" 'curl -sS $trust https://$at/hello'
client wget 'command -v wget' "$web" "$both" '' "$content" \
    'wget -nv -O- --tries=1 --ca-certificate="${SSL_CERT_FILE:-/t/ca.pem}" https://$at/hello'
client 'busybox wget' 'command -v busybox' "web.test:${http_port:?}" name '' "$content" \
    'busybox wget -qO- http://$at/hello'
client 'Python urllib' 'command -v python3' "$web" "$both" SSL_CERT_FILE=/t/ca.pem "$content" \
    'env $trust python3 -c "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).read())" https://$at/hello'
client 'Python requests' 'python3 -c "import requests"' "$web" "$both" REQUESTS_CA_BUNDLE=/t/ca.pem "$content" \
    'env $trust python3 -c "import requests as r, sys; print(r.get(sys.argv[1]).text)" https://$at/hello'
client 'Python httpx' 'python3 -c "import httpx"' "$web" "$both" SSL_CERT_FILE=/t/ca.pem "$content" \
    'env $trust python3 -c "import httpx as h, sys; print(h.get(sys.argv[1]).text)" https://$at/hello'
client 'Node.js fetch' 'node -e fetch' "$web" "$both" NODE_EXTRA_CA_CERTS=/t/ca.pem "$content" \
    'env $trust node -e "fetch(process.argv[1]).then(r => r.text()).then(console.log)" https://$at/hello'
client Java 'command -v java && keytool -importcert -noprompt -file /t/ca.pem -keystore /tmp/ca -storepass changeit' \
    "$web" "$both" '-Djavax.net.ssl.trustStore=/tmp/ca -Djavax.net.ssl.trustStorePassword=changeit' "$content" \
    'java $trust /t/Get.java https://$at/hello'
for resolver in go cgo; do
    client "Go, GODEBUG=netdns=$resolver" '[ -x /out/get ] || CGO_ENABLED=1 go build -o /out/get /t/get.go' "$web" \
        "$both" SSL_CERT_FILE=/t/ca.pem "$content" "env \$trust GODEBUG=netdns=$resolver /out/get https://\$at/hello"
done

client pip 'python3 -m pip' "pypi.test:$https_port" "$both" '--cert /t/ca.pem' 1.0.0 \
    'python3 -m pip install -q --no-cache-dir --disable-pip-version-check --retries 1 $trust --target /tmp/p \
    -i https://$at/simple/ demo && PYTHONPATH=/tmp/p python3 -c "import demo; print(demo.version)"'
# The second is the static program.
for uv in uv /t/uv; do
    client "${uv/\/t\//static musl }" "command -v $uv && command -v python3" "pypi.test:$https_port" "$both" \
        SSL_CERT_FILE=/t/ca.pem 1.0.0 "env \$trust UV_HTTP_RETRIES=0 $uv pip install -q --no-cache --no-config \
        --python python3 --target /tmp/p --default-index https://\$at/simple/ demo &&
        PYTHONPATH=/tmp/p python3 -c 'import demo; print(demo.version)'"
done
client npm 'command -v npm' "npm.test:$https_port" "$both" --cafile=/t/ca.pem 1.0.0 \
    'npm install --no-audit --no-fund --no-update-notifier --fetch-retries=0 $trust --prefix /tmp/n \
    --registry https://$at/ demo@1.0.0 && node -p "require(\"/tmp/n/node_modules/demo\").version"'
# Older releases know no sparse registries.
client cargo 'cargo --version | grep -vE " 1\.([0-9]|[1-5].|6[0-7])\."' "crates.test:$https_port" "$both" \
    CARGO_HTTP_CAINFO=/t/ca.pem 1.0.0 \
    'export CARGO_HOME=/tmp/h && cargo new -q --vcs none /tmp/c && cd /tmp/c && echo "demo = \"=1.0.0\"" >>Cargo.toml &&
    env $trust cargo fetch --config net.retry=0 --config "source.crates-io.replace-with=\"test\"" \
    --config "source.test.registry=\"sparse+https://$at/index/\"" && cat /tmp/h/registry/src/*/demo-1.0.0/src/lib.rs'
client 'Go modules' 'command -v go' "goproxy.test:$https_port" "$both" SSL_CERT_FILE=/t/ca.pem v1.0.0 \
    'env $trust GOPATH=/tmp/g GOPROXY=https://$at GOSUMDB=off go mod download example.org/demo@v1.0.0 &&
    cat /tmp/g/pkg/mod/example.org/demo@v1.0.0/demo.go'
client 'git over HTTPS' 'command -v git' "git.test:$https_port" "$both" GIT_SSL_CAINFO=/t/ca.pem "$content" \
    'env $trust git clone -q https://$at/repository.git /tmp/r && cat /tmp/r/hello'
client 'git over SSH' 'command -v git && command -v ssh && [ -e /t/sshd-runs ]' "git.test:$ssh_port" tcp '' "$content" \
    "cp /t/key /tmp/key && chmod 600 /tmp/key &&
    GIT_SSH_COMMAND='ssh -i /tmp/key -o UserKnownHostsFile=/t/known_hosts' git clone -q ssh://$user@\$at/ /tmp/r &&
    cat /tmp/r/hello"
client psql 'command -v psql && [ -e /t/postgres-runs ]' "db.test:$postgres_port" tcp '' 42 \
    'psql -h $host -p $port -U test -Atc "select 6 * 7" postgres'
client redis-cli 'command -v redis-cli && [ -e /t/redis-runs ]' "db.test:$redis_port" tcp '' "$content" \
    "redis-cli -h \$host -p \$port set greeting '$content' && redis-cli -h \$host -p \$port get greeting"

host=web.test port=443
denied 'Python, UDP to port 443' ConnectionRefused 2000 web.test:443 '' 'command -v python3' 'python3 -c "import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(5)
udp.connect((sys.argv[1], 443))
udp.send(bytes(1))
udp.recv(1)" $host'
if grep -q absent "$log.names-and-web"; then
    wrong 'no question for a name without a rule leaves the sandbox' "$log.names-and-web"
else
    ok 'no question for a name without a rule leaves the sandbox'
fi

result=ok
[ "$failed" = 0 ] || result=FAILED
echo "test result: $result. $passed passed; $failed failed; $skipped ignored"
[ "$failed" = 0 ]
