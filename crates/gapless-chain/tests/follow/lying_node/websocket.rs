//! The node over WebSocket.

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::{JoinHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;

use super::script::{Answer, Script};

/// The beginning of a text of 1,000 bytes.
const TRUNCATED_FRAME: &[u8] = b"\x81\x7e\x03\xe8{\"jsonrpc\":";
/// The beginning of a text of 1 TiB.
const ENDLESS_FRAME: &[u8] = b"\x81\x7f\0\0\x01\0\0\0\0\0{\"jsonrpc\":";
/// How many signals a connection may be behind.
const SIGNALS_MAX: usize = 1_000;

/// What all connections are told.
#[derive(Clone)]
pub(super) enum Signal {
    /// There is a new head.
    Head(Value),
    /// They end.
    Cut,
}

#[derive(Clone)]
pub(super) struct Signals(broadcast::Sender<Signal>);

impl Signals {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(SIGNALS_MAX))
    }

    /// Nobody may be listening.
    pub(super) fn send(&self, signal: Signal) {
        drop(self.0.send(signal));
    }
}

/// Serves on a port of its own. Returns its address.
pub(super) async fn serve_websocket(
    script: Arc<Mutex<Script>>,
    signals: Signals,
) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = Connection { number, script: script.clone(), subscription: None };
            connections.spawn(connection.serve(stream, signals.0.subscribe()));
        }
    });
    (url, serving)
}

struct Connection {
    number: usize,
    script: Arc<Mutex<Script>>,
    subscription: Option<Value>,
}

impl Connection {
    /// Serves until one of both ends it.
    async fn serve(mut self, stream: TcpStream, mut signals: broadcast::Receiver<Signal>) {
        let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
        loop {
            let answer = tokio::select! {
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.answer(&text),
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => return,
                },
                signal = signals.recv() => match (signal.unwrap(), &self.subscription) {
                    (Signal::Cut, _) => return,
                    (Signal::Head(_), None) => continue,
                    (Signal::Head(header), Some(id)) => {
                        let params = json!({"subscription": id, "result": header});
                        Reply::Frame(json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": params}))
                    }
                },
            };
            let sent = match answer {
                Reply::Frame(frame) => socket.send(Message::text(frame.to_string())).await.is_ok(),
                Reply::End => false,
                Reply::Raw(bytes) => {
                    drop(socket.get_mut().write_all(bytes).await);
                    false
                }
            };
            if !sent {
                return;
            }
        }
    }

    fn answer(&mut self, text: &str) -> Reply {
        let request: Value = serde_json::from_str(text).unwrap();
        let Value::Array(requests) = &request else { return self.answer_one(&request) };
        let mut frames = Vec::new();
        for one in requests {
            match self.answer_one(one) {
                Reply::Frame(frame) => frames.push(frame),
                end => return end,
            }
        }
        Reply::Frame(Value::Array(frames))
    }

    fn answer_one(&mut self, one: &Value) -> Reply {
        let method = one["method"].as_str().unwrap();
        match self.script.lock().unwrap().answer(Some(self.number), method, &one["params"]) {
            Answer::Result(result) => {
                if method == "eth_subscribe" {
                    self.subscription = Some(result.clone());
                }
                Reply::Frame(json!({"jsonrpc": "2.0", "id": one["id"], "result": result}))
            }
            Answer::Error(code, message) => Reply::Frame(
                json!({"jsonrpc": "2.0", "id": one["id"], "error": {"code": code, "message": message}}),
            ),
            Answer::Status(..) => Reply::End,
            Answer::Truncated => Reply::Raw(TRUNCATED_FRAME),
            Answer::Endless => Reply::Raw(ENDLESS_FRAME),
        }
    }
}

/// What a connection sends.
enum Reply {
    Frame(Value),
    /// Nothing: the connection ends.
    End,
    /// Half a frame, and the connection ends.
    Raw(&'static [u8]),
}
