//! Connections out of the sandbox: which names and addresses code can connect to, and the first
//! message of a connection's stream.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{MessageReader, MessageWriter, ProtocolError, connection::read_port};

/// The agent's stream numbers have this bit, and the host's do not.
pub const AGENT_STREAMS: u32 = 1 << 31;

/// Maximum number of rules of a table.
pub const MAX_EGRESS_RULES: usize = 4096;

/// The address of the sandbox's name server. The addresses of names follow it.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpRange {
    /// The first address. The bits after the prefix do not count.
    pub address: IpAddr,
    /// The number of first bits, at most the address's.
    pub prefix: u8,
}

impl IpRange {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, other, bits) = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u128::from(own.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let behind = bits - u32::from(self.prefix).min(bits);
        // No bit is compared with a prefix of 0.
        (own ^ other).checked_shr(behind).unwrap_or(0) == 0
    }

    /// Whether it is one address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.prefix == if self.address.is_ipv4() { 32 } else { 128 }
    }

    pub(super) fn write(&self, message: &mut MessageWriter) {
        write_address(self.address, message);
        message.u8(self.prefix);
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Self, ProtocolError> {
        let address = read_address(reader)?;
        let prefix = reader.u8()?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } {
            return Err(ProtocolError::BadValue("prefix"));
        }
        Ok(Self { address, prefix })
    }
}

/// The destinations of a rule. Names are in lower case, without a dot at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressHost {
    /// One name.
    Name(Vec<u8>),
    /// All names with labels before this suffix.
    Suffix(Vec<u8>),
    /// Addresses.
    Range(IpRange),
}

/// A rule, as far as the agent needs it. The host decides about each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRule {
    /// Whether it denies. Such a rule wins over each that allows.
    pub denies: bool,
    /// Its destinations.
    pub host: EgressHost,
    /// Its ports. A rule that denies and has none denies all ports.
    pub ports: Vec<u16>,
}

/// The rules of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressTable {
    /// The rules.
    pub rules: Vec<EgressRule>,
}

impl EgressTable {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        self.write(&mut message);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let table = Self::read(&mut reader)?;
        reader.end()?;
        Ok(table)
    }

    pub(super) fn write(&self, message: &mut MessageWriter) {
        message.list(&self.rules, |message, rule| {
            message.bool(rule.denies);
            match &rule.host {
                EgressHost::Name(name) => {
                    message.u8(0).bytes(name);
                }
                EgressHost::Suffix(name) => {
                    message.u8(1).bytes(name);
                }
                EgressHost::Range(range) => {
                    message.u8(2);
                    range.write(message);
                }
            }
            message.list(&rule.ports, |message, port| {
                message.u16(*port);
            });
        });
    }

    pub(super) fn read(reader: &mut MessageReader<'_>) -> Result<Self, ProtocolError> {
        let rules = reader.list(|reader| {
            let denies = reader.bool()?;
            let host = match reader.u8()? {
                0 => EgressHost::Name(reader.bytes()?.to_vec()),
                1 => EgressHost::Suffix(reader.bytes()?.to_vec()),
                2 => EgressHost::Range(IpRange::read(reader)?),
                _ => return Err(ProtocolError::BadValue("kind of a destination")),
            };
            Ok(EgressRule {
                denies,
                host,
                ports: reader.list(read_port)?,
            })
        })?;
        if rules.len() > MAX_EGRESS_RULES {
            return Err(ProtocolError::TooLarge("list of rules"));
        }
        Ok(Self { rules })
    }
}

/// What code connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectTarget {
    /// A name, in lower case.
    Name(Vec<u8>),
    /// An address that code wrote itself.
    Address(IpAddr),
}

/// The agent's first message of a stream that it opens: code has connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The destination.
    pub target: ConnectTarget,
    /// The port.
    pub port: u16,
}

impl ConnectRequest {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = MessageWriter::new();
        match &self.target {
            ConnectTarget::Name(name) => {
                message.u8(0).bytes(name);
            }
            ConnectTarget::Address(address) => {
                message.u8(1);
                write_address(*address, &mut message);
            }
        }
        message.u16(self.port);
        message.finish()
    }

    /// Decodes the message.
    ///
    /// # Errors
    ///
    /// When fields are missing, out of range or left over.
    pub fn decode(message: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = MessageReader::new(message);
        let target = match reader.u8()? {
            0 => ConnectTarget::Name(reader.bytes()?.to_vec()),
            1 => ConnectTarget::Address(read_address(&mut reader)?),
            _ => return Err(ProtocolError::BadValue("kind of a destination")),
        };
        let port = read_port(&mut reader)?;
        reader.end()?;
        Ok(Self { target, port })
    }
}

fn write_address(address: IpAddr, message: &mut MessageWriter) {
    match address {
        IpAddr::V4(address) => message.bytes(&address.octets()),
        IpAddr::V6(address) => message.bytes(&address.octets()),
    };
}

fn read_address(reader: &mut MessageReader<'_>) -> Result<IpAddr, ProtocolError> {
    let bytes = reader.bytes()?;
    let four = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    let sixteen = || <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into());
    four.or_else(|_| sixteen())
        .map_err(|_| ProtocolError::BadValue("address"))
}
