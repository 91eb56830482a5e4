//! What an append does to the log.

use crate::world::{World, seqs};

contract![an_acknowledged_append_is_what_the_next_read_shows];

async fn an_acknowledged_append_is_what_the_next_read_shows(world: World) {
    let chat = world.create("chat", &["alice", "bob"]).await;
    for number in 0..20 {
        let seq = chat.say("alice", &format!("k{number}")).await;
        let page = chat.page("bob", seq - 1, 50).await;
        assert_eq!((seqs(&page.events), page.head.get()), (vec![seq], seq));
    }
}
