//! `gapless serve`: the server, from its configuration to its end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use gapless_server::{Beside, ChainTips, Config};
use gapless_store::{NewsReceiver, Store};
use gapless_tables::Tables;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config_flags::{ConfigFlags, ServerFlags};
use crate::demo;
use crate::follow;
use crate::logging;
use crate::open_files;
use crate::output::say;
use crate::signals::Signals;
use crate::tables_file;

/// Run the server, until SIGTERM or Ctrl-C.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    config: ConfigFlags,
    /// Make a conversation to try, and say how
    #[arg(long)]
    demo: bool,
}

/// Serves until it is told to stop, and then until everyone has been told.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    runtime.block_on(serve(arguments))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let config = arguments.config.gather(arguments.server.flags())?.check()?;
    logging::start(config.log);
    open_files::raise_limit();
    let chains = follow::read(&config.chains.follow)?;
    let tables = Tables::new(tables_file::read_all(&config.tables.serve)?, &config.auth.cursor_keys())?;
    let signals = Signals::catch().context("watching for SIGTERM")?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr().context("asking for the port")?;
    let (store, news) =
        gapless_store::open(&config.store).await.with_context(|| format!("opening {}", config.store))?;
    if arguments.demo {
        demo::make(&*store).await.context("making the demo conversation")?;
    }

    // Whoever started this process learns from it that one can connect, and where.
    say(format_args!("listening on http://{address}"))?;
    if arguments.demo {
        say(demo::how_to_try(address, &config.auth)?)?;
    }
    info!(%address, store = %config.store, "serving");
    let (stop, tips) = (CancellationToken::new(), ChainTips::default());
    let mut followers = follow::start(chains, &store, config.chains.reorg_blocks_max, &tips, &stop)?;
    let beside = Beside { tips, tables };
    let ended = run_gateway(listener, config, Arc::clone(&store), news, beside, signals).await;
    stop.cancel();
    while followers.join_next().await.is_some() {}
    store.close().await;
    info!("stopped");
    ended
}

/// Runs the gateway; drains it at the first signal, and ends the process at the second.
async fn run_gateway(
    listener: TcpListener,
    config: Config,
    store: Arc<dyn Store>,
    news: NewsReceiver,
    beside: Beside,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let (tell, told) = oneshot::channel::<()>();
    let until_told = async {
        // A sender that is gone means that there is nobody left to serve for.
        let _ = told.await;
    };
    let mut running = std::pin::pin!(gapless_server::run(listener, config, store, news, beside, until_told));
    tokio::select! {
        ended = &mut running => return ended.context("serving"),
        () = signals.next() => {}
    }
    info!("told to stop: draining; tell it again to end at once");
    let _ = tell.send(());
    tokio::select! {
        ended = &mut running => ended.context("draining"),
        () = signals.next() => {
            warn!("told to stop again: ending at once");
            std::process::exit(1);
        }
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) => bail!(
            "can't listen on {address} ({error}); stop what listens there, or choose another with `--listen`"
        ),
    }
}
