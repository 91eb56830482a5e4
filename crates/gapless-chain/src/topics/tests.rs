use alloy_primitives::{Bytes, U64, U256, b256};

use super::*;

const TOKEN: &str = "0x00000000000000000000000000000000000000AA";
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

#[test]
fn topics_are_declared_in_toml() {
    let topics = topics(
        r#"
        [[topics]]
        name = "usdc"
        addresses = ["0x00000000000000000000000000000000000000aa"]
        builtin = "erc20_balance"

        [[topics]]
        name = "prices"
        addresses = ["0x00000000000000000000000000000000000000aa", "0x00000000000000000000000000000000000000bb"]
        event = "event Priced(bytes32 indexed pair, uint price)"
        key = "pair"
        value = "price"
        "#,
    )
    .unwrap();
    assert_eq!(topics.addresses().len(), 2);
    assert_eq!(topics.signatures().len(), 2);
    assert_eq!(topics.wanted().count(), 3);
}

#[test]
fn a_declaration_that_can_not_be_is_refused_with_what_to_write() {
    for (declaration, remedy) in [
        (r#"name = "a b""#, "leave out"),
        ("addresses = []", "list the contracts in `addresses`"),
        (r#"addresses = ["0x12"]"#, "40 hexadecimal digits"),
        (r#"event = "Transfer(address""#, "write it as in `Transfer("),
        (r#"event = "Transfer(adress from)""#, "write it as in `Transfer("),
        (r#"event = "E(uint256)""#, "argument 1 has none"),
        (r#"event = "E(uint256 a, uint256 a)""#, "argument 2 has none, or one that is taken"),
        (r#"event = "E(uint256 a) anonymous""#, "anonymous"),
        (r#"event = "E(uint8 indexed a, uint8 indexed b, uint8 indexed c, uint8 indexed d)""#, "is no event"),
        (r#"key = "from""#, "both `key` and `value`"),
        ("key = \"from\"\nvalue = \"amount\"", "no argument `amount`; it has: from, to, value, memo"),
        ("key = \"memo\"\nvalue = \"value\"", "take an address"),
        (r#"builtin = "erc20_balance""#, "either `event` or `builtin`"),
    ] {
        let error = topics(&declared_with(declaration)).unwrap_err();
        let text = format!("{error}");
        assert!(text.contains(remedy), "{declaration}: {text}");
    }
    let several = "[[topics]]\nname = \"a\"\nbuiltin = \"erc20_balance\"\naddresses = [\n\
                   \"0x00000000000000000000000000000000000000aa\", \"0x00000000000000000000000000000000000000bb\"]";
    assert!(topics(several).unwrap_err().to_string().contains("topics of their own"));
    let twice = declared_with("").repeat(2);
    assert!(topics(&twice).unwrap_err().to_string().contains("rename one"));
    let without = declared_with("addresses").replace("\naddresses\n", "");
    assert!(topics(&without).unwrap_err().to_string().contains("all contracts"), "{without}");
    let misspelt = toml::from_str::<Declarations>(&declared_with("adresses = []")).unwrap_err();
    assert!(misspelt.to_string().contains("unknown field `adresses`"), "{misspelt}");
}

#[test]
fn an_address_whose_checksum_is_wrong_is_refused() {
    let declared = |address: &str| Topics::new(&[TopicConfig::erc20_balance("usdc", address)]);
    let good = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";
    let digits = good.trim_start_matches("0x");
    for address in [good, digits, &good.to_lowercase(), &format!("0x{}", digits.to_uppercase())] {
        assert!(declared(address).is_ok(), "{address}");
    }
    for (from, to) in [("eB48", "EB48"), ("b86991", "b86992")] {
        let error = declared(&good.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains("capital letters don't fit"), "{error}");
    }
}

#[test]
fn a_log_becomes_named_arguments_with_exact_values() {
    let topics = topics(
        r#"
        [[topics]]
        name = "all"
        addresses = ["0x00000000000000000000000000000000000000aa"]
        event = "All(uint256 big, int8 small, bool is, bytes raw, string text, bytes4 four, address[] who, (uint8,uint8) two)"
        "#,
    )
    .unwrap();
    let event = topics.declared[0].event.clone();
    let values = DynSolValue::Tuple(vec![
        DynSolValue::Uint(U256::MAX, 256),
        DynSolValue::Int("-128".parse().unwrap(), 8),
        DynSolValue::Bool(true),
        DynSolValue::Bytes(vec![0, 255]),
        DynSolValue::String("\"é\"\n".to_owned()),
        DynSolValue::FixedBytes(B256::repeat_byte(0xab), 4),
        DynSolValue::Array(vec![DynSolValue::Address(TOKEN.parse().unwrap())]),
        DynSolValue::Tuple(vec![DynSolValue::Uint(U256::from(1), 8), DynSolValue::Uint(U256::from(2), 8)]),
    ]);
    let log = log(vec![event.topic_0().unwrap()], values.abi_encode_sequence().unwrap());
    let events = topics.events(12_345, &log);
    let [Ok(event)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(event.log, 12_345);
    assert_eq!(
        event.payload.as_str(),
        concat!(
            r#"{"address":"0x00000000000000000000000000000000000000aa","#,
            r#""tx":"0x7777777777777777777777777777777777777777777777777777777777777777","args":{"#,
            r#""big":"115792089237316195423570985008687907853269984665640564039457584007913129639935","#,
            r#""small":"-128","is":true,"raw":"0x00ff","text":"\"é\"\n","four":"0xabababab","#,
            r#""who":["0x00000000000000000000000000000000000000aa"],"two":["1","2"]}}"#
        )
    );
}

#[test]
fn a_log_that_no_transaction_made_has_none() {
    for hash in [None, Some(B256::ZERO)] {
        let log = Log { transaction_hash: hash, ..transfer(0x01, 0x02, 7) };
        let events = erc20().events(0, &log);
        let [Ok(event)] = &events[..] else { panic!("{events:?}") };
        assert!(!event.payload.as_str().contains("tx"), "{event:?}");
    }
}

// Chain behaviour 15
#[test]
fn a_transfer_moves_a_balance_and_the_zero_address_has_none() {
    let topics = erc20();
    for (from, to, changes) in [
        (0x01, 0x02, vec![(0x01, "-7"), (0x02, "7")]),
        (0x00, 0x02, vec![(0x02, "7")]),
        (0x01, 0x00, vec![(0x01, "-7")]),
        (0x01, 0x01, vec![(0x01, "-7"), (0x01, "7")]),
    ] {
        let events = topics.events(0, &transfer(from, to, 7));
        let [Ok(event)] = &events[..] else { panic!("{events:?}") };
        let expected: Vec<_> = changes.into_iter().map(|(holder, amount)| added_by(holder, amount)).collect();
        assert_eq!(event.changes, expected);
    }
}

#[test]
fn a_snapshot_keeps_the_value_argument_under_the_key_argument() {
    let topics =
        topics(&declared_with("key = \"from\"\nvalue = \"value\"").replace(", string memo", "")).unwrap();
    let events = topics.events(0, &transfer(0x01, 0x02, 7));
    let [Ok(event)] = &events[..] else { panic!("{events:?}") };
    let [Change { key, effect: Effect::Set(value) }] = &event.changes[..] else { panic!("{event:?}") };
    assert_eq!((key.as_str(), value.as_str()), (format!("{:#x}", holder(0x01)).as_str(), r#""7""#));
}

#[test]
fn a_log_that_only_looks_like_the_event_is_named_and_no_event() {
    let mut of_erc721 = transfer(0x01, 0x02, 7);
    of_erc721.topics.push(B256::ZERO);
    of_erc721.data = Bytes::new();
    let events = erc20().events(4, &of_erc721);
    let [Err(undecodable)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((undecodable.topic.as_str(), undecodable.log), ("usdc", 4));

    let mut other = transfer(0x01, 0x02, 7);
    other.address = Address::ZERO;
    assert!(erc20().events(4, &other).is_empty(), "another contract");
    other.topics.clear();
    assert!(erc20().events(4, &other).is_empty(), "no signature");
}

#[derive(Debug, Deserialize)]
struct Declarations {
    topics: Vec<TopicConfig>,
}

fn declarations(toml: &str) -> Declarations {
    toml::from_str(toml).unwrap()
}

fn topics(toml: &str) -> Result<Topics, TopicError> {
    Topics::new(&declarations(toml).topics)
}

/// A good declaration, with something else in one place.
fn declared_with(change: &str) -> String {
    let changed: Vec<&str> = change.lines().filter_map(|line| line.split(' ').next()).collect();
    let lines = [
        ("name", "name = \"a\"".to_owned()),
        ("addresses", format!("addresses = [\"{TOKEN}\"]")),
        (
            "event",
            "event = \"Transfer(address indexed from, address indexed to, uint256 value, string memo)\""
                .to_owned(),
        ),
    ];
    let kept = lines.into_iter().filter(|(key, _)| !changed.contains(key));
    let kept: Vec<String> = kept.map(|(_, line)| line).collect();
    format!("[[topics]]\n{}\n{change}\n", kept.join("\n"))
}

fn erc20() -> Topics {
    Topics::new(&[TopicConfig::erc20_balance("usdc", TOKEN)]).unwrap()
}

fn holder(last: u8) -> Address {
    Address::with_last_byte(last)
}

fn added_by(last: u8, amount: &str) -> Change {
    let key = ValueKey::new(&format!("{:#x}", holder(last))).unwrap();
    Change { key, effect: Effect::Add(amount.parse().unwrap()) }
}

fn transfer(from: u8, to: u8, amount: u64) -> Log {
    let topics = vec![TRANSFER, holder(from).into_word(), holder(to).into_word()];
    log(topics, U256::from(amount).to_be_bytes_vec())
}

fn log(topics: Vec<B256>, data: Vec<u8>) -> Log {
    Log {
        address: TOKEN.parse().unwrap(),
        topics,
        data: data.into(),
        block_hash: Some(B256::ZERO),
        transaction_hash: Some(B256::repeat_byte(0x77)),
        log_index: Some(U64::ZERO),
        removed: false,
    }
}
