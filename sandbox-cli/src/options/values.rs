//! Values of options.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sandbox::policy::{NetworkRule, Preset, Requirement};
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
    text.parse().map_err(|error: sandbox::Error| {
        let fix = error.fix().map(|fix| format!("; {fix}"));
        format!("{}{}", error.context(), fix.unwrap_or_default())
    })
}

pub fn network_rule(text: &str) -> Result<NetworkRule, String> {
    NetworkRule::try_from(text.to_owned())
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

/// A port of the host that leads to a port of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Where to listen on the host.
    pub host: SocketAddr,
    /// The port inside.
    pub port: u16,
}

/// `[HOST_IP:]HOST:GUEST`.
pub fn published(text: &str) -> Result<Published, String> {
    let parsed = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host.parse() {
            Ok(number) => SocketAddr::from((Ipv4Addr::LOCALHOST, number)),
            Err(_) => host.parse().ok()?,
        };
        Some(Published { host, port })
    });
    parsed.ok_or_else(|| "write HOST:GUEST or IP:HOST:GUEST, such as 8080:80".to_owned())
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

    #[test]
    fn published_ports_are_on_the_loopback_unless_an_address_is_given() {
        let parsed = |text| published(text).map(|ports| (ports.host.to_string(), ports.port));
        assert_eq!(parsed("8080:80"), Ok(("127.0.0.1:8080".into(), 80)));
        assert_eq!(parsed("0:80"), Ok(("127.0.0.1:0".into(), 80)));
        assert_eq!(parsed("0.0.0.0:1:2"), Ok(("0.0.0.0:1".into(), 2)));
        assert_eq!(parsed("[::1]:1:2"), Ok(("[::1]:1".into(), 2)));
        for bad in [
            "", "80", ":80", "80:", "80:0", "80:65536", "x:1:2", "::1:1:2", "1:2/udp",
        ] {
            assert!(published(bad).is_err(), "{bad:?}");
        }
    }
}
