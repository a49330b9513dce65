//! Sandboxes in containers that another program created.
//!
//! Most of what a policy demands was decided when such a container was created. These probes compare
//! what an adoption reports with what holds. The suite starts the containers itself; see
//! [`crate::foreign`].

use crate::probes::prelude::*;

mod confined;
mod leaves_nothing;
mod limits;
mod outcomes;
mod refused;

/// The probes of this area.
pub static PROBES: &[Probe] = &[
    Probe::behavior(
        "adoption::confined",
        ADOPTION,
        "attacks from the first execution of an adoption against each layer that its report names, \
         and from later ones, with input and on a terminal",
        |context| Box::pin(confined::run(context)),
    ),
    Probe::behavior(
        "adoption::leaves_nothing",
        ADOPTION,
        "ends adoptions while programs run, adopts the container again, and looks for files and \
         processes",
        |context| Box::pin(leaves_nothing::run(context)),
    ),
    Probe::behavior(
        "adoption::limits",
        ADOPTION,
        "exceeds each limit that no container needs to have for it",
        |context| Box::pin(limits::run(context)),
    ),
    Probe::behavior(
        "adoption::outcomes",
        ADOPTION,
        "ends programs by codes and signals, with and without a terminal, and compares what is told",
        |context| Box::pin(outcomes::run(context)),
    ),
    Probe::behavior(
        "adoption::refused",
        ADOPTION,
        "requires limits that the container does not have, and adopts a container with an added \
         capability",
        |context| Box::pin(refused::run(context)),
    ),
];
