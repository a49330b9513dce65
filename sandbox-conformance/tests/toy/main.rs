//! Compiles the backend of docs/add-a-backend.md and runs the suite on it.

mod backend;
mod instance;

use std::sync::Arc;

sandbox_conformance::trials!(Arc::new(backend::ToyBackend));
