//! How large a page may be.

use gapless_proto::Page;

/// The longest page in bytes of bodies, so that a page of large messages stays one that clients take.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Leaves the last entries of a page that is too large to the next one.
pub(crate) fn shortened(mut page: Page) -> Page {
    page.shorten_to(PAGE_BYTES_MAX);
    page
}
