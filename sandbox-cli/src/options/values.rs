//! Values of options.

use std::ffi::OsStr;
use std::time::Duration;

use sandbox::policy::{Preset, Requirement};
use sandbox::{ByteSize, Capability, Cpus, PullPolicy};

use crate::command_error::CommandError;

pub fn bytes(text: &str) -> Result<ByteSize, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

pub fn cpus(text: &str) -> Result<Cpus, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

pub fn capability(text: &str) -> Result<Capability, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

pub fn package(text: &str) -> Result<Requirement, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

pub fn preset(text: &str) -> Result<Preset, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

pub fn pull_policy(text: &str) -> Result<PullPolicy, String> {
    text.parse()
        .map_err(|error: sandbox::Error| error.context().to_owned())
}

/// A number of seconds, or text with units.
pub fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .or_else(|| humantime::parse_duration(text).ok())
        .ok_or_else(|| "write 30, 30s or 1m30s".to_owned())
}

/// `NAME=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// A value that names something inside of the sandbox.
pub fn text(option: &str, value: &OsStr) -> Result<String, CommandError> {
    value.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::argument(format!("{option} {value:?}: this value must be UTF-8"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_and_without_units() {
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for bad in ["", "-1", "soon", "NaN", "inf"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }
}
