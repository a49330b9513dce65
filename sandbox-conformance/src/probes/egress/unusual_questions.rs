//! Questions that programs seldom ask, and broken ones.

use simple_dns::TYPE;

use super::answers::{EXACT, PORT, SERVER, question};
use super::exchanges::{self, Exchange, Transport};
use super::names;
use crate::probes::prelude::*;

/// The codes of answers: RFC 1035, section 4.1.1.
const FORMAT_ERROR: u8 = 1;
const NO_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// The offset of the question in a message.
const QUESTION: usize = 12;

/// Changes a question for an address of [`EXACT`] without options.
type Change = fn(&mut Vec<u8>);

const UNUSUAL: &[(&str, Change, u8)] = &[
    ("an address", |_| {}, 0),
    ("no wish for recursion", |message| message[2] = 0, 0),
    (
        "the server's state",
        |message| message[2] |= 2 << 3,
        NOT_IMPLEMENTED,
    ),
    ("an update", |message| message[2] |= 5 << 3, NOT_IMPLEMENTED),
    ("the class CHAOS", |message| set_end(message, 3), REFUSED),
    ("every class", |message| set_end(message, 255), REFUSED),
    ("no question", |message| message[5] = 0, FORMAT_ERROR),
    ("two questions", |message| message[5] = 2, FORMAT_ERROR),
    (
        "a question without its end",
        |message| message.truncate(message.len() - 1),
        FORMAT_ERROR,
    ),
    (
        "a name without its end",
        |message| message.truncate(QUESTION + 3),
        FORMAT_ERROR,
    ),
    (
        "a label beyond the message",
        |message| message[QUESTION] = 60,
        FORMAT_ERROR,
    ),
    (
        "a pointer to itself",
        |message| message[QUESTION] = 0xc0,
        FORMAT_ERROR,
    ),
    (
        "a label of 64 bytes",
        |message| message[QUESTION] = 64,
        FORMAT_ERROR,
    ),
    (
        "a space in the name",
        |message| message[QUESTION + 1] = b' ',
        NO_NAME,
    ),
    (
        "a dot in a label",
        |message| message[QUESTION + 1] = b'.',
        NO_NAME,
    ),
    (
        "the root",
        |message| drop(message.splice(QUESTION.., [0, 0, 1, 0, 1])),
        NO_NAME,
    ),
    (
        "records that are missing",
        |message| message[11] = 1,
        FORMAT_ERROR,
    ),
    (
        "more records than anyone sends",
        |message| message[11] = 200,
        FORMAT_ERROR,
    ),
    ("nine records", |message| records(message, 9), FORMAT_ERROR),
    ("eight records", |message| records(message, 8), 0),
    (
        "a record of each kind",
        |message| {
            (message[7], message[9], message[11]) = (1, 1, 1);
            (0..3).for_each(|_| message.extend_from_slice(RECORD));
        },
        0,
    ),
    (
        "a record with too few bytes",
        |message| {
            records(message, 2);
            message.pop();
        },
        FORMAT_ERROR,
    ),
];

/// The name of the question, the type TXT, and five bytes.
const RECORD: &[u8] = &[
    0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, 5, 4, b't', b'e', b'x', b't',
];

/// Adds records.
fn records(message: &mut Vec<u8>, count: u8) {
    message[11] = count;
    for _ in 0..count {
        message.extend_from_slice(RECORD);
    }
}

/// Sets the class.
fn set_end(message: &mut [u8], class: u8) {
    if let Some(last) = message.last_mut() {
        *last = class;
    }
}

pub(super) async fn compare(context: &mut ProbeContext) -> Result<(), ProbeError> {
    if !names::prepared(context).await? {
        return Ok(());
    }
    let deviation = ask_all(context).await;
    context.record_attack(behavior("ask in unusual ways", deviation));
    context.no_host_effect("questions stay in the sandbox");
    Ok(())
}

async fn ask_all(context: &mut ProbeContext) -> Result<Option<String>, Attempt> {
    let messages = UNUSUAL.iter().enumerate().map(|(number, (_, change, _))| {
        let mut message = question(number, EXACT, TYPE::A, false);
        change(&mut message);
        message
    });
    let messages: Vec<Vec<u8>> = messages.collect();
    let exchanges = messages
        .iter()
        .map(|message| Exchange::new(Transport::Datagram, SERVER, PORT, &**message));
    let exchanges: Vec<_> = exchanges.collect();
    let answers = exchanges::make(context, &exchanges).await?;
    let asked = UNUSUAL.iter().zip(&messages).zip(&answers);
    for (((what, _, code), message), answer) in asked {
        let right = answer.bytes.first_chunk::<12>().is_some_and(|header| {
            // The same number, operation and wish, from a server that looks names up.
            header[..2] == message[..2]
                && header[2] == 0x80 | message[2] & 0x79
                && header[3] == 0x80 | code
                && (header[7] == 1) == (*code == 0)
        });
        if !right {
            return Ok(Some(format!("{what}: {:02x?}", answer.bytes)));
        }
    }
    Ok(None)
}
