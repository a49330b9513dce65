//! The scan, on code of every language.

mod document;
mod hostile;
mod languages;
mod patterns;
mod python;
mod run_code;
