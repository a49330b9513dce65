//! Finds, pulls, builds, commits, lists and removes images.

mod brought;
mod build;
mod classify;
mod commit;
mod credentials;
mod find;
mod pipe;
mod pull;
mod repack;
mod stock;

pub(crate) use brought::Brought;
pub(crate) use build::Build;
pub(crate) use commit::{Commit, Source, of_container};
pub(crate) use find::{ImageFacts, Wanted, check_labels, find, sandbox_label};
pub(crate) use pull::Puller;
pub(crate) use stock::{images, info, remove, sweep};
