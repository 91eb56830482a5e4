//! A file that declares a chain to follow: its nodes and its topics.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use gapless_chain::{FollowConfig, NodeUrl, Start, TopicConfig, Topics};
use gapless_proto::{BlockHash, BlockNumber, ChainId, Topic, check_chain_topic};
use serde::Deserialize;

/// What stands in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainFile {
    chain: ChainNumber,
    #[serde(default)]
    nodes: Vec<String>,
    #[serde(default)]
    start: Option<BlockNumber>,
    #[serde(default)]
    genesis: Option<BlockHash>,
    #[serde(default)]
    poll: Option<String>,
    topics: Vec<TopicConfig>,
}

/// A chain id: a number, or a text for those that TOML's numbers don't hold.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ChainNumber {
    Number(u64),
    Text(String),
}

/// A chain to follow.
#[derive(Debug)]
pub(crate) struct FollowedChain {
    pub(crate) config: FollowConfig,
    pub(crate) topics: Topics,
}

impl FollowedChain {
    /// Reads a file. `nodes` stand in for those that the file names, if there are any.
    pub(crate) fn read(path: &Path, nodes: &[NodeUrl]) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text, nodes).with_context(|| path.display().to_string())
    }

    fn parse(text: &str, nodes: &[NodeUrl]) -> anyhow::Result<Self> {
        let file: ChainFile = toml::from_str(text)?;
        let chain = match file.chain {
            ChainNumber::Number(number) => ChainId::new(number),
            ChainNumber::Text(text) => text.parse()?,
        };
        if file.topics.is_empty() {
            bail!("no topic is declared; add one as in\n{EXAMPLE}");
        }
        let named = file.nodes.iter().map(|node| node.parse()).collect::<Result<Vec<NodeUrl>, _>>()?;
        let nodes = if nodes.is_empty() { named } else { nodes.to_vec() };
        if nodes.is_empty() {
            bail!("no node is named; add `nodes = [\"wss://node.example\"]`, or `--rpc` to `gapless follow`");
        }
        let mut config = FollowConfig::new(chain, nodes);
        config.genesis = file.genesis;
        if let Some(first) = file.start {
            config.start = Start::Block(first);
        }
        if let Some(poll) = &file.poll {
            config.poll = poll_pause(poll)?;
        }
        let topics = Topics::new(&file.topics)?;
        for declared in &file.topics {
            check_chain_topic(chain, &Topic::new(&declared.name)?)?;
        }
        Ok(Self { config, topics })
    }
}

fn poll_pause(text: &str) -> anyhow::Result<Duration> {
    let pause = humantime::parse_duration(text).with_context(|| format!("`poll` can't be `{text}`"))?;
    if !(Duration::from_millis(50)..=Duration::from_secs(600)).contains(&pause) {
        bail!("`poll` is a time from 50ms to 10m, as in `4s`");
    }
    Ok(pause)
}

const EXAMPLE: &str = r#"[[topics]]
name = "transfers"
addresses = ["0x..."]
event = "Transfer(address indexed from, address indexed to, uint256 value)""#;

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";

    fn file(head: &str, topic: &str) -> anyhow::Result<FollowedChain> {
        let topic = format!("[[topics]]\nname = \"t\"\naddresses = [\"{TOKEN}\"]\n{topic}");
        FollowedChain::parse(&format!("{head}\n{topic}"), &[])
    }

    // Chain behaviour 14
    #[test]
    fn a_chain_is_declared_in_a_few_lines() {
        let head = "chain = 31337\nnodes = [\"ws://127.0.0.1:8545\"]\nstart = 0\npoll = \"1s\"";
        let followed = file(head, "builtin = \"erc20_balance\"").unwrap();
        assert_eq!((followed.config.chain.get(), followed.config.nodes.len()), (31_337, 1));
        assert_eq!(followed.config.start, Start::Block(BlockNumber::default()));
        let largest = file(
            "chain = \"18446744073709551615\"\nnodes = [\"http://localhost\"]",
            "builtin = \"erc20_balance\"",
        );
        assert_eq!(largest.unwrap().config.chain.get(), u64::MAX);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = "chain = 1\nnodes = [\"http://localhost\"]";
        for (head, topic, words) in [
            (good, "evnt = \"X()\"", "evnt"),
            (good, "", "`event` or `builtin`"),
            ("chain = 1\nnodes = [\"ftp://x\"]", "builtin = \"erc20_balance\"", "ftp"),
            ("chain = \"one\"\nnodes = []", "builtin = \"erc20_balance\"", "chain id"),
            ("chain = 1\nnodes = []", "builtin = \"erc20_balance\"", "--rpc"),
            ("chain = 1", "builtin = \"erc20_balance\"", "no node is named"),
            (
                "chain = 1\nnodes = [\"http://localhost\"]\npoll = \"1h\"",
                "builtin = \"erc20_balance\"",
                "50ms to 10m",
            ),
        ] {
            let error = format!("{:#}", file(head, topic).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
        let once = format!("{:#}", file(good, "").unwrap_err());
        assert_eq!(once.matches("`event` or `builtin`").count(), 1, "{once}");
        let unreadable = "chain = 1\nnodes = [\"http://localhost\"]\n[[topics]]\nname = \"a,b\"\nbuiltin = \"erc20_balance\"";
        let unreadable = FollowedChain::parse(&format!("{unreadable}\naddresses = [\"{TOKEN}\"]"), &[]);
        assert!(unreadable.unwrap_err().to_string().contains("neither comma nor star"));
        let none = FollowedChain::parse("chain = 1\nnodes = []\ntopics = []", &[]).unwrap_err();
        assert!(none.to_string().contains("[[topics]]"), "{none}");
    }

    #[test]
    fn nodes_that_are_given_stand_in_for_those_of_the_file() {
        let given = ["wss://one.example".parse().unwrap(), "https://other.example".parse().unwrap()];
        let topic =
            format!("[[topics]]\nname = \"t\"\naddresses = [\"{TOKEN}\"]\nbuiltin = \"erc20_balance\"");
        for nodes in ["", "nodes = [\"http://localhost\"]\n"] {
            let followed = FollowedChain::parse(&format!("chain = 1\n{nodes}{topic}"), &given);
            assert_eq!(followed.unwrap().config.nodes, given);
        }
    }
}
