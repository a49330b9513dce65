//! The host's end of the connections of code.
//!
//! The agent gives code an address for each name that a rule allows, and turns each connection into
//! a stream to the host, with the name and the port. [`Egress`] does the rest. For one sandbox:
//!
//! 1. Create one [`Egress`] with the plan's rules and ceiling, and keep it as long as the sandbox.
//! 2. For each stream, call [`Egress::carry`] in a task of its own. It decides by the rules in force
//!    now, resolves the name once, dials only addresses that it judged, and copies. What the agent
//!    says is checked again: code can control the agent, and gains nothing by it.
//! 3. When it returns, drop the stream: end it properly after [`EndReason::Finished`], and reset it
//!    otherwise. Report [`CarryEnd::Denied`] by [`ConnectionDenial::to_denial`].
//! 4. [`Egress::set`] replaces the rules while the sandbox runs.
//!
//! At level `name`, the first request of a connection is checked. A server that routes by the name
//! of a host may still reach its other names in a later request. [`gaps`] says what rules leave open.
//! At level `http`, which is a feature of this package, this host ends TLS and reads every request.

mod dial;
mod end;
mod first_flight;
mod hello;
#[cfg(feature = "http")]
mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
mod http;
mod limits;
mod live;
mod name_servers;
mod options;
mod own_addresses;
mod relay;
mod report;
mod request;
mod resolver;
mod target;
mod wildcard;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sandbox_core::policy::{
    EgressRules, EgressTarget, IpNetwork, NetworkPolicy, NetworkRule, RuleLevel,
};
use sandbox_core::spi::{PlaceholderSecret, TrustedCertificates};
use sandbox_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

pub use end::{Carried, CarryEnd, CarryEvent, ConnectionDenial, EndReason};
pub use name_servers::{NAME_SERVERS, NameServers};
pub use options::{EgressConfig, EgressOptions};
pub use report::{gaps, with_rules};
pub use resolver::{HostsResolver, Resolver, SystemResolver};
pub use target::{CodeTarget, TargetHost};

use end::HttpEnd;
use first_flight::{FirstFlight, Mismatch};
use http::Terminator;
use live::{Live, Refused, Ticket};
use relay::{Buffers, Counts, RelayEnd, Traffic};
use report::NO_HTTP;

/// Whether this build has the feature `http`, so that rules at level `http` can be enforced.
pub const ENDS_TLS: bool = cfg!(feature = "http");

/// What a sandbox with rules has as `/etc/resolv.conf`: its agent is the name server, at
/// [`sandbox_agent::protocol::NAME_SERVER`].
pub const RESOLV_CONF: &str = "nameserver 198.18.0.1\n";

/// What a container with rules has as `/etc/hosts`: its own names alone. The agent answers for all
/// others.
pub const HOSTS: &str =
    "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback sandbox\n";

/// How long a client may take to read why it was refused.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(1);

/// How this host finds out which networks are its own.
type OwnNetworks = fn() -> io::Result<Vec<IpNetwork>>;

/// A connection at level `http` that is about to be carried.
#[cfg_attr(not(feature = "http"), expect(dead_code))]
struct HttpConnection<'a> {
    target: &'a CodeTarget,
    /// The name that the rules have allowed.
    name: &'a str,
    ticket: &'a Ticket<'a>,
    counts: &'a Counts<'a>,
    /// What was read from code already.
    first: Vec<u8>,
}

/// The connections of one sandbox.
///
/// ```no_run
/// use sandbox_core::policy::{EgressRules, NetworkPolicy};
/// use sandbox_host::egress::{CarryEnd, CodeTarget, Egress, TargetHost};
///
/// # async fn example(stream: tokio::io::DuplexStream) -> sandbox_core::Result<()> {
/// let rules = EgressRules::parse(["example.org:443"])?;
/// let ceiling = NetworkPolicy::Allow(rules.rules().to_vec());
/// let egress = Egress::new(rules, ceiling);
/// let target = CodeTarget { host: TargetHost::Name("example.org".into()), port: 443 };
/// match egress.carry(target, stream, |_event| {}).await {
///     CarryEnd::Denied(denial) => println!("{}", denial.to_denial()),
///     end => println!("{end:?}"),
/// }
/// egress.set(EgressRules::default()).await?;
/// # Ok(())
/// # }
/// ```
pub struct Egress {
    live: Live,
    /// The most that the rules can be.
    ceiling: NetworkPolicy,
    dialing: Semaphore,
    buffers: Buffers,
    traffic: Traffic,
    resolver: Arc<dyn Resolver>,
    own_networks: OwnNetworks,
    /// Where a rule may be at level `http`.
    terminator: Option<Terminator>,
}

impl Egress {
    /// The connections of a sandbox with these rules. [`Egress::set`] can change them within
    /// `ceiling`.
    #[must_use]
    pub fn new(rules: EgressRules, ceiling: NetworkPolicy) -> Arc<Self> {
        Self::with_options(rules, ceiling, EgressOptions::default())
    }

    /// The same with other ways to servers.
    #[must_use]
    pub fn with_options(
        rules: EgressRules,
        ceiling: NetworkPolicy,
        options: EgressOptions,
    ) -> Arc<Self> {
        let allowed = match &ceiling {
            NetworkPolicy::Allow(allowed) => allowed.as_slice(),
            _ => &[],
        };
        let mut possible = rules.rules().iter().chain(allowed);
        let terminator = match possible.any(NetworkRule::reads_requests) {
            true => Terminator::new(options.certificates),
            false => None,
        };
        Arc::new(Self {
            live: Live::new(rules),
            ceiling,
            dialing: Semaphore::new(limits::MAX_DIALING),
            buffers: Buffers::default(),
            traffic: Traffic::default(),
            resolver: options.resolver,
            own_networks: own_addresses::own_networks,
            terminator,
        })
    }

    /// How many bytes all connections have sent and received.
    pub(crate) fn carried(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.traffic.sent), count(&self.traffic.received))
    }

    /// The certificates that code must trust, if a rule may be at level `http`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if this host cannot make a key.
    pub async fn trusted_certificates(&self) -> Result<Option<TrustedCertificates>> {
        match &self.terminator {
            Some(terminator) => terminator.trusted().await.map(Some),
            None => Ok(None),
        }
    }

    /// Makes a text that stands for a secret in requests at level `http`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if no rule at this level allows one of its hosts.
    pub fn add_placeholder(&self, secret: PlaceholderSecret) -> Result<String> {
        let rules = self.live.rules();
        // The rule that checks the least applies.
        let is_read = |host: &NetworkRule| {
            let mut levels = rules.allowing().filter(|rule| rule.overlaps(host));
            levels.next().is_some_and(NetworkRule::reads_requests)
                && levels.all(NetworkRule::reads_requests)
        };
        match &self.terminator {
            Some(terminator) if secret.hosts.iter().all(is_read) => {
                terminator.add_placeholder(secret)
            }
            _ => Err(no_level_http(&secret)),
        }
    }

    /// Forgets a secret.
    pub fn remove_placeholder(&self, text: &str) {
        if let Some(terminator) = &self.terminator {
            terminator.remove_placeholder(text);
        }
    }

    /// The rules in force.
    #[must_use]
    pub fn rules(&self) -> EgressRules {
        self.live.rules()
    }

    /// How often the rules were replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.live.generation()
    }

    /// The number of open connections.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.live.open()
    }

    /// Replaces the rules at once for every new connection. Resets each open connection that the
    /// new rules do not allow as it is, and returns when these have ended: each task of
    /// [`Egress::carry`] must be polled. The others live on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PolicyExceeded`] for rules that allow more than the ceiling, and
    /// [`ErrorKind::InvalidPolicy`] for rules that only deny. Nothing is changed then.
    pub async fn set(&self, rules: EgressRules) -> Result<()> {
        rules.validate()?;
        let narrowed = self.ceiling.narrowed(&rules).map_err(|excess| {
            let context = format!("egress: asked for {excess}");
            Error::new(ErrorKind::PolicyExceeded, "change egress rules", context)
                .with_fix("ask for less, or have the operator raise the policy")
        })?;
        let rules = match narrowed {
            NetworkPolicy::Allow(rules) => EgressRules::new(rules),
            // Nothing was asked for.
            _ => EgressRules::default(),
        };
        if self.terminator.is_none() && rules.rules().iter().any(NetworkRule::reads_requests) {
            let context = "egress: code has no certificate for level http";
            return Err(
                Error::new(ErrorKind::Unsupported, "change egress rules", context).with_fix(
                    "create the sandbox with a rule at level http, or under a policy that has one",
                ),
            );
        }
        self.live.replace(rules).await;
        Ok(())
    }

    /// Carries one connection of code until both directions ended. `told` is called with what
    /// happens until then.
    ///
    /// A client that is refused by its first request gets an answer in its own protocol: a TLS
    /// alert, or HTTP status 403 with the reason. Dropping the future ends the connection.
    pub async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        target: CodeTarget,
        mut stream: S,
        mut told: impl FnMut(CarryEvent) + Send,
    ) -> CarryEnd {
        let denied = |why: String| CarryEnd::Denied(ConnectionDenial::new(&target, why, None));
        let checked = match target.checked() {
            Ok(checked) => checked,
            Err(why) => return denied(why),
        };
        let ticket = match self.live.enter(&checked, target.port) {
            Ok(ticket) => ticket,
            Err(refused) => return refused.into_end(&target),
        };
        let mut first = Vec::new();
        let checked_name = match (ticket.level, &checked) {
            (RuleLevel::Name | RuleLevel::Http, EgressTarget::Name(name)) => Some(name.as_str()),
            _ => None,
        };
        if let Some(name) = checked_name {
            let reading = first_flight::read(&mut stream, &mut first, name, target.port);
            let read = tokio::select! {
                read = reading => read,
                () = ticket.revoked() => return denied_by_revocation(&target, &ticket),
            };
            match read {
                Ok(FirstFlight::Matches) => {}
                Ok(FirstFlight::Closed) | Err(_) => return CarryEnd::Closed,
                Ok(FirstFlight::Refused(why)) => {
                    let rule = Some(ticket.rule.clone());
                    let denial = ConnectionDenial::new(&target, why.to_string(), rule);
                    return answer(&mut stream, &first, denial).await;
                }
            }
        }
        let connecting = self.connect(&checked, &target, &ticket);
        let end = tokio::select! {
            end = connecting => end,
            () = ticket.revoked() => return denied_by_revocation(&target, &ticket),
        };
        let (mut server, address) = match end {
            Ok(server) => server,
            Err(CarryEnd::Denied(denial)) => return answer(&mut stream, &first, denial).await,
            Err(end) => return end,
        };
        // A server must not take what it has for the whole. So a connection that ends before its
        // time is reset, also if this future is dropped or this process is killed. A failure only
        // means that the server learns that there is no more.
        let _ = server.set_zero_linger();
        ticket.connected(address.ip());
        told(CarryEvent::Connected(address));
        let counts = Counts::new(&self.traffic);
        let relaying = async {
            let (Some(name), RuleLevel::Http) = (checked_name, ticket.level) else {
                let buffers = &self.buffers;
                return match relay::relay(&mut stream, &mut server, first, &counts, buffers).await {
                    RelayEnd::Finished => Ok(EndReason::Finished),
                    RelayEnd::Reset => Ok(EndReason::Reset),
                    RelayEnd::Idle => Ok(EndReason::Idle),
                };
            };
            let Some(terminator) = &self.terminator else {
                return Err(io::Error::other(NO_HTTP));
            };
            let connection = HttpConnection {
                target: &target,
                name,
                ticket: &ticket,
                counts: &counts,
                first,
            };
            tokio::select! {
                end = terminator.carry(connection, &mut stream, &mut server, told) => match end {
                    HttpEnd::Finished => Ok(EndReason::Finished),
                    HttpEnd::Reset => Ok(EndReason::Reset),
                    HttpEnd::NoServer(error) => Err(error),
                },
                () = counts.idle() => Ok(EndReason::Idle),
            }
        };
        let reason = tokio::select! {
            end = relaying => end,
            () = ticket.revoked() => Ok(EndReason::Revoked),
        };
        let reason = match reason {
            Ok(reason) => reason,
            Err(error) => return CarryEnd::Unreachable(error),
        };
        if reason == EndReason::Finished {
            // Both directions were closed in order; a reset would drop what the server has not read.
            let _ = rustix::net::sockopt::set_socket_linger(&server, None);
        }
        CarryEnd::Carried(Carried {
            address,
            rule: ticket.rule.clone(),
            sent: counts.sent.get(),
            received: counts.received.get(),
            reason,
        })
    }

    /// Connects to one of the target's addresses that the rules allow.
    async fn connect(
        &self,
        checked: &EgressTarget,
        target: &CodeTarget,
        ticket: &Ticket<'_>,
    ) -> Result<(TcpStream, SocketAddr), CarryEnd> {
        // It is never closed.
        let _turn = self.dialing.acquire().await;
        let connecting = async {
            ticket
                .take_name(checked)
                .map_err(|refused| refused.into_end(target))?;
            let addresses = match checked {
                EgressTarget::Address(address) => vec![SocketAddr::new(*address, target.port)],
                EgressTarget::Name(name) => {
                    let resolved = self.resolver.resolve(name.as_str(), target.port).await;
                    let mut addresses = resolved.map_err(CarryEnd::Unreachable)?;
                    for address in &mut addresses {
                        address.set_port(target.port);
                    }
                    resolver::in_turn(addresses)
                }
            };
            // Off this thread: a router's tables are long.
            let own = tokio::task::spawn_blocking(self.own_networks).await;
            let own = own.map_err(io::Error::other).flatten();
            let own = own.map_err(CarryEnd::Unreachable)?;
            let judged = ticket.judge(checked, &addresses, &own);
            let judged = judged.map_err(|refused| refused.into_end(target))?;
            dial::dial(&judged).await.map_err(CarryEnd::Unreachable)
        };
        match tokio::time::timeout(limits::DIAL_TIME_LIMIT, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(CarryEnd::Unreachable(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Why a secret cannot be put into requests.
pub(crate) fn no_level_http(secret: &PlaceholderSecret) -> Error {
    let hosts: Vec<String> = secret.hosts.iter().map(ToString::to_string).collect();
    let context = format!(
        "secret {:?}: {} must be allowed by egress rules at level http, and by no others",
        secret.name,
        hosts.join(", ")
    );
    Error::new(ErrorKind::InvalidRequest, "execute", context)
        .with_fix("write a rule like: api.example.org:443 http")
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress")
            .field("rules", &self.rules())
            .field("open", &self.open_connections())
            .finish_non_exhaustive()
    }
}

impl Refused {
    fn into_end(self, target: &CodeTarget) -> CarryEnd {
        CarryEnd::Denied(self.into_denial(target))
    }

    fn into_denial(self, target: &CodeTarget) -> ConnectionDenial {
        let denial = |why: String, rule| ConnectionDenial::new(target, why, rule);
        match self {
            Self::Rules(denial) => ConnectionDenial::of_rules(target, &denial),
            Self::Wildcard(rule, why) => denial(why.to_string(), Some(rule)),
            Self::OwnAddress(rule, address) => denial(own_address(address), Some(rule)),
            Self::TooManyConnections => denial(
                format!(
                    "a sandbox has at most {} connections",
                    limits::MAX_CONNECTIONS
                ),
                None,
            ),
        }
    }
}

fn own_address(address: IpAddr) -> String {
    format!("{address} is this host itself, and the rule does not say `private`")
}

fn denied_by_revocation(target: &CodeTarget, ticket: &Ticket<'_>) -> CarryEnd {
    let why = "its rule was revoked";
    CarryEnd::Denied(ConnectionDenial::new(
        target,
        why,
        Some(ticket.rule.clone()),
    ))
}

/// Tells the client why, in the protocol of its first request.
async fn answer(
    stream: &mut (impl AsyncWrite + Unpin),
    first: &[u8],
    denial: ConnectionDenial,
) -> CarryEnd {
    let target = match denial.host.contains(':') {
        true => format!("[{}]:{}", denial.host, denial.port),
        false => format!("{}:{}", denial.host, denial.port),
    };
    let why = format!("a connection to {target} was denied: {}", denial.why);
    let bytes = Mismatch::answer(first, &sandbox_core::spi::escape(&why));
    if !bytes.is_empty() {
        let answering = async {
            stream.write_all(&bytes).await?;
            stream.shutdown().await
        };
        // A client that does not read it is denied all the same.
        let _ = tokio::time::timeout(ANSWER_TIME_LIMIT, answering).await;
    }
    CarryEnd::Denied(denial)
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
