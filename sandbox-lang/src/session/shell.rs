//! The channel to a shell or to R. What the code writes is the execution's own output. A mark of one
//! line in each stream ends a cell, and requests are lines of text. Pieces of messages have the same
//! mark, in standard output.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use memchr::{memchr, memmem};

use super::CellRequest;
use super::frame::MAX_MESSAGE;
use super::message::{self, Done, MAX_NAMES, Message, Variables};

/// The longest mark. A write of this length to a pipe is not mixed with others.
const MAX_MARK: usize = 4096;

/// How much output of background processes waits between cells, as in the other drivers.
const HELD: usize = 64 * 1024;

/// What the code or a driver did.
#[derive(Debug)]
pub(super) enum Item {
    Stdout(Bytes),
    Stderr(Bytes),
    Message(Message),
}

#[derive(Debug)]
pub(super) struct ShellChannel {
    /// How a mark begins.
    mark: Vec<u8>,
    /// Whether messages tell the displays and the ends of cells.
    has_messages: bool,
    /// The first pieces of a message, in Base64.
    pieces: String,
    /// The end of the cell, until both streams have its mark.
    done: Option<Box<Done>>,
    streams: [Stream; 2],
    /// The last cell that began; 0 while the shell starts.
    cell: u64,
    /// What the mark in standard output said.
    end: Option<CommandEnd>,
    items: VecDeque<Item>,
}

#[derive(Debug, Default)]
struct Stream {
    /// What may be the beginning of a mark.
    rest: BytesMut,
    /// What background processes wrote between cells.
    held: Vec<u8>,
    /// How much was written since the last cell ended.
    total: u64,
    /// How much of that is still forwarded.
    room: u64,
    /// How much the last cell wrote, once it has ended in this stream.
    written: Option<u64>,
}

#[derive(Debug)]
struct CommandEnd {
    status: u8,
    variables: u64,
    names: Vec<String>,
}

impl ShellChannel {
    pub(super) fn new(mark: &str, has_messages: bool) -> Self {
        Self {
            mark: format!("\0{mark} ").into_bytes(),
            has_messages,
            pieces: String::new(),
            done: None,
            streams: Default::default(),
            cell: 0,
            end: None,
            items: VecDeque::new(),
        }
    }

    /// Whether the shell has not said that it is ready.
    pub(super) fn is_starting(&self) -> bool {
        self.cell == 0
    }

    /// Begins a cell. Returns the request for it.
    pub(super) fn begin(&mut self, cell: u64, request: &CellRequest, limits: [u64; 2]) -> Vec<u8> {
        self.cell = cell;
        for (index, limit) in limits.into_iter().enumerate() {
            let stream = &mut self.streams[index];
            (stream.room, stream.written) = (limit, None);
            let held = std::mem::take(&mut stream.held);
            stream.total -= held.len() as u64;
            self.output(index, held.into());
        }
        let (code, input) = (escaped(request.code.as_bytes()), escaped(&request.stdin));
        format!("r {cell} {code} {input}\n").into_bytes()
    }

    /// Takes bytes of a stream; an error says how they are wrong.
    pub(super) fn push(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        self.streams[index].rest.extend_from_slice(bytes);
        loop {
            let rest = &self.streams[index].rest;
            let Some(start) = memmem::find(rest, &self.mark) else {
                let length = rest.len() - beginning_of(&self.mark, rest);
                let output = self.streams[index].rest.split_to(length).freeze();
                self.output(index, output);
                return Ok(());
            };
            let output = self.streams[index].rest.split_to(start).freeze();
            self.output(index, output);
            let rest = &mut self.streams[index].rest;
            let Some(length) = memchr(b'\n', &rest[..rest.len().min(MAX_MARK)]) else {
                return match rest.len() < MAX_MARK {
                    true => Ok(()),
                    false => Err("an end of a cell without an end".to_owned()),
                };
            };
            let line = rest.split_to(length + 1);
            let text = String::from_utf8_lossy(&line[self.mark.len()..length]).into_owned();
            if self.has_messages && index == 0 && text.starts_with(['+', '=']) {
                self.piece(&text)?;
                continue;
            }
            let end =
                CommandEnd::parse(&text).ok_or_else(|| format!("{text:?} as the end of a cell"))?;
            self.end_of_cell(index, end)?;
        }
    }

    /// The streams have ended, so nothing more is the beginning of a mark.
    pub(super) fn finish(&mut self) {
        for index in 0..2 {
            let rest = self.streams[index].rest.split().freeze();
            self.output(index, rest);
        }
    }

    pub(super) fn next(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    fn output(&mut self, index: usize, bytes: Bytes) {
        let is_starting = self.is_starting();
        let stream = &mut self.streams[index];
        if bytes.is_empty() || is_starting {
            return;
        }
        stream.total += bytes.len() as u64;
        if stream.written.is_some() {
            let room = HELD - stream.held.len();
            stream.held.extend(&bytes[..bytes.len().min(room)]);
            return;
        }
        let part = usize::try_from(stream.room)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        stream.room -= part as u64;
        if part > 0 {
            let part = bytes.slice(..part);
            self.items.push_back(match index {
                0 => Item::Stdout(part),
                _ => Item::Stderr(part),
            });
        }
    }

    /// A piece of a message: `+` and its Base64, or `=` for the last one.
    fn piece(&mut self, text: &str) -> Result<(), String> {
        let (kind, piece) = text.split_at(1);
        self.pieces.push_str(piece);
        if self.pieces.len() > MAX_MESSAGE {
            return Err(format!("a message of over {MAX_MESSAGE} bytes"));
        }
        if kind == "+" {
            return Ok(());
        }
        let bytes = STANDARD.decode(std::mem::take(&mut self.pieces));
        let bytes = bytes.map_err(|error| format!("a message: {error}"))?;
        match message::parse(&bytes)? {
            Message::Done(done) if done.cell == self.cell => self.done = Some(done),
            Message::Done(done) => return Err(format!("an end of cell {}", done.cell)),
            message => self.items.push_back(Item::Message(message)),
        }
        Ok(())
    }

    fn end_of_cell(
        &mut self,
        index: usize,
        (cell, end): (u64, Option<CommandEnd>),
    ) -> Result<(), String> {
        if cell > self.cell || (index == 0) != end.is_some() {
            return Err(format!("an end of cell {cell}"));
        }
        let stream = &mut self.streams[index];
        if cell < self.cell || stream.written.is_some() {
            // The shell showed its prompt again: an interrupt came after the end.
            return Ok(());
        }
        stream.written = Some(std::mem::take(&mut stream.total));
        self.end = end.or(self.end.take());
        if let [Some(stdout), Some(stderr)] = [0, 1].map(|index: usize| self.streams[index].written)
            && let Some(end) = self.end.take()
        {
            self.items.push_back(Item::Message(match cell {
                0 => Message::Ready {
                    version: end.names.join(" "),
                },
                _ if self.has_messages => {
                    let done = self.done.take();
                    let mut done = done.ok_or("an end of a cell without its message")?;
                    (done.stdout, done.stderr) = (stdout, stderr);
                    Message::Done(done)
                }
                _ => Message::Done(Box::new(Done {
                    cell,
                    error: None,
                    status: Some(end.status),
                    variables: Some(Variables {
                        total: end.variables,
                        names: end.names,
                    }),
                    displays_omitted: 0,
                    stdout,
                    stderr,
                    died: None,
                })),
            }));
        }
        Ok(())
    }
}

impl CommandEnd {
    /// A cell, and in standard output its status, the number of its variables, and their names.
    fn parse(text: &str) -> Option<(u64, Option<Self>)> {
        let mut words = text.split(' ');
        let cell = words.next()?.parse().ok()?;
        let Some(status) = words.next() else {
            return Some((cell, None));
        };
        let end = Self {
            status: status.parse().ok()?,
            variables: words.next()?.parse().ok()?,
            names: words.take(MAX_NAMES).map(str::to_owned).collect(),
        };
        Some((cell, Some(end)))
    }
}

/// How many of the last bytes may be the beginning of the mark.
fn beginning_of(mark: &[u8], bytes: &[u8]) -> usize {
    let most = bytes.len().min(mark.len() - 1);
    let lengths = (1..=most).rev();
    let mut fitting = lengths.filter(|length| bytes.ends_with(&mark[..*length]));
    fitting.next().unwrap_or(0)
}

/// Bytes as one word for `printf %b`: no shell reads anything in it.
fn escaped(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    if bytes.is_empty() {
        return "\\c".to_owned();
    }
    let mut word = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'/' | b'=' => {
                word.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(word, "\\0{byte:03o}")),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A channel whose cell has begun.
    fn running(limit: u64) -> ShellChannel {
        let mut channel = ShellChannel::new("mark", false);
        channel.push(0, b"banner\0mark 0 0 0 5.2\n").expect("valid");
        channel.push(1, b"noise\0mark 0\n").expect("valid");
        let ready = channel.next();
        assert!(
            matches!(&ready, Some(Item::Message(Message::Ready { version })) if version == "5.2"),
            "{ready:?}"
        );
        channel.begin(1, &CellRequest::new(""), [limit; 2]);
        channel
    }

    fn stdout(channel: &mut ShellChannel) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(Item::Stdout(bytes)) = channel.next() {
            all.extend_from_slice(&bytes);
        }
        all
    }

    #[test]
    fn mark_is_found_in_pieces_and_is_no_output() {
        let mut channel = running(100);
        for byte in b"a\0mar\0\0mark 1 7 2 x f()\nlate" {
            channel.push(0, &[*byte]).expect("valid");
        }
        assert_eq!(stdout(&mut channel), b"a\0mar\0");
        channel.push(1, b"\0mark 1\n").expect("valid");
        let Some(Item::Message(Message::Done(done))) = channel.next() else {
            panic!("{channel:?}");
        };
        assert_eq!((done.status, done.stdout, done.stderr), (Some(7), 6, 0));
        let variables = done.variables.expect("they are told");
        assert_eq!(
            (variables.total, variables.names),
            (2, vec!["x".into(), "f()".into()])
        );
        // What came later belongs to the next cell, and a second prompt is no end.
        channel.push(0, b"\0mark 1 0 0\nr").expect("valid");
        channel.begin(2, &CellRequest::new(""), [5; 2]);
        assert_eq!(stdout(&mut channel), b"later");
        channel.push(0, b"more").expect("valid");
        assert_eq!(stdout(&mut channel), b"");
        channel.push(0, b"\0mark 2 0 0\n").expect("valid");
        channel.push(1, b"\0mark 2\n").expect("valid");
        let Some(Item::Message(Message::Done(done))) = channel.next() else {
            panic!("{channel:?}");
        };
        assert_eq!(done.stdout, 9);
    }

    #[test]
    fn forged_marks_are_refused() {
        for forged in [
            "\0mark 2 0 0\n",
            "\0mark 1\n",
            "\0mark x 0 0\n",
            "\0mark 1 256 0\n",
            "\0mark 1 0\n",
            "\0mark 1 0 -1\n",
            &format!("\0mark {}", "1".repeat(MAX_MARK)),
        ] {
            let mut channel = running(100);
            assert!(channel.push(0, forged.as_bytes()).is_err(), "{forged:?}");
        }
        assert!(running(100).push(1, b"\0mark 1 0 0\n").is_err());
    }

    #[test]
    fn output_between_cells_is_bounded_and_counted() {
        let mut channel = running(1 << 20);
        channel.push(0, b"\0mark 1 0 0\n").expect("valid");
        channel.push(0, &vec![b'x'; 3 * HELD]).expect("valid");
        assert_eq!(channel.streams[0].held.len(), HELD);
        channel.push(1, b"\0mark 1\n").expect("valid");
        assert!(matches!(channel.next(), Some(Item::Message(_))));
        channel.begin(2, &CellRequest::new(""), [1 << 20; 2]);
        assert_eq!(stdout(&mut channel).len(), HELD);
        assert_eq!(channel.streams[0].total, 3 * HELD as u64);
    }

    #[test]
    fn code_is_one_word() {
        assert_eq!(escaped(b""), "\\c");
        assert_eq!(
            escaped(b"a'$(b)\n\0\xff"),
            "a\\0047\\0044\\0050b\\0051\\0012\\0000\\0377"
        );
    }
}
