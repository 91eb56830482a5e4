//! One order for all, and none missing.

use std::collections::BTreeSet;

use futures_util::future::join_all;

use crate::test_server::{TestServer, seq};

// Behaviour 1
#[tokio::test]
async fn three_users_who_send_at_the_same_time_all_see_one_log_without_holes() {
    let server = TestServer::start().await;
    let users = ["alice", "bob", "carol"];
    let conv = server.conversation("c", &users).await;

    let sending = users.map(async |user| {
        let mut client = server.connect(user).await;
        let mut seqs = Vec::new();
        for number in 0..50 {
            seqs.push(client.send(&conv, &format!("{user}-{number}")).await.seq);
        }
        (client, seqs)
    });
    let senders = join_all(sending).await;

    let seqs: BTreeSet<_> = senders.iter().flat_map(|(_, seqs)| seqs).copied().collect();
    assert_eq!(seqs, (4..=153).map(seq).collect());
    let mut logs = Vec::new();
    for (mut client, _) in senders {
        logs.push(serde_json::to_string(&client.read_all(&conv, 3, 50).await).unwrap());
    }
    assert_eq!(logs[0], logs[1]);
    assert_eq!(logs[1], logs[2]);
    server.stopped().await;
}
