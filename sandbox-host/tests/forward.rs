//! Ports of the host that lead to ports beside a real agent.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::instance;
use sandbox_core::ErrorKind;
use sandbox_core::spi::Instance;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind(any()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn both_directions_are_carried_and_end_on_their_own() {
    let (server, port) = listener().await;
    let instance = instance().await;
    let forward = instance.forward(any(), port).await.unwrap();
    assert_eq!(forward.port(), port);
    assert!(forward.address().ip().is_loopback());
    let echo = tokio::spawn(async move {
        let (mut peer, _) = server.accept().await.unwrap();
        let mut question = Vec::new();
        peer.read_to_end(&mut question).await.unwrap();
        question.reverse();
        peer.write_all(&question).await.unwrap();
    });
    let question: Vec<u8> = (0..3_000_000u32).map(|number| number as u8).collect();
    let mut client = TcpStream::connect(forward.address()).await.unwrap();
    client.write_all(&question).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let read = client.read_to_end(&mut answer);
    timeout(PATIENCE, read).await.unwrap().unwrap();
    answer.reverse();
    assert!(answer == question);
    echo.await.unwrap();
}

#[tokio::test]
async fn refused_connection_is_reset() {
    let (server, port) = listener().await;
    drop(server);
    let instance = instance().await;
    let forward = instance.forward(any(), port).await.unwrap();
    let mut client = TcpStream::connect(forward.address()).await.unwrap();
    let read = timeout(PATIENCE, client.read(&mut [0; 8])).await.unwrap();
    assert_eq!(
        read.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn dropped_forward_closes_its_port_and_resets_connections() {
    let (server, port) = listener().await;
    let instance = instance().await;
    let forward = instance.forward(any(), port).await.unwrap();
    let address = forward.address();
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut peer, _) = server.accept().await.unwrap();
    peer.write_all(b"x").await.unwrap();
    assert_eq!(client.read(&mut [0; 8]).await.unwrap(), 1);
    drop(forward);
    for socket in [&mut client, &mut peer] {
        let read = timeout(PATIENCE, socket.read(&mut [0; 8])).await.unwrap();
        assert_eq!(
            read.unwrap_err().kind(),
            std::io::ErrorKind::ConnectionReset
        );
    }
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn end_of_the_sandbox_closes_the_port() {
    let (server, port) = listener().await;
    let instance = instance().await;
    let forward = instance.forward(any(), port).await.unwrap();
    let mut client = TcpStream::connect(forward.address()).await.unwrap();
    let _peer = server.accept().await.unwrap();
    instance.kill().await.unwrap();
    let read = timeout(PATIENCE, client.read(&mut [0; 8])).await.unwrap();
    assert!(read.is_err(), "{read:?}");
    let again = instance.forward(any(), port).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::SandboxEnded);
}

#[tokio::test]
async fn many_short_connections_leave_no_descriptors() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (server, port) = listener().await;
    let instance = instance().await;
    let forward = instance.forward(any(), port).await.unwrap();
    let serve = tokio::spawn(async move {
        loop {
            let (mut peer, _) = server.accept().await.unwrap();
            let mut byte = [0];
            peer.read_exact(&mut byte).await.unwrap();
            peer.write_all(&byte).await.unwrap();
        }
    });
    let connect = async || {
        let mut client = TcpStream::connect(forward.address()).await.unwrap();
        client.write_all(b"x").await.unwrap();
        client.shutdown().await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"x");
    };
    connect().await;
    let before = descriptors();
    for _ in 0..1000 {
        timeout(PATIENCE, connect()).await.unwrap();
    }
    // The last ones may still be closing.
    for _ in 0..600 {
        if descriptors() <= before {
            return serve.abort();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} descriptors instead of {before}", descriptors());
}

#[tokio::test]
async fn wrong_ports_and_addresses_are_typed_errors() {
    let instance = instance().await;
    let zero = instance.forward(any(), 0).await.unwrap_err();
    assert_eq!(zero.kind(), ErrorKind::InvalidRequest);
    let (_server, port) = listener().await;
    let taken = (Ipv4Addr::LOCALHOST, port).into();
    let taken = instance.forward(taken, 80).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Io);
    assert!(taken.to_string().contains("(fix: "), "{taken}");
}
