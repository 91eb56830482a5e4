//! What stops work on a copy, for people.

use gapless_proto::ErrorCode;
use gapless_tables::replicate::{Fault, RunError, SourceFault};

/// What has stopped a copy, and what mends it from here.
pub(crate) fn with_hint(error: &RunError) -> String {
    let RunError::Stopped(Fault::Source(fault)) = error else { return chain(error) };
    let said = chain(error);
    if fault.is_expired() {
        return format!(
            "{said}\n`gapless replicate --anew` takes the copy away and makes it again; if it is only that `--since` asked for a time too long \
             ago, ask for a later one, or for `-infinity`, which brings all rows and leaves deletes to the copy's own cursor"
        );
    }
    if fault.is_about_the_cursor() {
        return format!(
            "{said}\n`gapless replicate --anew` takes the copy away and makes it again; `--since TIME` reads again what was changed from then on, and \
             leaves rows that were deleted meanwhile to `gapless verify --repair`"
        );
    }
    match fault {
        SourceFault::Refused { code: ErrorCode::Unauthenticated | ErrorCode::Forbidden, .. } => format!(
            "{said}\nmake a token with `gapless token --user NAME --scope read:table:TABLE` and a secret of the server, and give it as \
             --token or GAPLESS_TOKEN; if the server runs with `--auth open`, give `--user NAME` instead"
        ),
        SourceFault::Refused { .. }
        | SourceFault::Unreachable { .. }
        | SourceFault::Strange { .. }
        | SourceFault::Page(_)
        | SourceFault::TooLarge => said,
    }
}

/// An error and what lies below it.
fn chain(error: &RunError) -> String {
    match std::error::Error::source(error) {
        Some(below) => format!("{below}; {error}"),
        None => error.to_string(),
    }
}
