use std::sync::atomic::AtomicUsize;

use super::*;

#[tokio::test]
async fn revoked_rule_resets_its_connections_alone() {
    let (listener, port) = listener().await;
    let resolver = table(&[("a.org", &["127.0.0.1"]), ("b.org", &["127.0.0.1"])]);
    let [a, b] = ["a", "b"].map(|host| format!("{host}.org:{port} private"));
    let egress = egress(&[a.clone(), b.clone()], resolver);
    let (mut code_a, carry_a) = start(&egress, name("a.org", port));
    let (server_a, _) = listener.accept().await.unwrap();
    let (mut code_b, carry_b) = start(&egress, name("b.org", port));
    let (mut server_b, _) = listener.accept().await.unwrap();
    // A download that never ends, and one that nobody reads.
    let download = tokio::spawn(async move {
        let mut server = server_a;
        let sending = async { while server.write_all(&[1; 1000]).await.is_ok() {} };
        tokio::time::timeout(WAIT, sending)
            .await
            .expect("the server is told");
    });
    code_a.read_exact(&mut [0; 5000]).await.unwrap();

    let setting = egress.set(rules(std::slice::from_ref(&b)));
    tokio::time::timeout(WAIT, setting)
        .await
        .expect("the connection ends")
        .unwrap();
    assert_eq!(egress.open_connections(), 1);
    let end = carried(carry_a).await;
    assert_eq!(end.reason, EndReason::Revoked);
    assert!(end.received >= 5000);
    download.await.unwrap();

    server_b.write_all(b"alive").await.unwrap();
    let mut read = [0; 5];
    code_b.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"alive");
    assert!(denial(&egress, name("a.org", port)).await.rule.is_none());
    drop((code_b, server_b));
    assert_eq!(carried(carry_b).await.reason, EndReason::Finished);

    // A rule that asks for a stricter check than was made.
    let (mut code, carry) = start(&egress, name("b.org", port));
    let (mut server, _) = listener.accept().await.unwrap();
    code.write_all(b"x").await.unwrap();
    server.read_u8().await.unwrap();
    egress
        .set(rules(&[format!("b.org:{port} name private")]))
        .await
        .unwrap();
    assert_eq!(carried(carry).await.reason, EndReason::Revoked);
    assert_eq!(egress.generation(), 2);
}

/// Connections start while the rules change. Whatever stage they are in, none outlives the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_connection_of_a_revoked_rule_is_missed() {
    let (listener, port) = listener().await;
    tokio::spawn(echo_at_end(listener));
    let resolver = table(&[("a.org", &["127.0.0.1"]), ("b.org", &["127.0.0.1"])]);
    let [a, b] = ["a", "b"].map(|host| rules(&[format!("{host}.org:{port} private")]));
    let egress = Egress::with_options(
        a.clone(),
        NetworkPolicy::Full,
        EgressOptions {
            resolver,
            ..EgressOptions::default()
        },
    );
    let mut revoked = 0;
    for round in 0..54 {
        egress.set(a.clone()).await.unwrap();
        let connected = Arc::new(AtomicUsize::new(0));
        let started = (0..8).map(|_| {
            let (code, stream) = duplex(16);
            let (egress, connected) = (Arc::clone(&egress), Arc::clone(&connected));
            let target = name("a.org", port);
            let count = move |_| {
                connected.fetch_add(1, Ordering::Relaxed);
            };
            let carry = async move { egress.carry(target, stream, count).await };
            (code, tokio::spawn(carry))
        });
        let started = started.collect::<Vec<_>>();
        // With another number of connected ones each time.
        let waiting = async {
            while connected.load(Ordering::Relaxed) < round % 9 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT, waiting)
            .await
            .expect("they connect");
        egress.set(b.clone()).await.unwrap();
        assert_eq!(egress.open_connections(), 0, "{round}");
        for (_code, carry) in started {
            match end(carry).await {
                CarryEnd::Denied(_) => {}
                CarryEnd::Carried(carried) => {
                    assert_eq!(carried.reason, EndReason::Revoked);
                    revoked += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(
        revoked > 0,
        "no connection was open when its rule was revoked"
    );
}
