//! A real node of a chain: anvil, which mines only when told.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::anvil::anvil_command;
use crate::polling::poll_until;
use crate::port::free_port;

/// How often another port is tried.
const STARTS_MAX: usize = 5;
/// How long anvil may take until it listens.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// A running anvil, killed and reaped on drop. It ends with the thread that starts it, too, lest a test that is killed leaves it.
#[derive(Debug)]
pub struct ChainNode {
    process: Child,
    port: u16,
}

impl ChainNode {
    /// The id of its chain.
    pub const CHAIN: u64 = 31_337;
    /// Its first account, whose transactions need no signature.
    pub const ACCOUNT: &'static str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
    /// Where the first contract of that account is.
    pub const TOKEN: &'static str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
    /// Puts a contract in place that emits one ERC-20 transfer a call: `from`, `to` and `value` are its calldata.
    pub const EMITTER: &'static str = concat!(
        "0x6034600c60003960346000f3",
        "6020604060003760203560003",
        "57fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
        "60206000a300"
    );

    /// Starts one on a free port.
    pub fn start() -> anyhow::Result<Self> {
        for _ in 0..STARTS_MAX {
            if let Some(node) = Self::try_start(free_port(), &[])? {
                return Ok(node);
            }
        }
        bail!("anvil came up on none of {STARTS_MAX} ports")
    }

    /// Ends it and starts another chain with the same id in its place. The time of block 0, in seconds, makes it another.
    pub fn start_anew(&mut self, time: u32) -> anyhow::Result<()> {
        self.end();
        let anew = Self::try_start(self.port, &["--timestamp", &time.to_string()])?;
        *self = anew.context("anvil did not come up again on its port")?;
        Ok(())
    }

    /// Kills it.
    pub fn end(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// Where it listens, for HTTP and WebSocket alike.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its address for JSON-RPC over HTTP.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Its address for JSON-RPC over WebSocket.
    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.address())
    }

    /// The call that makes the contract of [`Self::EMITTER`] emit a transfer between the holders of two numbers.
    pub fn transfer_data(from: u8, to: u8, value: u64) -> String {
        format!("0x{from:064x}{to:064x}{value:064x}")
    }

    fn try_start(port: u16, arguments: &[&str]) -> anyhow::Result<Option<Self>> {
        let mut command = anvil_command()?;
        command
            .args(["--no-mining", "--silent", "--slots-in-an-epoch", "32", "--port", &port.to_string()])
            .args(arguments);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut node = Self { process: process.context("starting anvil")?, port };
        let connected = poll_until(START_PATIENCE, || {
            let is_up = TcpStream::connect(node.address()).is_ok();
            Ok((is_up || node.process.try_wait()?.is_some()).then_some(()))
        })?;
        let is_up = connected.is_some() && node.process.try_wait()?.is_none();
        Ok(is_up.then_some(node))
    }
}

impl Drop for ChainNode {
    fn drop(&mut self) {
        self.end();
    }
}
