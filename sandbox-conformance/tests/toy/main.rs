//! The backend of docs/add-a-backend.md: compiled, and put through the suite.

mod backend;
mod instance;

use std::sync::Arc;

sandbox_conformance::trials!(Arc::new(backend::ToyBackend));
