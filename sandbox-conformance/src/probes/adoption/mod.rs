//! Sandboxes in containers that another program created.
//!
//! Most of what a policy demands was decided when such a container was created. These probes compare
//! what an adoption reports with what holds. The suite starts the containers itself; see
//! [`crate::foreign`].

use sandbox_core::{Capability, ErrorKind};

use crate::probes::prelude::*;

mod confined;
mod holes;
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
    // Podman names some of these only through the kernel.
    Probe::behavior(
        "adoption::holes",
        ADOPTION,
        "adopts containers with an opened restriction each, under a policy that requires what it \
         opens",
        |context| Box::pin(holes::run(context)),
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
        "requires limits that the container does not have, another image and a closed network, and \
         asks for what only a new sandbox can have",
        |context| Box::pin(refused::run(context)),
    )
    .version(2),
];

/// Why this is no refusal of the capability.
fn taken<T>(adopted: sandbox_core::Result<T>, capability: Capability) -> Option<String> {
    let answer = match adopted {
        Ok(_) => "adopted".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotEnforceable => {
            let mut unmet = error.unmet().iter();
            let named = unmet.any(|unmet| unmet.demand.capability == capability);
            if named {
                return None;
            }
            error.to_string()
        }
        Err(error) => error.to_string(),
    };
    Some(format!("a demand of {capability}: {answer}"))
}
