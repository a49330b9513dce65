//! An agent that breaks the rules of a forwarded connection. The host ends the sandbox, and cut
//! data never looks complete.

mod fake;

use std::net::Ipv4Addr;

use fake::{FakeAgent, frame, sandbox, sandbox_with_rules};
use sandbox_agent::protocol::{
    AGENT_STREAMS, CONNECTION_WINDOW, Channel, ClosedReport, ConnectRequest, ConnectTarget,
    ExitKind, FrameKind, MAX_CONNECTIONS,
};
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
    type HostileMessage = Box<dyn Fn(u32) -> Vec<u8> + Send>;
    let cases: Vec<HostileMessage> = vec![
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

/// Opens a stream of the agent's own, as for a connection of code.
fn connect(stream: u32) -> Vec<u8> {
    let request = ConnectRequest {
        target: ConnectTarget::Name(b"example.org".to_vec()),
        port: 443,
    };
    frame(stream, FrameKind::Connect, &request.encode())
}

#[tokio::test]
async fn connections_of_code_without_rules_end_the_sandbox() {
    let (read, destroyed) = read_from(|mut agent, _| async move {
        agent.raw(&connect(AGENT_STREAMS | 1)).await;
        agent.stall().await;
    })
    .await;
    assert!(read.is_err() && destroyed);
}

#[tokio::test]
async fn wrong_numbers_and_too_many_connections_of_code_end_the_sandbox() {
    let own = |number: u32| connect(AGENT_STREAMS | number);
    let many = (0..=MAX_CONNECTIONS as u32).flat_map(own).collect();
    let late = [
        own(1),
        closed(AGENT_STREAMS | 1, 0),
        frame(AGENT_STREAMS | 1, FrameKind::Stdout, b"x"),
    ];
    let cases: [Vec<u8>; 6] = [
        connect(7),
        [own(1), own(1)].concat(),
        many,
        late.concat(),
        frame(AGENT_STREAMS | 1, FrameKind::Connect, b""),
        frame(0, FrameKind::EgressSet, b""),
    ];
    for (number, bytes) in cases.into_iter().enumerate() {
        let (instance, destroyed) = sandbox_with_rules(|mut agent| async move {
            agent.raw(&bytes).await;
            agent.stall().await;
        })
        .await;
        assert!(destroyed.soon().await, "{number}");
        drop(instance);
    }
}

#[tokio::test]
async fn denied_connection_of_code_is_reset_and_told() {
    let (instance, destroyed) = sandbox_with_rules(|mut agent| async move {
        let request = ConnectRequest {
            target: ConnectTarget::Name(b"evil.example\x1b".to_vec()),
            port: 443,
        };
        let stream = AGENT_STREAMS | 5;
        agent
            .frame(stream, FrameKind::Connect, &request.encode())
            .await;
        assert_eq!(agent.wait_for(FrameKind::Kill).await, Some(stream));
        agent.raw(&closed(stream, 104)).await;
        let execution = agent.wait_for(FrameKind::Exec).await.unwrap();
        agent.exit(execution, ExitKind::Exited(0)).await;
        agent.only_answer_pings().await;
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let end = fake::exec(&instance).await;
    assert_eq!(end.denials.as_slice().len(), 1, "{:?}", end.denials);
    let text = end.denials.as_slice()[0].to_string();
    assert!(!text.contains('\x1b'), "{text:?}");
    assert_eq!(destroyed.count(), 0);
}
