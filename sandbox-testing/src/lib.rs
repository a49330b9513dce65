//! Tests and fixtures that several packages of this workspace share.
//!
//! A backend's test program hands a description of itself to the functions here and gets its tests
//! as libtest-mimic trials:
//!
//! - `contract`: tests that every backend passes (feature `contract`).
//! - `engine`: tests of a backend on a running engine with Docker's API (feature `engine`).
//! - `faults`: tests that start their own engine and kill it (feature `engine`).
//! - `programs`: programs of each language, for a sandbox that the caller makes (feature `sessions`).
//! - `sessions`: tests of sessions in a sandbox that the caller makes (feature `sessions`).
//!
//! The other modules are fixtures.

#[cfg(feature = "contract")]
pub mod contract;
#[cfg(feature = "engine")]
pub mod engine;
pub mod engine_api;
pub mod fault_proxy;
#[cfg(feature = "engine")]
pub mod faults;
#[cfg(feature = "contract")]
pub mod owner;
pub mod package_index;
pub mod pip;
pub mod processes;
#[cfg(feature = "sessions")]
pub mod programs;
pub mod registries;
pub mod requirements;
#[cfg(feature = "sessions")]
pub mod sessions;
#[cfg(feature = "trials")]
pub mod trials;
pub mod users;
pub mod wait;
