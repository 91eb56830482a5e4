use alloy_primitives::{U64, b256};
use gapless_proto::{BlockNumber, BlockRef};

use super::*;
use crate::topics::TopicConfig;

const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
const TOKEN: Address = Address::with_last_byte(0xaa);

// Chain behaviour 11
#[test]
fn an_empty_answer_is_suspicious_where_the_bloom_promises_logs() {
    let header = header(&[log(0)]);
    assert_eq!(check(&header, vec![]), Err(LogsFault::Promised { address: TOKEN, signature: TRANSFER }));
    assert_eq!(check(&header, vec![log(0)]).unwrap().len(), 1);
}

#[test]
fn a_block_without_logs_promises_nothing() {
    assert_eq!(check(&header(&[]), vec![]), Ok(CheckedLogs::new()));
}

// Chain behaviour 14
#[test]
fn a_bloom_of_zeros_says_nothing() {
    assert_eq!(check(&header(&[]), vec![log(0), log(12_345)]).unwrap().len(), 2);
}

// Chain behaviour 11
#[test]
fn what_can_not_be_a_log_of_the_block_is_refused() {
    let header = header(&[log(0)]);
    let with = |change: &dyn Fn(&mut Log)| {
        let mut wrong = log(0);
        change(&mut wrong);
        check(&header, vec![wrong]).unwrap_err()
    };
    let other = B256::repeat_byte(9);
    assert_eq!(with(&|log| log.removed = true), LogsFault::Removed { log: 0 });
    assert_eq!(
        with(&|log| log.block_hash = Some(other)),
        LogsFault::OtherBlock { hash: Some(BlockHash(other.0)) }
    );
    assert_eq!(with(&|log| log.block_hash = None), LogsFault::OtherBlock { hash: None });
    assert_eq!(with(&|log| log.log_index = None), LogsFault::NoIndex);
}

// Chain behaviour 11
#[test]
fn a_log_that_the_bloom_does_not_know_is_taken_from_receipts_alone() {
    let promised = header(&[log(0)]);
    let elsewhere = Log { address: Address::with_last_byte(1), ..log(1) };
    let mut of_others = log(1);
    of_others.topics[2] = B256::repeat_byte(7);
    for invented in [elsewhere, of_others] {
        let fault = LogsFault::Unpromised { log: 1, address: invented.address };
        assert_eq!(check(&promised, vec![log(0), invented.clone()]), Err(fault));
        let receipts = vec![Receipt { logs: vec![log(0), invented] }];
        assert_eq!(check_receipts(&promised, receipts).unwrap().len(), 2);
    }
}

#[test]
fn the_same_log_twice_counts_once_and_another_in_its_place_is_refused() {
    let header = header(&[log(0)]);
    assert_eq!(check(&header, vec![log(0), log(0)]).unwrap().len(), 1);
    let mut different = log(0);
    different.data = vec![1].into();
    assert_eq!(check(&header, vec![log(0), different]), Err(LogsFault::Contradiction { log: 0 }));
}

// Chain behaviour 11
#[test]
fn receipts_settle_what_the_bloom_leaves_open() {
    let mut unwanted = log(1);
    unwanted.address = Address::with_last_byte(1);
    let all = [log(0), unwanted];
    let promising = header(&all);
    let receipts = |logs: &[Log]| vec![Receipt { logs: vec![] }, Receipt { logs: logs.to_vec() }];

    assert_eq!(check_receipts(&promising, receipts(&all)).unwrap().len(), 2);
    assert_eq!(check_receipts(&promising, receipts(&all[1..])), Err(LogsFault::ReceiptsLackLogs));
    assert_eq!(check_receipts(&promising, vec![]), Err(LogsFault::ReceiptsLackLogs));
}

#[test]
fn a_block_holds_the_events_of_its_logs_in_their_order() {
    let header = header(&[log(0)]);
    let mut strange = log(1);
    strange.topics.truncate(1);
    let logs = check(&header, vec![log(7), strange, log(0)]).unwrap();
    let (block, undecodable) = decoded(&header, &logs, &topics());
    assert_eq!((block.at(), block.parent, block.time), (header.at, header.parent, 100));
    assert_eq!(block.events.iter().map(|event| event.log).collect::<Vec<_>>(), [0, 7]);
    assert_eq!(undecodable.iter().map(|log| log.log).collect::<Vec<_>>(), [1]);
}

fn check(header: &Header, logs: Vec<Log>) -> Result<CheckedLogs, LogsFault> {
    check_logs(header, logs, &topics())
}

fn topics() -> Topics {
    Topics::new(&[TopicConfig::erc20_balance("usdc", &TOKEN.to_string())]).unwrap()
}

fn header(logs: &[Log]) -> Header {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    Header {
        at: BlockRef { number: BlockNumber::new(5).unwrap(), hash: BlockHash([5; 32]) },
        parent: BlockHash([4; 32]),
        time: 100,
        bloom: (bloom != Bloom::ZERO).then(|| Box::new(bloom)),
    }
}

fn log(index: u64) -> Log {
    Log {
        address: TOKEN,
        topics: vec![TRANSFER, B256::ZERO, B256::ZERO],
        data: vec![0; 32].into(),
        block_hash: Some(B256::repeat_byte(5)),
        transaction_hash: None,
        log_index: Some(U64::from(index)),
        removed: false,
    }
}
