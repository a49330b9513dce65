//! The local Linux kernel as a sandbox backend.
