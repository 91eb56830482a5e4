//! The network between clients and the server.

use std::env;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use gapless_testkit::{FaultyProxy, GAPLESS_TEST_POSTGRES, Link, is_root};

use crate::http;

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Network {
    /// The machine's own
    Near,
    /// 500 ms to the other side, a tenth of the packets lost, 64 KiB/s a client; as root, who is given a network namespace, the kernel loses them
    Far,
    /// The same, with all of it done by a proxy: where a packet would be lost, what is behind it waits for a round trip
    Proxied,
}

/// How long a byte takes to the other side of a far network.
const FAR_DELAY: Duration = Duration::from_millis(500);
/// How many bytes a second each direction of a client's connection takes there.
const FAR_BYTES_PER_SECOND: u32 = 64 << 10;
/// One packet in so many is lost there.
const FAR_LOSS_ONE_IN: u32 = 10;

impl Network {
    /// Makes a line of its own to a server, that can be cut.
    pub(crate) fn line(self, server: SocketAddr) -> anyhow::Result<FaultyProxy> {
        let far = Link {
            delay: FAR_DELAY,
            bytes_per_second: Some(FAR_BYTES_PER_SECOND),
            resent_every: Some(FAR_LOSS_ONE_IN),
        };
        FaultyProxy::start_over(
            server,
            match self {
                Self::Near => Link::default(),
                Self::Far => Link { resent_every: None, ..far },
                Self::Proxied => far,
            },
        )
    }

    /// What it is called in reports, if it isn't the machine's own.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Near => None,
            Self::Far => Some("far"),
            Self::Proxied => Some("far by proxy"),
        }
    }

    /// Whether clients have to do with little.
    pub(crate) fn is_narrow(self) -> bool {
        match self {
            Self::Near => false,
            Self::Far | Self::Proxied => true,
        }
    }

    /// How long a byte takes to the other side.
    pub(crate) fn delay(self) -> Duration {
        if self.is_narrow() { FAR_DELAY } else { Duration::ZERO }
    }

    /// How long is listened for what must not be told.
    pub(crate) fn silence(self) -> Duration {
        Duration::from_millis(500) + 4 * self.delay()
    }

    /// Has the kernel lose packets of a server's port, where that is part of the network. Blocks of the indexer come by another way.
    pub(crate) async fn spoil(self, server: SocketAddr) -> anyhow::Result<()> {
        match self {
            Self::Near | Self::Proxied => return Ok(()),
            Self::Far => {}
        }
        let (port, probability) = (server.port().to_string(), (1.0 / f64::from(FAR_LOSS_ONE_IN)).to_string());
        let spared = http::SOURCE.to_string();
        for (port_of, not_with) in [("--dport", "-s"), ("--sport", "-d")] {
            let rule = ["-A", "INPUT", "-i", "lo", "-p", "tcp", port_of, &port, "!", not_with, &spared];
            let lost = ["-m", "statistic", "--mode", "random", "--probability", &probability, "-j", "DROP"];
            let status = tokio::process::Command::new("iptables").args(rule).args(lost).status().await;
            if !status.context("running iptables")?.success() {
                bail!("iptables can't lose packets of port {port}");
            }
        }
        Ok(())
    }
}

/// A slow network has small packets, and small buffers at its ends: they would take minutes of what a slow reader doesn't.
const IN_NAMESPACE: &str =
    r#"ip link set lo mtu 1500 up && echo "4096 16384 65536" > /proc/sys/net/ipv4/tcp_wmem && exec "$@""#;

/// Whether this process may have a network namespace of its own, and lose packets in it.
pub(crate) fn may_have_a_namespace() -> bool {
    let finds = |program: &str| {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    is_root() && ["unshare", "ip", "iptables"].into_iter().all(finds)
}

/// Runs this program again with the same arguments and one more, in a network namespace of its own: nothing outside has to bear what is
/// done to the network, and nothing outside can be reached. So a PostgreSQL is started inside.
pub(crate) fn run_in_namespace(one_more: &str) -> anyhow::Result<ExitStatus> {
    let program = env::current_exe().context("looking for this program")?;
    Command::new("unshare")
        .args(["--net", "--", "sh", "-c", IN_NAMESPACE, "sh"])
        .arg(program)
        .args(env::args_os().skip(1))
        .arg(one_more)
        .env_remove(GAPLESS_TEST_POSTGRES)
        .status()
        .context("running unshare")
}
