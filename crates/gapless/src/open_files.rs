//! How many connections the system lets one process have.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Raises the limit of open files, of which each connection is one, as far as this process may.
///
/// Shells and service managers start programs with a limit of about a thousand, for the sake of programs that can't cope with more.
pub(crate) fn raise_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        debug!(soft, hard, "raised the limit of open files");
        Ok(())
    });
    if let Err(error) = raised {
        warn!(%error, "the limit of open files stays as it is; it bounds how many clients can connect");
    }
}
