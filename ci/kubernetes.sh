# A Kubernetes node of one's own: Kubernetes 1.20, built once from Debian 12's source package.
# shellcheck shell=bash
#
# The kubelet differs from the released one in two places: it reports the status of pods every 0.5 s
# instead of every 10 s, and gives no process a lower OOM score. The node's annotation
# sandbox.test/kubelet names both. Pods have no route out of the machine.

k8s_version=v1.20.2
k8s_changes=status-interval-0.5s,oom-score-0
k8s_cache=$cache/k8s
k8s_bin=$k8s_cache/bin
k8s_state=$state/k8s
k8s_run=/run/sandbox-k8s
k8s_socket=$k8s_run/containerd.sock
node=node1 bridge=k8s0 services=k8ssvc
node_address=10.244.0.1 service_range=10.96.0.0/16
api_port=16443 etcd_port=12379 kubelet_port=20250

# ---- Programs

# Each step leaves its result under its final name only when it is complete, so an interrupted build
# goes on where it stopped.
k8s_build() {
    local name
    if ! [ -x "$k8s_bin/hyperkube" ] || ! [ -x "$k8s_bin/kubectl" ] || ! [ -x "$k8s_bin/pause" ]; then
        mkdir -p "$k8s_bin" "$k8s_cache"/{new,src,apt/parts,apt/lists/partial}
        [ "$(df --output=avail -k "$k8s_cache" | tail -n 1)" -gt 3000000 ] ||
            fail "$k8s_cache has no 3 GB of free space" "make room, or set SANDBOX_CACHE"
        install go=golang-go dpkg-source=dpkg-dev gcc=gcc /usr/include/stdio.h=libc6-dev
        [ -x "$k8s_bin/kubectl" ] || k8s_fetch_kubectl
        local source=$k8s_cache/gopath/src/k8s.io/kubernetes
        [ -d "$source/cmd/hyperkube" ] || k8s_fetch_source "$source"
        [ -x "$k8s_bin/pause" ] || k8s_keep pause gcc -Os -static -s -DVERSION=sandbox "$source/build/pause/linux/pause.c" -o
        [ -x "$k8s_bin/hyperkube" ] || k8s_compile "$source"
        rm -rf "$k8s_cache"/{gopath,gocache,apt,new}
    fi
    for name in kube-apiserver kube-controller-manager kube-scheduler kubelet; do ln -sfn hyperkube "$k8s_bin/$name"; done
    [ -e "$k8s_cache/images/pause.tar" ] || k8s_pause_image
    "$here/images.sh" archives >/dev/null
}

# k8s_keep NAME COMMAND…: runs the command with a new file as its last argument, then keeps the file.
k8s_keep() {
    local name=$1
    shift
    "$@" "$k8s_cache/new/$name" >&2
    sync "$k8s_cache/new/$name"
    mv "$k8s_cache/new/$name" "$k8s_bin/$name"
}

# apt with sources of its own, which need not be those of the machine.
k8s_apt() {
    local lists=$k8s_cache/apt
    local options=(-q -o "Dir::Etc::sourcelist=$lists/sources.list" -o "Dir::Etc::sourceparts=$lists/parts"
        -o "Dir::State::lists=$lists/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any -o Acquire::Retries=3)
    if [ ! -e "$lists/updated" ]; then
        debian_sources deb-src >"$lists/sources.list"
        apt-get "${options[@]}" update >&2 || fail "the Debian mirror does not answer" "see apt's message above, or set KUBECONFIG"
        touch "$lists/updated"
    fi
    apt-get "${options[@]}" "$@" >&2
}

k8s_fetch_kubectl() {
    local folder=$k8s_cache/new/client
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && k8s_apt download kubernetes-client && dpkg-deb -x ./*.deb .)
    k8s_keep kubectl cp "$folder/usr/bin/kubectl"
}

k8s_fetch_source() {
    local source=$1 unpacked=$k8s_cache/src/kubernetes
    say "fetching and unpacking the source"
    (cd "$k8s_cache/src" && k8s_apt source --download-only kubernetes && rm -rf kubernetes &&
        dpkg-source --extract kubernetes_*.dsc kubernetes >&2)
    ls "$k8s_cache"/src/kubernetes_*"${k8s_version#v}"-*.dsc >/dev/null ||
        fail "Debian's source package is not $k8s_version" "change k8s_version in ci/kubernetes.sh, or set KUBECONFIG"
    k8s_change "$unpacked/pkg/kubelet/qos/policy.go" "return guaranteedOOMScoreAdj" "return 0"
    k8s_change "$unpacked/pkg/kubelet/status/status_manager.go" "syncPeriod = 10 \* time.Second" "syncPeriod = 500 * time.Millisecond"
    mkdir -p "$unpacked/cmd/hyperkube" "$(dirname "$source")"
    cp "$here/hyperkube.go" "$unpacked/cmd/hyperkube/main.go"
    mv "$unpacked" "$source"
}

# k8s_change FILE OLD NEW
k8s_change() {
    grep -q "$2" "$1" || fail "$1 does not contain '$2'" "see which version of Kubernetes this is"
    sed -i "s/$2/$3/" "$1"
}

k8s_compile() {
    local source=$1 generated=pkg/generated/openapi/zz_generated.openapi.go flags="-s -w" package
    # As Debian builds it: with modules, Go 1.17 and newer refuse the vendored packages.
    export GO111MODULE=off GOPATH=$k8s_cache/gopath GOCACHE=$k8s_cache/gocache CGO_ENABLED=0 GOFLAGS=
    # With 6 GB of free memory, collecting garbage less often takes a fifth of the time off.
    [ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -lt 6291456 ] || export GOGC=400
    cd "$source" || exit
    if [ ! -e "$generated" ]; then
        say "generating the description of the API"
        go build -o "$k8s_cache/new/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen >&2
        go list -deps -tags providerless,dockerless ./cmd/kube-apiserver | sed -n 's,^k8s.io/kubernetes/,,p' |
            while read -r package; do
                ! grep -qs '^// *+k8s:openapi-gen=' "$package"/*.go || echo "k8s.io/kubernetes/$package"
            done | sort -u | paste -sd, >"$k8s_cache/new/packages"
        "$k8s_cache/new/openapi-gen" --logtostderr -i "$(cat "$k8s_cache/new/packages")" -O zz_generated.openapi \
            -p k8s.io/kubernetes/pkg/generated/openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
            --output-base "$k8s_cache/new" -r "$k8s_cache/new/violations" >&2
        mv "$k8s_cache/new/k8s.io/kubernetes/$generated" "$generated"
    fi
    for package in client-go/pkg component-base; do
        package=k8s.io/kubernetes/vendor/k8s.io/$package/version
        flags+=" -X $package.gitVersion=$k8s_version -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=archive"
    done
    say "compiling; this takes six minutes of processor time"
    go_build() {
        go build -tags providerless,dockerless -gcflags=k8s.io/kubernetes/...=-dwarf=false -ldflags "$flags" -o "$1" ./cmd/hyperkube
    }
    k8s_keep hyperkube go_build
    cd "$here" || exit
}

k8s_pause_image() {
    local folder
    mkdir -p "$k8s_cache/images"
    folder=$(mktemp -d)
    tar --owner=0 --group=0 -C "$k8s_bin" -cf "$folder/layer.tar" pause
    printf '%s\n' 'ENTRYPOINT ["/pause"]' "USER 65535:65535" |
        "$here/node-image.py" "$folder/layer.tar" "$k8s_cache/images/pause.tar" localhost/pause:3.2
    rm -rf "$folder"
}

# ---- Configuration

k8s_certificates() {
    local pki=$k8s_state/pki user
    [ ! -e "$pki/done" ] || return 0
    say "making certificates in $pki"
    mkdir -p "$pki"
    (
        umask 077 && cd "$pki" || exit
        key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
        # sign NAME SUBJECT [NAMES]
        sign() {
            key "$1"
            openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
            printf '%s\n' keyUsage=critical,digitalSignature extendedKeyUsage=serverAuth,clientAuth ${3:+"subjectAltName=$3"} >"$1.ext"
            openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
        }
        local cluster=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
        key ca
        openssl req -x509 -new -key ca.key -subj /CN=sandbox-test-ca -days 3650 -out ca.crt \
            -addext keyUsage=critical,keyCertSign,digitalSignature
        sign apiserver /CN=kube-apiserver "DNS:localhost,$cluster,IP:127.0.0.1,IP:$node_address,IP:${service_range%.0/16}.1"
        sign kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
        sign admin /O=system:masters/CN=admin
        sign kubelet "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$node_address,IP:127.0.0.1"
        sign kube-controller-manager /CN=system:kube-controller-manager
        sign kube-scheduler /CN=system:kube-scheduler
        key sa
        openssl ec -in sa.key -pubout -out sa.pub 2>/dev/null
        for user in admin kubelet kube-controller-manager kube-scheduler; do
            cat >"$k8s_state/$user.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: sandbox, cluster: {server: "https://127.0.0.1:$api_port", certificate-authority: $pki/ca.crt}}]
users: [{name: $user, user: {client-certificate: $pki/$user.crt, client-key: $pki/$user.key}}]
contexts: [{name: sandbox, context: {cluster: sandbox, user: $user}}]
current-context: sandbox
K
        done
        touch done
    )
}

k8s_configure() {
    local conf=$k8s_state/conf data=$k8s_state/data
    mkdir -p "$conf/cni" "$data" "$k8s_state/log" "$k8s_run"
    chmod 700 "$data"
    cat >"$conf/cni/10-bridge.conflist" <<C
{"cniVersion": "0.3.1", "name": "sandbox", "plugins": [
 {"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$data/addresses", "ranges": [[{"subnet": "${node_address%.1}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
C
    # restrict_oom_score_adj: root without CAP_SYS_RESOURCE cannot lower the OOM score of a process.
    # netns_mounts_under_state_dir: so that `down` finds all mounts of this runtime.
    cat >"$conf/containerd.toml" <<C
version = 2
root = "$data/containerd"
state = "$k8s_run/containerd"
[grpc]
  address = "$k8s_socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$data/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:3.2"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$conf/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
C
    # Kubelets from 1.22 on allow net.ipv4.ip_unprivileged_port_start by themselves.
    # Images come from archives alone, so none is ever collected. The rules that makeIPTablesUtilChains
    # would make serve no purpose here, and would stay when the node is gone.
    cat >"$conf/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_address
port: $kubelet_port
readOnlyPort: 0
healthzPort: $((kubelet_port + 1))
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $k8s_state/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $k8s_state/pki/kubelet.crt
tlsPrivateKeyFile: $k8s_state/pki/kubelet.key
cgroupDriver: cgroupfs
cgroupRoot: /
failSwapOn: false
podPidsLimit: 1024
makeIPTablesUtilChains: false
resolvConf: /dev/null
clusterDomain: cluster.local
hairpinMode: none
serializeImagePulls: false
allowedUnsafeSysctls: [net.ipv4.ip_unprivileged_port_start]
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMinimumGCAge: 8760h
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, nodefs.inodesFree: "1%", imagefs.available: 1Gi}
eventRecordQPS: 0
kubeAPIQPS: 100
kubeAPIBurst: 200
registryPullQPS: 0
maxPods: 110
oomScoreAdj: 0
featureGates: {SizeMemoryBackedVolumes: true}
nodeStatusUpdateFrequency: 2s
volumeStatsAggPeriod: 10s
containerLogMaxSize: 50Mi
C
}

# Pods reach each other and the node. Service addresses lead to an interface without any other end,
# because nothing translates them and they must not leave by the machine's own interface.
k8s_rules() {
    local rule
    for rule in "FORWARD ! -o $bridge -i $bridge -j REJECT" "FORWARD -i $bridge -o $bridge -j ACCEPT"; do
        # shellcheck disable=SC2086
        case $1 in
            add) iptables -w -C $rule 2>/dev/null || iptables -w -I $rule ;;
            remove) iptables -w -D $rule 2>/dev/null || true ;;
        esac
    done
}

k8s_network() {
    local name
    for name in "$bridge" "$services"; do
        ip link show "$name" >/dev/null 2>&1 || ip link add "$name" type bridge
        ip link set "$name" up
    done
    # A bridge without an address of its own takes that of a port, a new one with each pod. Pods that
    # remember the old one would reach nothing for up to a minute.
    ip link set "$bridge" address 0a:58:0a:f4:00:01
    ip addr replace "$node_address/24" dev "$bridge"
    ip route replace "$service_range" dev "$services"
    echo 1 >/proc/sys/net/ipv4/ip_forward
    k8s_rules add
}

# ---- Daemons

# The programs look at the variable first; a request must not wait for a cluster that is gone.
k8s_ctl() { KUBECONFIG=$k8s_state/admin.kubeconfig "$k8s_bin/kubectl" --request-timeout=5s "$@"; }
k8s_ctr() { ctr -a "$k8s_socket" -n k8s.io "$@"; }
listens() { (exec 3<>"/dev/tcp/$1/$2"); }

containerd_answers() { ctr -a "$k8s_socket" version; }
etcd_answers() { listens 127.0.0.1 "$etcd_port"; }
apiserver_answers() { k8s_ctl get --raw /readyz; }
manager_answers() { k8s_ctl -n default get serviceaccount default; }
# The API server believes for a while in a node that is gone.
kubelet_answers() {
    listens "$node_address" "$kubelet_port" &&
        [ "$(k8s_ctl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

# k8s_start NAME READY COMMAND…: as start, unless the daemon runs and answers.
k8s_start() {
    local name=$1 ready=$2
    shift 2
    if daemon "k8s-$name" >/dev/null; then
        if wait_for 30 "$ready"; then return; fi
        say "$name runs and does not answer: starting it again"
        stop "k8s-$name"
    fi
    start "k8s-$name" "$k8s_state/log/$name.log" "$ready" "$@"
    case $name in etcd | kube-apiserver)
        # Tests fill all processors. A real control plane does not share them with its pods.
        echo -10 2>/dev/null >"/proc/$(daemon "k8s-$name")/autogroup" || say "$name has the priority of its pods" ;;
    esac
}

# Gives the node the test images that it lacks, or has of an older recipe.
k8s_import_images() {
    local image present names
    present=$(k8s_ctr images ls -q)
    for image in "$k8s_cache/images/pause.tar" $("$here/images.sh" archives); do
        # All names of an image stand in its manifest.
        # Not as one pipe: grep ends at the first missing name, and the writer's error would count as "none is missing".
        names=$(tar -xOf "$image" manifest.json | python3 -c 'import json, sys; print(*json.load(sys.stdin)[0]["RepoTags"], sep="\n")')
        if grep -qvxFf <(echo "$present") <<<"$names"; then
            k8s_ctr images import "$image" >/dev/null
        fi
    done
}

k8s_start_all() {
    local pki=$k8s_state/pki data=$k8s_state/data
    k8s_start containerd containerd_answers containerd --config "$k8s_state/conf/containerd.toml"
    k8s_import_images
    mkdir -p "$data/etcd"
    # etcd writes each change to the disk; a memory file system makes that fast.
    mountpoint -q "$data/etcd" || mount -t tmpfs -o size=1g,mode=700 sandbox-etcd "$data/etcd"
    local clients=http://127.0.0.1:$etcd_port peers=http://127.0.0.1:$((etcd_port + 1))
    k8s_start etcd etcd_answers etcd --name=sandbox "--data-dir=$data/etcd/data" "--listen-client-urls=$clients" \
        "--advertise-client-urls=$clients" "--listen-peer-urls=$peers" "--initial-advertise-peer-urls=$peers" \
        "--initial-cluster=sandbox=$peers" --logger=zap
    # Pods reach the API server at the node's address: a sandbox that does is a finding of the suite.
    local apiserver=("--etcd-servers=http://127.0.0.1:$etcd_port" --bind-address=0.0.0.0 "--advertise-address=$node_address"
        "--secure-port=$api_port" "--tls-cert-file=$pki/apiserver.crt" "--tls-private-key-file=$pki/apiserver.key"
        "--client-ca-file=$pki/ca.crt" "--cert-dir=$pki/" "--kubelet-certificate-authority=$pki/ca.crt"
        "--kubelet-client-certificate=$pki/kubelet-client.crt" "--kubelet-client-key=$pki/kubelet-client.key"
        --kubelet-preferred-address-types=InternalIP --service-account-issuer=https://kubernetes.default.svc
        "--service-account-key-file=$pki/sa.pub" "--service-account-signing-key-file=$pki/sa.key"
        "--service-cluster-ip-range=$service_range" "--authorization-mode=Node,RBAC"
        --enable-admission-plugins=NodeRestriction --anonymous-auth=false --allow-privileged=true --profiling=false --event-ttl=1h)
    # Tests start servers of their own on the same state.
    python3 -c 'import json, sys; print(json.dumps({"program": sys.argv[1], "arguments": sys.argv[2:]}, indent=2))' \
        "$k8s_bin/kube-apiserver" "${apiserver[@]}" >"$k8s_state/api-server.json"
    k8s_start kube-apiserver apiserver_answers "$k8s_bin/kube-apiserver" "${apiserver[@]}"
    local common=(--leader-elect=false --bind-address=127.0.0.1 --port=0 "--cert-dir=$pki/" --profiling=false)
    k8s_start kube-controller-manager manager_answers "$k8s_bin/kube-controller-manager" "${common[@]}" --secure-port=20257 \
        "--kubeconfig=$k8s_state/kube-controller-manager.kubeconfig" --use-service-account-credentials=true \
        "--service-account-private-key-file=$pki/sa.key" "--root-ca-file=$pki/ca.crt" \
        --node-monitor-grace-period=60s --terminated-pod-gc-threshold=200
    k8s_start kube-scheduler true "$k8s_bin/kube-scheduler" "${common[@]}" --secure-port=20259 \
        "--kubeconfig=$k8s_state/kube-scheduler.kubeconfig"
    k8s_start kubelet kubelet_answers "$k8s_bin/kubelet" "--config=$k8s_state/conf/kubelet.yaml" \
        "--kubeconfig=$k8s_state/kubelet.kubeconfig" "--hostname-override=$node" "--node-ip=$node_address" \
        "--root-dir=$data/kubelet" "--cert-dir=$pki/" --container-runtime=remote "--container-runtime-endpoint=unix://$k8s_socket" \
        "--image-service-endpoint=unix://$k8s_socket" "--containerd=$k8s_socket"
    k8s_ctl annotate node "$node" --overwrite "sandbox.test/kubelet=$k8s_changes" >/dev/null
}

# Whether KUBECONFIG names a cluster that these scripts have not started.
k8s_is_foreign() { [ -n "${KUBECONFIG:-}" ] && [ "$KUBECONFIG" != "$k8s_state/admin.kubeconfig" ]; }

k8s_up() {
    local name
    if k8s_is_foreign; then return; fi
    is_root || fail "only root can start a node" "set KUBECONFIG to the configuration of a cluster"
    install containerd=containerd runc=runc etcd=etcd-server /usr/lib/cni/bridge=containernetworking-plugins \
        iptables=iptables conntrack=conntrack socat=socat ip=iproute2 openssl=openssl
    k8s_build
    for name in k8s-containerd k8s-etcd; do
        if [ -e "$state/$name.json" ] && ! daemon "$name" >/dev/null; then
            say "$name of the earlier cluster has ended: making the cluster anew"
            k8s_down
            # The runtime still lists containers whose processes are gone.
            rm -rf "$k8s_state/data/containerd"
            break
        fi
    done
    k8s_certificates
    k8s_configure
    k8s_network
    k8s_start_all
}

k8s_status() {
    local config=$k8s_state/admin.kubeconfig origin="started by ci/engines.sh" kubectl=$k8s_bin/kubectl version nodes
    if k8s_is_foreign; then config=$KUBECONFIG origin="named by KUBECONFIG"; fi
    [ -x "$kubectl" ] || kubectl=$(command -v kubectl) || kubectl=false
    if [ ! -e "$config" ] || ! version=$("$kubectl" --kubeconfig "$config" --request-timeout=5s get --raw /version 2>&1); then
        echo "k8s: not found: no cluster answers at $config; fix: cargo xtask engines up k8s, or set KUBECONFIG"
        return 1
    fi
    version=$(sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p' <<<"$version")
    nodes=$("$kubectl" --kubeconfig "$config" --request-timeout=5s get nodes -o \
        'jsonpath={range .items[*]}{.metadata.name} with Linux {.status.nodeInfo.kernelVersion} and {.status.nodeInfo.containerRuntimeVersion}; {end}' \
        2>/dev/null) || nodes="nodes that this account may not list; "
    echo "k8s: $version, ${nodes}$origin; KUBECONFIG=$config"
}

# ---- End

# Ends the node's processes, and removes its mounts, interfaces, rules, control groups and the files of
# its pods. Certificates, images and the runtime's layers stay for the next start.
k8s_down() {
    local data=$k8s_state/data name pod mount container folders=()
    if [ -x "$k8s_bin/kubectl" ] && daemon k8s-kubelet >/dev/null; then
        mapfile -t folders < <(k8s_ctl get pods -A -o \
            'jsonpath={range .items[*]}{.metadata.namespace}_{.metadata.name}_{.metadata.uid}{"\n"}{end}' 2>/dev/null)
        # A pod that is removed at once is forgotten before its kubelet has ended it and freed its address.
        k8s_ctl delete pods --all -A --wait=false --grace-period=1 >/dev/null 2>&1 || true
        wait_for 10 eval '[ -z "$(k8s_ctl get pods -A -o name)" ]' || say "some pods end with their processes"
    fi
    stop k8s-kubelet
    if [ -S "$k8s_socket" ]; then
        for container in $(k8s_ctr tasks ls -q 2>/dev/null); do k8s_ctr tasks rm -f "$container" >/dev/null 2>&1 || true; done
        for container in $(k8s_ctr containers ls -q 2>/dev/null); do k8s_ctr containers rm "$container" >/dev/null 2>&1 || true; done
    fi
    for name in k8s-kube-scheduler k8s-kube-controller-manager k8s-kube-apiserver k8s-etcd k8s-containerd; do stop "$name"; done
    # Helpers of this runtime: their arguments name its socket.
    for pod in /proc/[0-9]*; do
        case $(tr '\0' ' ' 2>/dev/null <"$pod/cmdline") in
            *containerd-shim-runc-v2*" $k8s_socket "*) kill -KILL "${pod#/proc/}" 2>/dev/null || true ;;
        esac
    done
    awk -v a="$k8s_state/" -v b="$k8s_run/" 'index($5, a) == 1 || index($5, b) == 1 { print $5 }' /proc/self/mountinfo |
        sort -r | while read -r mount; do umount -l "$mount"; done
    # The logs of these pods, and of those whose folders the kubelet still has.
    for name in "${folders[@]}"; do rm -rf "/var/log/pods/${name:?}"; done
    for name in "$data"/kubelet/pods/*/; do
        pod=$(basename "$name")
        [ ! -d "$name" ] || rm -rf /var/log/pods/*_"${pod:?}"
    done
    find /var/log/containers -xtype l -lname '/var/log/pods/*' -delete 2>/dev/null || true
    for name in /var/lib/cni/results/sandbox-*-eth0; do
        pod=${name##*/sandbox-}
        rm -f "$name" "/var/lib/cni/results/cni-loopback-${pod%-eth0}-lo"
    done
    rm -rf "${data:?}"/{addresses,etcd,kubelet} "$k8s_run"
    if command -v iptables ip >/dev/null; then
        k8s_rules remove
        for name in "$services" "$bridge"; do ip link del "$name" 2>/dev/null || true; done
    fi
    for name in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods; do
        [ ! -d "$name" ] || find "$name" -depth -type d -exec rmdir {} + || say "$name is still in use"
    done
}
