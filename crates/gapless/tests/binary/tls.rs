//! Encrypted connections: of the server to PostgreSQL, and of clients to a server behind a proxy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use gapless_testkit::Postgres;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::command::{Said, gapless, said};
use crate::send::demo;

#[test]
fn postgresql_is_spoken_to_in_secret_and_only_with_a_certificate_that_is_trusted() {
    let identity = Identity::new();
    let mut postgres = Postgres::start().unwrap();
    postgres
        .restart_with_tls(&identity.certified.cert.pem(), &identity.certified.signing_key.serialize_pem())
        .unwrap();
    let url = format!("{}?sslmode=require", postgres.url().replace("127.0.0.1", "localhost"));

    for trusted in [None, Some(&Identity::new())] {
        let refused = trusting(trusted, &["migrate", "--store", &url]);
        assert!(refused.complained().contains("certificate"), "{refused}");
    }
    let migrated = trusting(Some(&identity), &["migrate", "--store", &url]);
    assert!(migrated.printed().starts_with("applied V1__"), "{migrated}");
}

#[test]
fn a_server_behind_a_proxy_that_encrypts_is_reached_by_wss() {
    let (_folder, server) = demo();
    let identity = Identity::new();
    let runtime = Runtime::new().unwrap();
    let proxy = runtime.block_on(encrypting_proxy(server.address(), &identity));
    let url = format!("wss://localhost:{}", proxy.port());
    let arguments = ["send", "--url", &url, "--user", "alice", "--timeout", "5s", "demo", "hello"];

    assert_eq!(trusting(Some(&identity), &arguments).printed(), "3");
    let refused = trusting(Some(&Identity::new()), &arguments);
    assert!(refused.complained().contains("certificate"), "{refused}");
}

/// A certificate for `localhost` that vouches for itself, and a file with it.
struct Identity {
    certified: CertifiedKey<KeyPair>,
    file: PathBuf,
    _folder: TempDir,
}

impl Identity {
    fn new() -> Self {
        let certified = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("trusted.pem");
        fs::write(&file, certified.cert.pem()).unwrap();
        Self { certified, file, _folder: folder }
    }
}

/// Runs a command to its end that trusts one certificate, or else those that the machine does.
fn trusting(identity: Option<&Identity>, arguments: &[&str]) -> Said {
    let variables = identity.map(|identity| ("SSL_CERT_FILE", &identity.file));
    said(gapless(arguments).envs(variables))
}

/// Takes encrypted connections on a port of its own and passes on to `target` what they bring.
async fn encrypting_proxy(target: SocketAddr, identity: &Identity) -> SocketAddr {
    let key = identity.certified.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((incoming, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut plain = TcpStream::connect(target).await.unwrap();
                // Who distrusts the certificate hangs up.
                let Ok(mut secret) = acceptor.accept(incoming).await else { return };
                tokio::io::copy_bidirectional(&mut secret, &mut plain).await.ok();
            });
        }
    });
    address
}
