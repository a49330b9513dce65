//! What a cluster is asked to do, and by whom.

use super::Operation::Cluster;
use super::Place::{ManyThreads, OneThread};
use super::Task::{Close, Crowd, Echo, Exec, OneShot, Open, Python};
use super::Way::{Api, Command, Library, Restricted};
use super::{Case, case};

/// A cluster's cases. A bare pod is one container without any restriction, and runs when the API server says so. What makes a pod begins
/// at any moment of a second: a kubelet looks at its containers once in each, and whoever always came right after would wait longest.
pub const CLUSTER: [Case; 14] = [
    case(
        "k8s-api-open",
        "k8s API: create, until it runs",
        Cluster(Api, Open),
        OneThread,
        10,
        None,
    ),
    case(
        "k8s-one-shot",
        "k8s, create to first output, and its end, in process",
        Cluster(Library, OneShot),
        OneThread,
        10,
        Some("k8s-api-open"),
    ),
    case(
        "k8s-restricted",
        "the same in the profile restricted",
        Cluster(Restricted, OneShot),
        OneThread,
        10,
        Some("k8s-api-open"),
    ),
    case(
        "k8s-open",
        "k8s, open",
        Cluster(Library, Open),
        OneThread,
        10,
        Some("k8s-api-open"),
    ),
    case(
        "k8s-command",
        "k8s, sandbox run -- true",
        Cluster(Command, OneShot),
        OneThread,
        10,
        Some("k8s-api-open"),
    ),
    case(
        "k8s-api-close",
        "k8s API: delete what runs",
        Cluster(Api, Close),
        OneThread,
        10,
        None,
    ),
    case(
        "k8s-close",
        "k8s, close",
        Cluster(Library, Close),
        OneThread,
        10,
        Some("k8s-api-close"),
    ),
    case(
        "k8s-api-exec",
        "k8s API: exec true, over a websocket",
        Cluster(Api, Exec),
        OneThread,
        5,
        None,
    ),
    case(
        "k8s-warm-exec",
        "k8s, warm exec",
        Cluster(Library, Exec),
        OneThread,
        1,
        Some("k8s-api-exec"),
    ),
    case(
        "k8s-echo",
        "k8s, a byte to cat and back",
        Cluster(Library, Echo),
        OneThread,
        4,
        None,
    ),
    case(
        "k8s-api-python",
        "k8s API: exec python3 print(1), over a websocket",
        Cluster(Api, Python),
        OneThread,
        10,
        None,
    ),
    case(
        "k8s-python",
        "k8s, warm print(1) in Python",
        Cluster(Library, Python),
        OneThread,
        2,
        Some("k8s-api-python"),
    ),
    case(
        "k8s-api-20",
        "k8s API, one of 20 at once",
        Cluster(Api, Crowd),
        ManyThreads,
        100,
        None,
    ),
    case(
        "k8s-20",
        "k8s, one of 20 at once",
        Cluster(Library, Crowd),
        ManyThreads,
        100,
        Some("k8s-api-20"),
    ),
];
