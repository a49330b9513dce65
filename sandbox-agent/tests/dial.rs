//! Connections from the host to ports inside.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use common::{FirstClient, TIMEOUT, settings};
use sandbox_agent::protocol::{
    CONNECTION_WINDOW, Channel, ClosedReport, DialRequest, FrameKind, MAX_CONNECTIONS,
};

/// A listener, and a client with a stream that has dialed it.
fn dialed() -> (TcpStream, FirstClient, u32) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = FirstClient::start(&settings());
    let stream = dial(&mut client, listener.local_addr().unwrap().port());
    let (peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    (peer, client, stream)
}

fn dial(client: &mut FirstClient, port: u16) -> u32 {
    let stream = client.open_stream();
    client.send(stream, FrameKind::Dial, &DialRequest { port }.encode());
    stream
}

/// The error number of the stream's last frame. Frames before are returned with it.
fn until_closed(client: &mut FirstClient, stream: u32) -> (Vec<(FrameKind, Vec<u8>)>, i32) {
    let mut frames = Vec::new();
    loop {
        let message = client.wait(stream);
        if message.kind == FrameKind::Closed {
            return (frames, ClosedReport::decode(&message.bytes).unwrap().errno);
        }
        frames.push((message.kind, message.bytes));
    }
}

#[test]
fn each_direction_ends_on_its_own() {
    let (mut peer, mut client, stream) = dialed();
    client.send(stream, FrameKind::Stdin, b"question");
    client.send(stream, FrameKind::StdinEnd, b"");
    let mut question = String::new();
    peer.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    peer.write_all(b"answer").unwrap();
    drop(peer);
    let (frames, errno) = until_closed(&mut client, stream);
    let expected = [
        (FrameKind::Stdout, b"answer".to_vec()),
        (FrameKind::StdoutEnd, Vec::new()),
    ];
    assert_eq!((&frames[..], errno), (&expected[..], 0));
}

#[test]
fn peer_that_ends_first_still_receives() {
    let (mut peer, mut client, stream) = dialed();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.wait(stream).kind, FrameKind::StdoutEnd);
    client.send(stream, FrameKind::Stdin, b"late");
    client.send(stream, FrameKind::StdinEnd, b"");
    let mut late = String::new();
    peer.read_to_string(&mut late).unwrap();
    assert_eq!(late, "late");
    assert_eq!(until_closed(&mut client, stream), (Vec::new(), 0));
}

#[test]
fn kill_resets_the_connection() {
    let (mut peer, mut client, stream) = dialed();
    client.send(stream, FrameKind::Kill, b"");
    let (_, errno) = until_closed(&mut client, stream);
    assert_eq!(errno, libc::ECONNRESET);
    let reset = peer.read(&mut [0; 8]).unwrap_err();
    assert_eq!(reset.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn clients_end_resets_its_connections() {
    let (mut peer, client, _) = dialed();
    drop(client);
    let reset = peer.read(&mut [0; 8]).unwrap_err();
    assert_eq!(reset.raw_os_error(), Some(libc::ECONNRESET));
}

#[test]
fn port_without_a_listener_is_refused() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut client = FirstClient::start(&settings());
    let stream = dial(&mut client, port);
    client.send(stream, FrameKind::Stdin, b"in vain");
    let (_, errno) = until_closed(&mut client, stream);
    assert_eq!(errno, libc::ECONNREFUSED);
    // Frames that were sent before the client knew are ignored.
    client.send(stream, FrameKind::StdinEnd, b"");
    client.send(stream, FrameKind::Kill, b"");
    client.send(0, FrameKind::Ping, b"x");
    assert_eq!(client.wait(0).kind, FrameKind::Pong);
}

#[test]
fn listener_on_ipv6_is_reached() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        return eprintln!("skipped: this host has no IPv6");
    };
    let mut client = FirstClient::start(&settings());
    let stream = dial(&mut client, listener.local_addr().unwrap().port());
    client.send(stream, FrameKind::Stdin, b"x");
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 1);
}

#[test]
fn unread_bytes_are_bounded_by_the_window() {
    let (mut peer, mut client, stream) = dialed();
    let sender = std::thread::spawn(move || {
        let piece = vec![7; 4 << 20];
        peer.write_all(&piece).unwrap();
        peer
    });
    let mut received = 0;
    while received < CONNECTION_WINDOW as usize {
        received += client.wait(stream).bytes.len();
    }
    assert_eq!(received, CONNECTION_WINDOW as usize);
    // Without credit, nothing more arrives before the answer.
    client.send(0, FrameKind::Ping, b"x");
    assert_eq!(client.wait(0).kind, FrameKind::Pong);
    while received < 4 << 20 {
        let credit = Channel::Stdout.credit(CONNECTION_WINDOW);
        client.send(stream, FrameKind::Credit, &credit);
        let until = (received + CONNECTION_WINDOW as usize).min(4 << 20);
        while received < until {
            received += client.wait(stream).bytes.len();
        }
    }
    drop(sender.join().unwrap());
}

#[test]
fn connections_are_limited_and_end_with_their_descriptors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = FirstClient::start(&settings());
    let descriptors = format!("/proc/{}/fd", client.agent.id());
    // The agent hides its descriptors from its own user; root counts them.
    let count = || match std::fs::read_dir(&descriptors) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        entries => Some(entries.unwrap().count()),
    };
    let before = count();
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..MAX_CONNECTIONS + 3 {
        open.push(dial(&mut client, port));
    }
    for stream in open.split_off(MAX_CONNECTIONS) {
        let (_, errno) = until_closed(&mut client, stream);
        assert_eq!(errno, libc::EMFILE);
        refused += 1;
    }
    assert_eq!(refused, 3);
    for stream in &open {
        client.send(*stream, FrameKind::Kill, b"");
    }
    for stream in open {
        until_closed(&mut client, stream);
    }
    assert_eq!(count(), before);
}

#[test]
fn violations_end_the_connection() {
    let window = vec![0; CONNECTION_WINDOW as usize / 4];
    let sent = |pieces: usize| vec![(FrameKind::Stdin, window.clone()); pieces];
    let cases = [
        sent(5),
        vec![(FrameKind::StdinEnd, vec![]), (FrameKind::Stdin, vec![1])],
        vec![(FrameKind::Signal, 15u32.to_le_bytes().to_vec())],
        vec![(FrameKind::Kill, vec![1])],
        vec![(FrameKind::Credit, Channel::Stdin.credit(1))],
        vec![(FrameKind::Dial, vec![1, 0])],
        vec![(FrameKind::StdoutEnd, vec![])],
    ];
    for frames in cases {
        // The peer reads nothing, so that no credit returns.
        let (peer, mut client, stream) = dialed();
        // Fills the buffers of the kernel, in which bytes do not count.
        if frames.len() == 5 {
            fill(&mut client, stream);
        }
        for (kind, bytes) in frames {
            client.send(stream, kind, &bytes);
        }
        assert_eq!(client.agent_end().code(), Some(70));
        drop(peer);
    }
}

/// Sends bytes until no credit returns.
fn fill(client: &mut FirstClient, stream: u32) {
    let piece = vec![0; CONNECTION_WINDOW as usize / 4];
    let mut credit = i64::from(CONNECTION_WINDOW);
    loop {
        while credit >= piece.len() as i64 {
            client.send(stream, FrameKind::Stdin, &piece);
            credit -= piece.len() as i64;
        }
        client.send(0, FrameKind::Ping, b"x");
        assert_eq!(client.wait(0).kind, FrameKind::Pong);
        let mut granted = false;
        while let Some(message) = client.kept(stream) {
            credit += i64::from(Channel::read_credit(&message.bytes).unwrap().1);
            granted = true;
        }
        if !granted {
            return;
        }
    }
}
