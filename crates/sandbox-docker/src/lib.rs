//! Docker as a sandbox backend.
