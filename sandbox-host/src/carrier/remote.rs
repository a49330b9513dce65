//! Asks the carrier of a detached sandbox, which is another process.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use sandbox_core::policy::EgressRules;
use sandbox_core::spi::{EgressTraffic, PlaceholderSecret};
use sandbox_core::{Denials, Error, ErrorKind, Result};
use tokio::io::BufReader;
use tokio::net::UnixStream;

use super::claim::CarrierFiles;
use super::messages::{self, CarrierAnswer, CarrierRequest, OPERATION};
use crate::lock;

/// How long the carrier may take to answer. Executions wait for it, so a stopped carrier must not
/// delay them for long.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(2);

/// How long it may take to change the rules: until the connections that they revoke have ended.
const CHANGE_TIME_LIMIT: Duration = Duration::from_secs(30);

/// The carrier of a detached sandbox, as far as there is one.
pub(crate) struct RemoteCarrier {
    files: CarrierFiles,
    /// The connections that keep placeholders, by their texts.
    placeholders: Mutex<HashMap<String, UnixStream>>,
}

impl RemoteCarrier {
    pub(crate) fn new(files: CarrierFiles) -> Self {
        let placeholders = Mutex::default();
        Self {
            files,
            placeholders,
        }
    }

    pub(crate) fn files(&self) -> &CarrierFiles {
        &self.files
    }

    /// The rules in force.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotCarried`] without a carrier, as for all of these.
    pub(crate) async fn rules(&self) -> Result<EgressRules> {
        match self.ask(&CarrierRequest::Rules).await? {
            (CarrierAnswer::Rules { rules }, _) => messages::rules(&rules),
            _ => Err(misunderstood()),
        }
    }

    pub(crate) async fn set(&self, rules: &EgressRules) -> Result<()> {
        let rules = messages::texts(rules);
        match self.ask(&CarrierRequest::SetRules { rules }).await? {
            (CarrierAnswer::Set, _) => Ok(()),
            _ => Err(misunderstood()),
        }
    }

    pub(crate) async fn traffic(&self) -> Result<EgressTraffic> {
        match self.ask(&CarrierRequest::Traffic).await? {
            (CarrierAnswer::Traffic(traffic), _) => Ok(traffic),
            _ => Err(misunderstood()),
        }
    }

    pub(crate) async fn take_denials(&self) -> Result<Denials> {
        match self.ask(&CarrierRequest::TakeDenials).await? {
            (CarrierAnswer::Denials(denials), _) => Ok(denials),
            _ => Err(misunderstood()),
        }
    }

    pub(crate) async fn add_placeholder(&self, secret: PlaceholderSecret) -> Result<String> {
        let request = CarrierRequest::AddPlaceholder {
            name: secret.name,
            value: secret.value.expose().to_vec(),
            hosts: secret.hosts.iter().map(ToString::to_string).collect(),
        };
        match self.ask(&request).await? {
            (CarrierAnswer::Placeholder { text }, connection) => {
                lock(&self.placeholders).insert(text.clone(), connection);
                Ok(text)
            }
            _ => Err(misunderstood()),
        }
    }

    pub(crate) fn remove_placeholder(&self, text: &str) {
        lock(&self.placeholders).remove(text);
    }

    /// Returns the answer, and the connection, whose end the carrier notices.
    async fn ask(&self, request: &CarrierRequest) -> Result<(CarrierAnswer, UnixStream)> {
        let asked = async {
            let mut stream = BufReader::new(self.files.connect().await?);
            messages::write(stream.get_mut(), request).await?;
            let answer = messages::read::<CarrierAnswer>(&mut stream).await?;
            let answer = answer.ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok::<_, io::Error>((answer, stream.into_inner()))
        };
        let limit = match request {
            CarrierRequest::SetRules { .. } => CHANGE_TIME_LIMIT,
            _ => ANSWER_TIME_LIMIT,
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(Ok((
                CarrierAnswer::Failed {
                    kind,
                    operation,
                    context,
                    fix,
                },
                _,
            ))) => Err(messages::error(&kind, &operation, context, fix)),
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(error)) => Err(match error.kind() {
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::UnexpectedEof => not_carried(),
                _ => Error::new(ErrorKind::Io, OPERATION, "its socket").with_source(error),
            }),
            Err(_) => {
                let context = format!("it did not answer within {limit:?}");
                Err(Error::new(ErrorKind::Io, OPERATION, context))
            }
        }
    }
}

fn not_carried() -> Error {
    let context = "no process carries the connections of this sandbox, so each is refused";
    Error::new(ErrorKind::NotCarried, OPERATION, context)
        .with_fix("start one with `sandbox egress NAME --carry`")
}

fn misunderstood() -> Error {
    let context = "it has answered something else; is it another version of this program?";
    Error::new(ErrorKind::Io, OPERATION, context)
}
