//! Name servers that an operator chose.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use async_trait::async_trait;
use sandbox_core::{Error, ErrorKind, Result};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Resolver;

/// The environment variable with the servers: addresses with or without a port, separated by commas.
pub const NAME_SERVERS: &str = "SANDBOX_NAME_SERVERS";

/// The port of a server that is given without one, by RFC 1035.
const PORT: u16 = 53;

/// How long one server may take. Dialing has 10 s for all of them.
const SERVER_TIME_LIMIT: Duration = Duration::from_secs(4);

/// Asks these servers over TCP, which RFC 7766 demands of every server: no answer is cut, and none
/// can be forged from elsewhere. They replace the host's resolver with its `/etc/hosts` and search
/// list.
///
/// ```
/// use sandbox_host::egress::NameServers;
///
/// let servers = NameServers::parse("192.0.2.53, [2001:db8::53]:5353")?;
/// assert_eq!(servers.addresses()[0].port(), 53);
/// # Ok::<(), sandbox_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameServers(Vec<SocketAddr>);

impl NameServers {
    /// The servers of [`NAME_SERVERS`] in this process; `None` without them.
    ///
    /// # Errors
    ///
    /// As [`NameServers::parse`].
    pub fn from_environment() -> Result<Option<Self>> {
        match std::env::var_os(NAME_SERVERS) {
            Some(list) if !list.is_empty() => Self::parse(&list.to_string_lossy()).map(Some),
            _ => Ok(None),
        }
    }

    /// The servers of a list separated by commas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSpec`] if one is no address.
    pub fn parse(list: &str) -> Result<Self> {
        let address = |text: &str| {
            let text = text.trim();
            let with_port = || Some(SocketAddr::new(text.parse().ok()?, PORT));
            text.parse().ok().or_else(with_port).ok_or_else(|| {
                let context = format!("{NAME_SERVERS}: {text:?} is not the address of a server");
                Error::new(ErrorKind::InvalidSpec, "choose name servers", context).with_fix(
                    "write addresses with or without a port: 192.0.2.53,[2001:db8::53]:5353",
                )
            })
        };
        list.split(',')
            .map(address)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Their addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

#[async_trait]
impl Resolver for NameServers {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let with_port = |address| SocketAddr::new(address, port);
        if let Ok(address) = name.parse() {
            return Ok(vec![with_port(address)]);
        }
        // No server is asked for these, by RFC 6761.
        if name == "localhost" || name.ends_with(".localhost") {
            let own = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(own.map(with_port).into());
        }
        let mut failure = io::Error::other("no name server is known");
        for server in &self.0 {
            match tokio::time::timeout(SERVER_TIME_LIMIT, ask(*server, name)).await {
                Ok(Ok(found)) => return Ok(found.into_iter().map(with_port).collect()),
                // The name does not exist, so another server would not know it either.
                Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Ok(Err(error)) => failure = failed(*server, error),
                Err(_) => failure = failed(*server, io::ErrorKind::TimedOut.into()),
            }
        }
        Err(failure)
    }
}

fn failed(server: SocketAddr, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("name server {server}: {error}"))
}

/// The addresses of a name, those of IPv4 first: a host without IPv6 loses no time.
async fn ask(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    let mut stream = TcpStream::connect(server).await?;
    let kinds = [(1, TYPE::A), (2, TYPE::AAAA)];
    let mut questions = Vec::new();
    for (id, kind) in kinds {
        let question = question(id, name, kind).map_err(io::Error::other)?;
        questions.extend(
            u16::try_from(question.len())
                .map_err(io::Error::other)?
                .to_be_bytes(),
        );
        questions.extend(question);
    }
    stream.write_all(&questions).await?;
    // A server may answer them in any order.
    let mut found = [Vec::new(), Vec::new()];
    let mut missing = [true; 2];
    while missing != [false; 2] {
        let mut answer = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut answer).await?;
        let answer = Packet::parse(&answer).map_err(io::Error::other)?;
        let place = kinds.iter().position(|(id, _)| *id == answer.id());
        let place = place.filter(|place| missing[*place] && answer.has_flags(PacketFlag::RESPONSE));
        let place = place.ok_or_else(|| io::Error::other("it answered another question"))?;
        missing[place] = false;
        found[place] = addresses(name, &answer)?;
    }
    match found.concat() {
        found if found.is_empty() => Err(no_address(name)),
        found => Ok(found),
    }
}

fn question(id: u16, name: &str, kind: TYPE) -> simple_dns::Result<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Question::new(Name::new(name)?, kind.into(), CLASS::IN.into(), false);
    packet.questions.push(question);
    packet.build_bytes_vec()
}

/// The addresses of an answer, also those at the end of a chain of aliases.
fn addresses(name: &str, answer: &Packet<'_>) -> io::Result<Vec<IpAddr>> {
    match answer.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Err(no_address(name)),
        other => return Err(io::Error::other(format!("it answers {other:?}"))),
    }
    let address = |data: &RData<'_>| match data {
        RData::A(a) => Some(Ipv4Addr::from(a.address).into()),
        RData::AAAA(aaaa) => Some(Ipv6Addr::from(aaaa.address).into()),
        _ => None,
    };
    Ok(answer
        .answers
        .iter()
        .filter_map(|record| address(&record.rdata))
        .collect())
}

fn no_address(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"))
}

#[cfg(test)]
mod tests {
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA, CNAME};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each question by `answer`, last question first.
    async fn server(answer: fn(&Question<'_>) -> Result<Vec<RData<'static>>, RCODE>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut peer, _)) = listener.accept().await {
                let mut replies = Vec::new();
                for _ in 0..2 {
                    let mut asked = vec![0; peer.read_u16().await.unwrap().into()];
                    peer.read_exact(&mut asked).await.unwrap();
                    let mut reply = Packet::parse(&asked).unwrap().into_reply();
                    match answer(&reply.questions[0]) {
                        Ok(records) => {
                            let name = reply.questions[0].qname.clone();
                            let record =
                                |data| ResourceRecord::new(name.clone(), CLASS::IN, 60, data);
                            reply.answers = records.into_iter().map(record).collect();
                        }
                        Err(code) => *reply.rcode_mut() = code,
                    }
                    replies.push(reply.build_bytes_vec().unwrap());
                }
                for reply in replies.iter().rev() {
                    peer.write_u16(reply.len().try_into().unwrap())
                        .await
                        .unwrap();
                    peer.write_all(reply).await.unwrap();
                }
            }
        });
        address
    }

    fn is(question: &Question<'_>, kind: TYPE) -> bool {
        question.qtype == kind.into()
    }

    async fn two_addresses() -> SocketAddr {
        server(|question| {
            Ok(match is(question, TYPE::A) {
                true => vec![
                    RData::CNAME(CNAME(Name::new_unchecked("alias.test"))),
                    RData::A(A {
                        address: 0xcb00_7107,
                    }),
                ],
                false => vec![RData::AAAA(AAAA { address: 1 })],
            })
        })
        .await
    }

    async fn refusing() -> SocketAddr {
        server(|_| Err(RCODE::ServerFailure)).await
    }

    #[tokio::test]
    async fn both_families_and_aliases_are_found() {
        let servers = NameServers(vec![two_addresses().await]);
        let found = servers.resolve("example.org", 443).await.unwrap();
        let expected = ["203.0.113.7:443", "[::1]:443"];
        assert_eq!(found, expected.map(|address| address.parse().unwrap()));
    }

    #[tokio::test]
    async fn next_server_is_asked_after_one_that_fails() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = unused.local_addr().unwrap();
        drop(unused);
        let servers = NameServers(vec![closed, refusing().await, two_addresses().await]);
        assert_eq!(servers.resolve("example.org", 1).await.unwrap().len(), 2);
        let servers = NameServers(vec![refusing().await]);
        let error = servers.resolve("example.org", 1).await.unwrap_err();
        assert!(
            error.to_string().ends_with("it answers ServerFailure"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn name_that_does_not_exist_has_no_address_anywhere() {
        let unknown = server(|_| Err(RCODE::NameError)).await;
        let empty = server(|_| Ok(Vec::new())).await;
        for first in [unknown, empty] {
            let servers = NameServers(vec![first, two_addresses().await]);
            let error = servers.resolve("example.org", 1).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
    }

    #[tokio::test]
    async fn own_names_and_addresses_are_not_asked_for() {
        let servers = NameServers(vec![refusing().await]);
        let own = servers.resolve("a.localhost", 80).await.unwrap();
        assert!(own.iter().all(|address| address.ip().is_loopback()));
        assert_eq!(
            servers.resolve("203.0.113.7", 80).await.unwrap(),
            ["203.0.113.7:80".parse().unwrap()]
        );
    }

    #[test]
    fn servers_are_addresses() {
        let parsed = NameServers::parse("192.0.2.1:54,2001:db8::1").unwrap();
        assert_eq!(parsed.0[0], "192.0.2.1:54".parse().unwrap());
        assert_eq!(parsed.0[1], "[2001:db8::1]:53".parse().unwrap());
        for bad in ["dns.example.org", "192.0.2.1,", "192.0.2.1:port"] {
            let error = NameServers::parse(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidSpec);
            assert!(error.context().starts_with(NAME_SERVERS), "{error}");
        }
    }
}
