//! Finds, pulls, builds, commits, lists and removes images.

mod build;
mod classify;
mod commit;
mod credentials;
mod find;
mod list;
mod pipe;
mod pull;
mod pulled;
mod repack;
mod user_files;

pub(crate) use build::Build;
pub(crate) use commit::{Commit, SourceImage, source_of_container};
pub(crate) use find::{ImageFacts, RequestedImage, check_labels, find, sandbox_label};
pub(crate) use list::{images, info, remove, sweep};
pub(crate) use pull::Puller;
pub(crate) use pulled::PulledImages;
pub(crate) use user_files::UserFiles;
