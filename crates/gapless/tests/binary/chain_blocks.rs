//! Blocks of a chain, and an indexer that hands them in.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Hands blocks to a server that lets everyone in.
pub(crate) fn take(server: SocketAddr, blocks: &[String]) {
    let answer = try_take(server, blocks).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The same to one that may be down. Returns its answer.
pub(crate) fn try_take(server: SocketAddr, blocks: &[String]) -> io::Result<String> {
    let body = format!(r#"{{"blocks":[{}]}}"#, blocks.join(","));
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "POST /v1/chains/1/blocks?user=indexer HTTP/1.1\r\nhost: {server}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A block with one event, which gives alice 1.
pub(crate) fn block(number: u64, branch: char, parent: char) -> String {
    block_of(number, &hash(number, branch), &hash(number - 1, parent), &format!("{number}{branch}"))
}

/// The same with hashes of one's own.
pub(crate) fn block_of(number: u64, hash: &str, parent: &str, to: &str) -> String {
    format!(
        r#"{{"number":{number},"hash":"{hash}","parent":"{parent}","time":0,"events":[{{"log":0,"topic":"transfers","payload":{{"to":"{to}"}},"changes":[{{"key":"alice","add":"1"}}]}}]}}"#
    )
}

fn hash(number: u64, branch: char) -> String {
    format!("0x{number:062x}{:02x}", u32::from(branch))
}
