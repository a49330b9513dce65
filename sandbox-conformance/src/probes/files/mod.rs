//! Files in and out.

use crate::probe::{Denial, Probe};

mod fetch_through_link;
mod large;
mod names;
mod put_over_reader;
mod put_through_link;
mod round_trip;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    fetch_through_link::PROBE,
    large::PROBE,
    names::PROBE,
    put_over_reader::PROBE,
    put_through_link::PROBE,
    round_trip::PROBE,
];

/// How a link that leads out of the sandbox is stopped where a file is put or fetched.
const NOT_FOLLOWED: &[Denial] = &[
    Denial {
        sign: "error:path",
        means: "the sandbox's own look at the path",
    },
    Denial {
        sign: "unreached",
        means: "the link leads nowhere in the sandbox",
    },
];
