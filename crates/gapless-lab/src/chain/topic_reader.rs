//! A WebSocket that subscribes to topics, and nothing more.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use gapless_proto::{
    ClientMessage, Cursor, ErrorReply, Mode, Notice, Rid, ServerMessage, Subscribe, Subscribed,
};
use tokio::net::TcpSocket;
use tokio::time::timeout;

use super::{Fold, PATIENCE, Told, topic};
use crate::raw_client::{Socket, read_message, upgrade, write_message};

/// One connection with one subscription at a time. It remembers what it holds and where it is, and repairs nothing.
pub(crate) struct TopicReader {
    socket: Socket,
    next_rid: u64,
    fold: Fold,
    reconnect_after: Option<Duration>,
}

impl TopicReader {
    /// Connects.
    pub(crate) async fn connect(server: SocketAddr) -> anyhow::Result<Self> {
        Self::connect_from(TcpSocket::new_v4()?, server).await
    }

    /// Connects with a socket that was made ready before.
    pub(crate) async fn connect_from(socket: TcpSocket, server: SocketAddr) -> anyhow::Result<Self> {
        let stream = socket.connect(server).await.context("connecting to the server")?;
        let socket = upgrade(stream, server, "reader", "lab", READ_BUFFER_BYTES).await?;
        Ok(Self { socket, next_rid: 1, fold: Fold::default(), reconnect_after: None })
    }

    /// Asks for the topic, and waits for the answer; an error if that is a refusal.
    pub(crate) async fn subscribe(
        &mut self,
        cursor: Option<Cursor>,
        mode: Mode,
        snapshot: bool,
    ) -> anyhow::Result<Subscribed> {
        self.ask(cursor, mode, snapshot).await?;
        self.accepted().await
    }

    /// The same as one that holds something already.
    pub(crate) async fn subscribe_with(
        &mut self,
        fold: Fold,
        cursor: Cursor,
        mode: Mode,
    ) -> anyhow::Result<Subscribed> {
        self.fold = fold;
        self.subscribe(Some(cursor), mode, false).await
    }

    /// Waits until the last request is accepted; an error if it is refused.
    pub(crate) async fn accepted(&mut self) -> anyhow::Result<Subscribed> {
        self.answer().await?.map_err(|error| anyhow::anyhow!("a subscription was refused: {error:?}"))
    }

    /// Waits for the answer to the last request. What is told before that is folded.
    pub(crate) async fn answer(&mut self) -> anyhow::Result<Result<Subscribed, ErrorReply>> {
        loop {
            let message = self.message().await?;
            if let ServerMessage::Subscribed(subscribed) = message {
                return Ok(Ok(subscribed));
            }
            if let ServerMessage::Error(error) = message {
                return Ok(Err(error));
            }
            self.fold_message(message)?;
        }
    }

    /// Asks for the topic, and waits for nothing.
    pub(crate) async fn ask(
        &mut self,
        cursor: Option<Cursor>,
        mode: Mode,
        snapshot: bool,
    ) -> anyhow::Result<()> {
        let rid = Rid::new(self.next_rid).context("too many requests")?;
        self.next_rid += 1;
        let snapshot = snapshot.then_some(true);
        let subscribe = Subscribe { rid, topics: vec![topic()?], cursor, mode: Some(mode), snapshot };
        self.write(&ClientMessage::Subscribe(subscribe)).await
    }

    /// The next thing that is told of the subscription, which is folded, too.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Told> {
        loop {
            let message = self.message().await?;
            if let Some(told) = self.fold_message(message)? {
                return Ok(told);
            }
        }
    }

    /// Reads until what is held fits.
    pub(crate) async fn read_until(&mut self, fits: impl Fn(&Fold) -> bool) -> anyhow::Result<()> {
        while !fits(&self.fold) {
            self.next().await?;
        }
        Ok(())
    }

    /// Whatever is told within a time; for what must not be told.
    pub(crate) async fn listen_for(&mut self, time: Duration) -> anyhow::Result<Vec<Told>> {
        let mut heard = Vec::new();
        let listening = async {
            loop {
                heard.push(self.next().await?);
            }
        };
        match timeout(time, listening).await {
            Ok(failed) => failed,
            Err(_) => Ok(heard),
        }
    }

    /// Says that it is there, for one that reads too slowly to answer in time when it is asked.
    pub(crate) async fn say_alive(&mut self) -> anyhow::Result<()> {
        self.write(&ClientMessage::Ping).await
    }

    /// What it holds.
    pub(crate) fn fold(&self) -> &Fold {
        &self.fold
    }

    /// How long the server asked it to stay away, if it did.
    pub(crate) fn reconnect_after(&self) -> Option<Duration> {
        self.reconnect_after
    }

    /// Leaves the connection with what it holds.
    pub(crate) fn into_fold(self) -> Fold {
        self.fold
    }

    fn fold_message(&mut self, message: ServerMessage) -> anyhow::Result<Option<Told>> {
        if let ServerMessage::Notice(Notice { reconnect_after_ms: Some(after_ms), .. }) = message {
            self.reconnect_after = Some(Duration::from_millis(after_ms));
        }
        let told = Told::from_message(message);
        told.iter().try_for_each(|told| self.fold.take(told))?;
        Ok(told)
    }

    async fn message(&mut self) -> anyhow::Result<ServerMessage> {
        read_message(&mut self.socket, PATIENCE).await
    }

    async fn write(&mut self, message: &ClientMessage) -> anyhow::Result<()> {
        write_message(&mut self.socket, message).await
    }
}

const READ_BUFFER_BYTES: usize = 4 << 10;
