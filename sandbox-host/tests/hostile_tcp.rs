//! An agent that breaks the rules of a forwarded connection. The host ends the sandbox, and cut
//! data never looks complete.

mod fake;

use std::net::Ipv4Addr;

use fake::{FakeAgent, frame, sandbox};
use sandbox_agent::protocol::{CONNECTION_WINDOW, Channel, ClosedReport, FrameKind};
use sandbox_core::spi::Instance;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What a client of a forwarded port reads from an agent that acts like this, and whether the
/// sandbox was destroyed.
async fn read_from<F, Fut>(act: F) -> (std::io::Result<Vec<u8>>, bool)
where
    F: FnOnce(FakeAgent, u32) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (instance, destroyed) = sandbox(|mut agent| async move {
        let stream = agent.wait_for(FrameKind::Dial).await.unwrap();
        act(agent, stream).await;
    })
    .await;
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let forward = instance.forward(any, 80).await.unwrap();
    let mut client = TcpStream::connect(forward.address()).await.unwrap();
    let mut bytes = Vec::new();
    let read = client.read_to_end(&mut bytes).await;
    (read.map(|_| bytes), destroyed.soon().await)
}

fn closed(stream: u32, errno: i32) -> Vec<u8> {
    frame(stream, FrameKind::Closed, &ClosedReport { errno }.encode())
}

#[tokio::test]
async fn violations_end_the_sandbox() {
    let window = vec![0; CONNECTION_WINDOW as usize / 4];
    let flood = move |stream| {
        (0..100)
            .flat_map(|_| frame(stream, FrameKind::Stdout, &window))
            .collect()
    };
    type Case = Box<dyn Fn(u32) -> Vec<u8> + Send>;
    let cases: Vec<Case> = vec![
        Box::new(flood),
        Box::new(|stream| {
            let end = frame(stream, FrameKind::StdoutEnd, b"");
            [end, frame(stream, FrameKind::Stdout, b"late")].concat()
        }),
        Box::new(|stream| frame(stream, FrameKind::StdoutEnd, b"").repeat(2)),
        Box::new(|stream| frame(stream, FrameKind::StdoutEnd, b"x")),
        Box::new(|stream| [closed(stream, 104), closed(stream, 104)].concat()),
        Box::new(|stream| closed(stream, -1)),
        Box::new(|stream| frame(stream, FrameKind::Stderr, b"x")),
        Box::new(|stream| frame(stream, FrameKind::Started, &[0; 4])),
        Box::new(|stream| frame(stream, FrameKind::Credit, &Channel::Stdin.credit(1))),
        Box::new(|stream| frame(stream, FrameKind::Credit, &Channel::Stdout.credit(1))),
        Box::new(|stream| frame(stream + 1, FrameKind::Stdout, b"x")),
        Box::new(|stream| frame(stream | 1 << 31, FrameKind::Stdout, b"x")),
    ];
    for (number, bytes) in cases.into_iter().enumerate() {
        let (_, destroyed) = read_from(move |mut agent, stream| {
            let bytes = bytes(stream);
            async move {
                agent.raw(&bytes).await;
                agent.stall().await;
            }
        })
        .await;
        assert!(destroyed, "{number}");
    }
}

#[tokio::test]
async fn end_without_the_end_of_the_bytes_is_a_reset() {
    for errno in [0, 104, 4095] {
        let (read, destroyed) = read_from(move |mut agent, stream| async move {
            agent.frame(stream, FrameKind::Stdout, b"half").await;
            agent.raw(&closed(stream, errno)).await;
            agent.only_answer_pings().await;
        })
        .await;
        assert!(read.is_err(), "{read:?}");
        assert!(!destroyed);
    }
}

#[tokio::test]
async fn orderly_end_is_an_end() {
    let (read, destroyed) = read_from(|mut agent, stream| async move {
        agent.frame(stream, FrameKind::Stdout, b"whole").await;
        agent.frame(stream, FrameKind::StdoutEnd, b"").await;
        agent.only_answer_pings().await;
    })
    .await;
    assert_eq!(read.unwrap(), b"whole");
    assert!(!destroyed);
}

/// The clock is paused: waiting takes no time.
#[tokio::test(start_paused = true)]
async fn reset_that_is_never_confirmed_ends_the_sandbox() {
    let (instance, destroyed) = sandbox(|agent| async move {
        let mut agent = agent;
        agent.only_answer_pings().await;
    })
    .await;
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let forward = instance.forward(any, 80).await.unwrap();
    let client = TcpStream::connect(forward.address()).await.unwrap();
    // Accepts the connection before it is closed.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    client.set_zero_linger().unwrap();
    drop(client);
    for _ in 0..60 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        if destroyed.count() > 0 {
            return;
        }
    }
    panic!("the sandbox still exists");
}
