//! Reads rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::{Destination, HostName, IpNetwork, NetworkRule, RequestFilter, RuleLevel};
use crate::{Error, ErrorKind, Result};

/// The longest rule in bytes.
const MAX_LENGTH: usize = 512;

/// Why text is not a rule, and what to write instead.
struct Problem {
    why: String,
    fix: Option<&'static str>,
}

impl From<&str> for Problem {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self { why, fix: None }
    }
}

impl FromStr for NetworkRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > MAX_LENGTH {
            let context = format!("a rule has at most {MAX_LENGTH} bytes, not {}", text.len());
            return Err(Error::new(
                ErrorKind::InvalidPolicy,
                "read network rule",
                context,
            ));
        }
        rule(text).map_err(|Problem { why, fix }| {
            let context = format!("{text:?}: {why}");
            let error = Error::new(ErrorKind::InvalidPolicy, "read network rule", context);
            match fix {
                Some(fix) => error.with_fix(fix),
                None => error,
            }
        })
    }
}

fn rule(text: &str) -> Result<NetworkRule, Problem> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let (denies, place) = match first.strip_prefix('!') {
        Some(place) => (true, place),
        None => (false, first),
    };
    let (destination, port) = destination_and_port(place)?;
    let mut level = None;
    let mut private = false;
    let mut requests = RequestFilter::default();
    for word in words {
        if denies {
            return Err("a rule that denies has no words after the destination".into());
        }
        let is_repeated = match word {
            "tcp" => level.replace(RuleLevel::Tcp).is_some(),
            "name" => level.replace(RuleLevel::Name).is_some(),
            "private" => std::mem::replace(&mut private, true),
            "http" => level.replace(RuleLevel::Http).is_some(),
            path if level == Some(RuleLevel::Http) && path.starts_with('/') => {
                requests.add_path(path)?;
                false
            }
            methods
                if level == Some(RuleLevel::Http)
                    && methods.starts_with(|c: char| c.is_ascii_uppercase()) =>
            {
                requests.add_methods(methods)?;
                false
            }
            other => {
                return Err(format!(
                    "{other:?} is none of the words tcp, name, http and private; methods and paths \
                     follow http"
                )
                .into());
            }
        };
        if is_repeated {
            return Err("a rule has one level, and private once".into());
        }
    }
    if let (Some(level @ (RuleLevel::Name | RuleLevel::Http)), Destination::Network(_)) =
        (level, &destination)
    {
        return Err(format!("an address has no name to check; leave out {level}").into());
    }
    let mut rule = NetworkRule {
        denies,
        destination,
        port,
        level: None,
        private,
        requests: Some(Box::new(requests)).filter(|requests| !requests.is_empty()),
    };
    rule.set_level(level);
    Ok(rule)
}

fn destination_and_port(place: &str) -> Result<(Destination, Option<u16>), Problem> {
    if let Some(rest) = place.strip_prefix('[') {
        let Some((address, rest)) = rest.split_once(']') else {
            return Err("an IPv6 address ends with ]".into());
        };
        let address = ipv6(address)?;
        return match rest.strip_prefix('/') {
            Some(rest) => prefix_and_port(address.into(), rest),
            None => Ok((
                Destination::Network(IpNetwork::single(address.into())),
                port(rest)?,
            )),
        };
    }
    if let Some((address, rest)) = place.split_once('/') {
        if address.parse::<Ipv6Addr>().is_ok() {
            return prefix_and_port(ipv6(address)?.into(), rest);
        }
        let address = address.parse::<Ipv4Addr>().map_err(|_| {
            "a host name has no / in it, and no scheme or path around it; a network is written \
             203.0.113.0/24 or [2001:db8::]/32"
        })?;
        return prefix_and_port(address.into(), rest);
    }
    if place.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("write an IPv6 address in brackets: [{place}]").into());
    }
    let (host, rest) = place.split_at(place.find(':').unwrap_or(place.len()));
    let port = port(rest)?;
    let destination = match (host.parse::<Ipv4Addr>(), host.strip_prefix("*.")) {
        (Ok(address), _) => Destination::Network(IpNetwork::single(address.into())),
        (_, Some(suffix)) => Destination::Suffix(HostName::new(suffix)?),
        _ => Destination::Name(HostName::new(host)?),
    };
    Ok((destination, port))
}

/// An IPv6 address that is not a spelling of an IPv4 address.
fn ipv6(text: &str) -> Result<Ipv6Addr, Problem> {
    let address = text
        .parse::<Ipv6Addr>()
        .map_err(|_| format!("{text:?} is not an IPv6 address"))?;
    match address.to_ipv4_mapped() {
        Some(mapped) => Err(format!("write {mapped} for this address").into()),
        None => Ok(address),
    }
}

fn prefix_and_port(address: IpAddr, rest: &str) -> Result<(Destination, Option<u16>), Problem> {
    let (prefix, rest) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    let bits = number::<u8>(prefix).ok_or("write the length of the prefix as a number after /")?;
    let network = IpNetwork::new(address, bits).ok_or_else(|| {
        format!(
            "{address}/{bits} is not a network: the prefix is too long, or bits behind it are set"
        )
    })?;
    Ok((Destination::Network(network), port(rest)?))
}

/// The port in `:PORT`, or none in an empty text.
fn port(text: &str) -> Result<Option<u16>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let port = text.strip_prefix(':').and_then(number::<u16>);
    match port {
        Some(port) if port != 0 => Ok(Some(port)),
        _ => Err("the port is 1 to 65535".into()),
    }
}

/// A number of decimal digits alone: `parse` also accepts a sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_decimal = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| is_decimal)
}
