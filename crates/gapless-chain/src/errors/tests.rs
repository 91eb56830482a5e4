use super::*;

fn too_large(blocks: u64) -> Trouble {
    Trouble::RangeTooLarge(RangeHint { blocks: Some(blocks) })
}

const SMALLER: Trouble = Trouble::RangeTooLarge(RangeHint { blocks: None });
const SLOWER: Trouble = Trouble::RateLimited { retry_after: None };

// Chain behaviour 11
#[test]
fn a_range_that_is_too_large_is_known_in_all_texts_of_providers() {
    for (code, text, trouble) in [
        (-32000, "requested too many blocks from 1 to 9000, maximum is set to 2048", too_large(2_048)),
        (-32000, "Max range: 1000", too_large(1_000)),
        (-32000, "Maximum allowed number of requested blocks is 3500", too_large(3_500)),
        (-32602, "Try with this block range [0x10, 0x1f].", too_large(16)),
        (-32600, "block range is too wide", SMALLER),
        (-32602, "this block range should work: [0x1f, 0x10]", too_large(16)),
        (-32000, "eth_getLogs is limited to a 10,000 range", too_large(10_000)),
        (-32000, "query is limited to 500 blocks", too_large(500)),
        (-32000, "exceeds the range allowed for your plan (5000 > 2000)", too_large(2_000)),
        (-32000, "Block range limit exceeded.", SMALLER),
        (-32000, "please limit the query to at most 1000 blocks", too_large(1_000)),
        (-32000, "maximum block range: 2000", too_large(2_000)),
        (-32000, "query exceeds max block range 100000", too_large(100_000)),
        (-32602, "query exceeds max results 20000, retry with the range 100-149", too_large(50)),
        (-32000, "query exceeds max results 20000", SMALLER),
        (-32000, "block range greater than 10000 max", too_large(10_000)),
        (-32000, "block range exceeds 1024", too_large(1_024)),
        (-32000, "eth_getLogs range is too large, max is 1k blocks", too_large(1_000)),
        (-32000, "eth_getLogs range is too large, max is 10k blocks", too_large(10_000)),
        (-32000, "eth_getLogs range is too large, max is 1k/10k blocks", too_large(1_000)),
        (-32005, "query returned more than 10000 results", SMALLER),
        (-32602, "range 5000 exceeds limit of 1000", too_large(1_000)),
        (-32008, "response is too big", SMALLER),
        (35, "ranges over 10000 blocks are not supported on freetier", too_large(10_000)),
        (-32000, "Max range: 0", SMALLER),
        (-32000, "Max range: 99999999999999999999999", SMALLER),
    ] {
        assert_eq!(classify(code, text), trouble, "{code} {text}");
    }
}

// Chain behaviour 11
#[test]
fn who_asks_too_often_is_told_to_wait_and_not_to_ask_for_less() {
    for (code, text) in [
        (429, "go away"),
        (-32000, "rate limit exceeded"),
        (-32005, "Too Many Requests"),
        (-32005, "limit exceeded"),
        (-32000, "daily quota exceeded"),
        (-32012, "credits limited to 6000/sec"),
        (-32007, "100/second request limit reached - reduce calls per second"),
    ] {
        assert_eq!(classify(code, text), SLOWER, "{code} {text}");
    }
    let in_3_s = Some(Duration::from_secs(3));
    assert_eq!(classify_http(429, "", in_3_s), Trouble::RateLimited { retry_after: in_3_s });
    assert_eq!(classify_http(429, "block range is too wide", None), SLOWER);
    assert_eq!(classify_http(503, "", in_3_s), Trouble::RateLimited { retry_after: in_3_s });
}

// Chain behaviours 11, 14
#[test]
fn a_block_that_a_node_does_not_have_may_be_had_elsewhere() {
    for (code, text, trouble) in [
        (-32000, "unknown block", Trouble::UnknownBlock),
        (-32000, "header not found", Trouble::UnknownBlock),
        (-32603, "hash 0x12 is not currently canonical", Trouble::UnknownBlock),
        (-32603, "invalid block height: 99", Trouble::UnknownBlock),
        (-32000, "cannot query unfinalized data", Trouble::UnknownBlock),
        (-32602, "BlockOutOfRangeError: block height is 5 but requested was 9", Trouble::UnknownBlock),
        (1, "requested epoch was a null round (2147483)", Trouble::NullRound),
    ] {
        assert_eq!(classify(code, text), trouble, "{code} {text}");
    }
}

#[test]
fn what_a_node_will_refuse_again_is_told_from_what_passes() {
    for (code, text, trouble) in [
        (-32601, "the method eth_getBlockReceipts does not exist", Trouble::Unsupported),
        (-32602, "invalid argument 0: hex string without 0x prefix", Trouble::Fatal),
        (-32002, "request timed out", Trouble::TimedOut),
        (-32603, "internal error", Trouble::Passing),
        (-32000, "something else", Trouble::Passing),
    ] {
        assert_eq!(classify(code, text), trouble, "{code} {text}");
    }
    for (status, trouble) in [
        (401, Trouble::Fatal),
        (404, Trouble::Fatal),
        (408, Trouble::TimedOut),
        (413, SMALLER),
        (500, Trouble::Passing),
        (502, Trouble::Passing),
        (504, Trouble::TimedOut),
    ] {
        assert_eq!(classify_http(status, "<html>", None), trouble, "{status}");
    }
    assert_eq!(classify_http(400, "block range is too wide", None), SMALLER);
}
