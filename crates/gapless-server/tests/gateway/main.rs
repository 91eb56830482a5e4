//! A gateway over real sockets and a real store: what its clients can rely on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on ends")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one thing among others")]

/// Makes two tests of each sentence, one a store.
macro_rules! on_both_stores {
    ($($sentence:ident),* $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test]
                async fn $sentence() {
                    super::$sentence(crate::test_server::TestServer::start().await).await;
                }
            )*
        }

        mod postgres {
            $(
                #[tokio::test]
                async fn $sentence() {
                    super::$sentence(crate::test_server::TestServer::start_on_postgres().await).await;
                }
            )*
        }
    };
}

mod chains;
mod client;
mod drain;
mod faulty_store;
mod garbage;
mod heartbeat;
mod http;
mod live_tables;
mod membership;
mod order;
mod outages;
mod positions;
mod sends;
mod shop;
mod slow_readers;
mod sweep;
mod test_server;
mod tokens;
