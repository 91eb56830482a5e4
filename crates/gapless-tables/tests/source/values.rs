//! Values of all types: exact in every form.

use std::fmt::Write as _;

use bytes::Bytes;
use futures_util::SinkExt as _;
use gapless_tables::{Consistency, Form, Page, PageRequest, Source};

use crate::follower::table;
use crate::shop::Shop;

/// 30 columns of all kinds, and rows of the values that others lose.
const TYPES: &str = r#"
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'Happy'); CREATE DOMAIN posint AS int CHECK (value > 0);
    CREATE TABLE t (id bigint PRIMARY KEY, label text, num numeric, num2 numeric(38,18), f8 double precision, f4 real, j jsonb, jt json,
        arr int[], arr2 text[][], "by" bytea, u uuid, ts timestamp, tstz timestamptz, d date, t time, ttz timetz, iv interval, e mood,
        dm posint, inet inet, mac macaddr, r int4range, b bit(5), x xml, m money, hs text, pt point, bo boolean, at timestamptz NOT NULL);
    INSERT INTO t (id,label,num,num2,f8,f4,j,jt,arr,arr2,by,u,ts,tstz,d,t,ttz,iv,e,dm,inet,mac,r,b,m,hs,pt,bo,at) VALUES
    (1,'plain',12345678901234567890.123456789012345678901234567890,0.000000000000000001,0.1,0.1,'{"n":12345678901234567890.000000001,"u":"\u00e9"}','{"a":1,"a":2}','{1,NULL,3}','{{a,"b,c"},{NULL,"q\"q"}}','\x00ff10','11111111-2222-3333-4444-555555555555','2026-01-01 00:00:00.000001','2026-01-01 00:00:00.000001+05:30','2026-01-01','23:59:59.999999','23:59:59.999999+05:30','1 year 2 mons 3 days 04:05:06.000007','Happy',5,'10.0.0.1/8','08:00:2b:01:02:03','[1,10)','10101','$1,234.56',E'tab\tnl\n\\N','(1,2)',true,'2026-01-01 00:00:00.000001+00'),
    (2,'nan','NaN',null,'NaN','NaN',null,null,'{}','{}','\x','00000000-0000-0000-0000-000000000000',null,null,null,null,null,null,null,null,null,null,'empty',null,null,'',null,false,'2026-01-01 00:00:00.000002+00'),
    (3,'inf','-Infinity',null,'Infinity','-Infinity','null','null',null,null,null,null,'infinity','-infinity','infinity','24:00:00','24:00:00+00','-1 days +23:00','sad',1,'::1',null,'(,)',null,'-$0.01',E'\u0001',null,null,'2026-01-01 00:00:00.000003+00'),
    (4,'bc',null,null,null,null,'1','1',null,null,null,null,'0044-03-15 12:00:00 BC','0044-03-15 12:00:00+00 BC','0044-03-15 BC',null,null,null,null,null,null,null,null,null,null,null,null,null,'2026-01-01 00:00:00.000004+00'),
    (5,'far',null,null,'-0','1e-45','"s"','"s"',null,null,null,null,'294276-12-31 23:59:59.999999','294276-12-31 23:59:59.999999+00','5874897-12-31',null,null,'178000000 years',null,null,null,null,null,null,null,null,null,null,'2026-01-01 00:00:00.000005+00');
    UPDATE t SET x = '<a b="c">ü</a>' WHERE id = 1; CREATE INDEX ON t (at, id)"#;

// Table behaviour 10
#[tokio::test]
async fn json_holds_exact_values() {
    let (_shop, source) = opened(TYPES).await;
    let json = format!("[{}]", text(&page(&source, Form::Json).await));
    let lines = text(&page(&source, Form::Lines).await);
    assert_eq!(json, format!("[{}]", lines.trim_end().replace('\n', ",")));
    for (line, expected) in lines.lines().zip(EXPECTED) {
        let expected: Vec<&str> = expected.lines().map(str::trim).collect();
        assert_eq!(line, format!(r#"{{"op":"upsert","row":{{{}}}}}"#, expected.concat()));
    }
    assert_eq!(lines.lines().count(), 5);
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}

/// The rows of [`TYPES`]. A JSON null in a column looks like no value.
const EXPECTED: [&str; 5] = [
    r#""id":"1","label":"plain","num":"12345678901234567890.123456789012345678901234567890","num2":"0.000000000000000001","f8":0.1,"f4":0.1,
       "j":{"n": 12345678901234567890.000000001, "u": "é"},"jt":{"a":1,"a":2},"arr":"{1,NULL,3}","arr2":"{{a,\"b,c\"},{NULL,\"q\\\"q\"}}","by":"\\x00ff10",
       "u":"11111111-2222-3333-4444-555555555555","ts":"2026-01-01 00:00:00.000001","tstz":"2025-12-31 18:30:00.000001+00","d":"2026-01-01",
       "t":"23:59:59.999999","ttz":"23:59:59.999999+05:30","iv":"1 year 2 mons 3 days 04:05:06.000007","e":"Happy","dm":"5","inet":"10.0.0.1/8",
       "mac":"08:00:2b:01:02:03","r":"[1,10)","b":"10101","x":"<a b=\"c\">ü</a>","m":"$1,234.56","hs":"tab\tnl\n\\N","pt":"(1,2)","bo":true,
       "at":"2026-01-01 00:00:00.000001+00""#,
    r#""id":"2","label":"nan","num":"NaN","num2":null,"f8":"NaN","f4":"NaN","j":null,"jt":null,"arr":"{}","arr2":"{}","by":"\\x",
       "u":"00000000-0000-0000-0000-000000000000","ts":null,"tstz":null,"d":null,"t":null,"ttz":null,"iv":null,"e":null,"dm":null,"inet":null,"mac":null,
       "r":"empty","b":null,"x":null,"m":null,"hs":"","pt":null,"bo":false,"at":"2026-01-01 00:00:00.000002+00""#,
    r#""id":"3","label":"inf","num":"-Infinity","num2":null,"f8":"Infinity","f4":"-Infinity","j":null,"jt":null,"arr":null,"arr2":null,"by":null,"u":null,
       "ts":"infinity","tstz":"-infinity","d":"infinity","t":"24:00:00","ttz":"24:00:00+00","iv":"-1 days +23:00:00","e":"sad","dm":"1","inet":"::1/128",
       "mac":null,"r":"(,)","b":null,"x":null,"m":"-$0.01","hs":"\u0001","pt":null,"bo":null,"at":"2026-01-01 00:00:00.000003+00""#,
    r#""id":"4","label":"bc","num":null,"num2":null,"f8":null,"f4":null,"j":1,"jt":1,"arr":null,"arr2":null,"by":null,"u":null,"ts":"0044-03-15 12:00:00 BC",
       "tstz":"0044-03-15 12:00:00+00 BC","d":"0044-03-15 BC","t":null,"ttz":null,"iv":null,"e":null,"dm":null,"inet":null,"mac":null,"r":null,"b":null,
       "x":null,"m":null,"hs":null,"pt":null,"bo":null,"at":"2026-01-01 00:00:00.000004+00""#,
    r#""id":"5","label":"far","num":null,"num2":null,"f8":-0,"f4":1e-45,"j":"s","jt":"s","arr":null,"arr2":null,"by":null,"u":null,
       "ts":"294276-12-31 23:59:59.999999","tstz":"294276-12-31 23:59:59.999999+00","d":"5874897-12-31","t":null,"ttz":null,"iv":"178000000 years","e":null,
       "dm":null,"inet":null,"mac":null,"r":null,"b":null,"x":null,"m":null,"hs":null,"pt":null,"bo":null,"at":"2026-01-01 00:00:00.000005+00""#,
];

// Table behaviour 10
#[tokio::test]
async fn the_binary_and_the_text_form_are_the_same_values() {
    let (shop, source) = opened(TYPES).await;
    same_in_a_copy(&shop, &source, "").await;
}

// Table behaviour 10
#[tokio::test]
async fn arrays_and_types_made_of_others_are_the_same_in_a_copy() {
    let (shop, source) = opened(
        r#"
        CREATE TYPE mood AS ENUM ('sad', 'Ha"p,py'); CREATE DOMAIN posint AS int CHECK (value > 0); CREATE DOMAIN small AS posint CHECK (value < 9);
        CREATE TYPE pair AS (a int, b text); CREATE TYPE moods AS RANGE (subtype = float8); CREATE EXTENSION hstore; CREATE EXTENSION citext;
        CREATE TABLE t (id int PRIMARY KEY, moods mood[], small small, smalls small[], pair pair, pairs pair[], ranges moods, h hstore, c citext,
            bounds int[], cube text[], multi int4multirange, dates daterange[], stamps timestamptz[], class regclass, classes regclass[], kind regtype,
            o oid, vec int2vector, path jsonpath, words tsvector, q tsquery, bits varbit, cash money[], letter "char", n name, lsn pg_lsn,
            snap pg_snapshot, x8 xid8, box box, poly polygon, circle circle, cidr cidr, mac macaddr8, ch char(4), numbers numeric(10,2)[],
            js json[], jbs jsonb[], bas bytea[], at timestamptz NOT NULL);
        CREATE INDEX ON t (at, id);
        INSERT INTO t VALUES (1, '{"Ha\"p,py",NULL,sad}', 3, '{1,NULL}', '(1,"x y")', ARRAY['(1,a)','(,)']::pair[], '[1.5,2)', 'a=>1,"b c"=>NULL', 'CiText',
            '[0:2]={1,NULL,3}', '[-1:0][3:4]={{a,b},{"",NULL}}', '{[1,3),[5,7)}', '{"[2026-01-01,infinity)",empty}', '{infinity,-infinity,"0044-03-15 12:00:00+00 BC"}',
            'pg_class', '{pg_class,t}', 'mood', 4294967295, '1 2 3', '$.a[*] ? (@ > 1)', 'a:1A ''b c'':2', 'a & !b', '10110', '{$1.50,NULL}', 'x', 'na"me', '16/B374D848',
            '10:20:10,14', '18446744073709551615', '(1,1),(0,0)', '((0,0),(1,0),(1,1))', '<(0,0),5>', '10.0.0.0/8', '08:00:2b:01:02:03:04:05', 'a', '{1.5,NaN}',
            ARRAY['{"a":  1}', 'null']::json[], ARRAY['{"a":1e400}', NULL]::jsonb[], ARRAY['\x', NULL, '\x00']::bytea[], now()),
            (2, '{}', NULL, NULL, NULL, '{}', 'empty', '', '', '{}', '[2:2]={x}', '{}', '{}', '{}', NULL, NULL, NULL, 0, '', '$', '', '', '', '{}', '', '', '0/0',
            '3:3:', '3', NULL, NULL, NULL, '::/0', NULL, '', '{}', '{}', '{}', '{}', now())"#,
    )
    .await;
    let column =
        |name: &str| source.description().columns.iter().find(|column| column.name == name).unwrap().binary;
    for name in [
        "moods", "small", "smalls", "pair", "pairs", "ranges", "h", "c", "class", "classes", "kind", "vec",
        "q",
    ] {
        assert!(!column(name), "{name}");
    }
    for name in ["bounds", "cube", "multi", "stamps", "numbers", "jbs", "o", "box", "letter", "n"] {
        assert!(column(name), "{name}");
    }
    same_in_a_copy(&shop, &source, "").await;
}

// Table behaviour 10
#[tokio::test]
async fn generated_and_identity_columns_and_quoted_names_are_the_same_in_a_copy() {
    let (shop, source) = opened(
        r#"CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "Price €" numeric(8,2), "select" numeric GENERATED ALWAYS AS ("Price €" * 2) STORED,
            "with ""quotes"" and 	tab" text, at timestamptz NOT NULL, op int, stamp text, k0 text, c1 text);
        CREATE INDEX ON t (at, id); INSERT INTO t ("Price €", "with ""quotes"" and 	tab", at, op, k0) VALUES (1.10, 'x', now(), 7, 'k'), (NULL, NULL, now(), NULL, NULL)"#,
    )
    .await;
    let lines = text(&page(&source, Form::Lines).await);
    assert!(lines.contains(r#""Price €":"1.10","select":"2.20","with \"quotes\" and \ttab":"x""#), "{lines}");
    same_in_a_copy(
        &shop,
        &source,
        r#"ALTER TABLE copy ALTER "select" DROP EXPRESSION; ALTER TABLE copy ALTER id DROP IDENTITY"#,
    )
    .await;
}

// Table behaviour 10
#[tokio::test]
async fn texts_that_are_written_here_are_those_of_postgres() {
    let (shop, source) = opened(MANY).await;
    let request = PageRequest { cursor: None, since: None, limit: 10_000, form: Form::Lines };
    let ours = text(&source.page(&request).await.unwrap());
    let columns = source.description().columns.iter().map(|column| column.name.as_str());
    let columns: Vec<&str> = columns.filter(|name| *name != "id").collect();
    let values = columns.iter().map(|name| format!("{name}::text")).collect::<Vec<_>>().join(", ");
    shop.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'").await;
    let theirs = shop.sql.query(&format!("SELECT {values} FROM t ORDER BY id"), &[]).await.unwrap();
    assert_eq!(ours.lines().count(), theirs.len());
    for (line, row) in ours.lines().zip(theirs) {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        for (index, name) in columns.iter().enumerate() {
            let value = &record["row"][name];
            let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(Some(written.as_str()), row.get(index), "{name} in {line}");
        }
    }
}

/// Values over the whole range of types, and those at the edges of days, months, years and groups of digits.
const MANY: &str = "
    CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL, ts timestamp(6), tz timestamptz(3), d date, small smallint, big bigint, n numeric,
        fixed numeric(20,6), u uuid, b boolean, v varchar(40));
    INSERT INTO t SELECT i, now(), s.ts, s.ts AT TIME ZONE 'UTC', s.ts::date, (i * 7 % 65536 - 32768)::smallint,
        (CASE i % 2 WHEN 0 THEN 1 ELSE -1 END * power(10, i % 19) + i)::bigint,
        CASE i % 2 WHEN 0 THEN 1 ELSE -1 END * (i % 10007) * power(10::numeric, i % 61 - 30), (i - 1500) / 7.0,
        md5(i::text)::uuid, i % 2 = 0, chr(i + 1) || '\"'
    FROM generate_series(1, 3000) i CROSS JOIN LATERAL (SELECT CASE i % 3
        WHEN 0 THEN timestamp '4712-01-01 00:00:00 BC' + i * interval '97 years 11 months 30 days 23:59:59.999999'
        WHEN 1 THEN timestamp '0002-01-01 00:00:00 BC' + i * interval '1 day 00:00:00.001'
        ELSE timestamp '1996-02-27 00:00:00' + i * interval '1 day -00:00:01' END AS ts) s;
    INSERT INTO t SELECT 3000 + row_number() OVER (), now(), '-infinity', 'infinity', 'infinity', -32768, -9223372036854775808, n, 0, NULL, NULL, ''
    FROM unnest('{0,0.00,-0.00010,1e131071,1e-16383,NaN,Infinity,-Infinity,9999,10000,99999999.9999,0.0001,0.00001}'::numeric[]) n;
    UPDATE t SET u = '00000000-0000-0000-0000-000000000000', b = true WHERE u IS NULL;
    CREATE INDEX ON t (at, id)";

// Table behaviour 10
#[tokio::test]
async fn json_over_several_lines_is_one_line_and_else_as_it_was_written() {
    let (_shop, source) = opened(
        r#"CREATE TABLE t (id int PRIMARY KEY, j json, at timestamptz NOT NULL); CREATE INDEX ON t (at, id);
        INSERT INTO t VALUES (1, E'{ "b":1,\r\n\t"a" : [1.00,  2e999],\n"b":"\\u0000 \\ud800 \\n"}', now())"#,
    )
    .await;
    let json = text(&page(&source, Form::Json).await);
    let written = "{ \"b\":1,\r\n\t\"a\" : [1.00,  2e999],\n\"b\":\"\\u0000 \\ud800 \\n\"}";
    assert!(json.contains(written), "{json}");
    let lines = text(&page(&source, Form::Lines).await);
    assert!(lines.contains(&written.replace(['\n', '\r'], " ")), "{lines}");
    assert_eq!(lines.lines().count(), 1);
}

// Table behaviour 10
#[tokio::test]
async fn a_deleted_row_has_its_key_and_nothing_else() {
    let (shop, source) = opened(
        "CREATE TABLE t (a text, id bigint, b int NOT NULL, note text, at timestamptz NOT NULL, PRIMARY KEY (b, id)); CREATE INDEX ON t (at, b, id);
         INSERT INTO t VALUES ('x', 5, 6, 'n', now())",
    )
    .await;
    let begun = page(&source, Form::Json).await.head.next_cursor;
    shop.execute("DELETE FROM t").await;
    let next = async |form| {
        source.page(&PageRequest { cursor: Some(begun.clone()), since: None, limit: 10, form }).await.unwrap()
    };
    assert_eq!(text(&next(Form::Json).await), r#"{"op":"delete","key":{"id":"5","b":6}}"#);
    let field = |value: &[u8]| [(value.len() as u32).to_be_bytes().to_vec(), value.to_vec()].concat();
    let null = vec![255; 4];
    let tuple = |op: &[u8], id: &[u8], b: &[u8]| {
        [vec![0, 6], field(op), null.clone(), field(id), field(b), null.clone(), null.clone()].concat()
    };
    assert_eq!(next(Form::Binary).await.rows, tuple(&[0, 1], &5_i64.to_be_bytes(), &6_i32.to_be_bytes()));
    assert_eq!(next(Form::Text).await.rows, tuple(b"1", b"5", b"6"));
}

/// A table that holds values, and its source.
async fn opened(schema: &str) -> (Shop, Source) {
    let shop = Shop::with(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET DateStyle = ''German''', current_database());
        EXECUTE format('ALTER DATABASE %I SET IntervalStyle = ''sql_standard''', current_database());
        EXECUTE format('ALTER DATABASE %I SET bytea_output = ''escape''', current_database());
        EXECUTE format('ALTER DATABASE %I SET extra_float_digits = ''-15''', current_database());
        EXECUTE format('ALTER DATABASE %I SET TimeZone = ''Asia/Kathmandu''', current_database()); END $$",
    )
    .await;
    shop.execute(schema).await;
    let source = shop.source(table(&[], Consistency::Strict)).await;
    (shop, source)
}

async fn page(source: &Source, form: Form) -> Page {
    source.page(&PageRequest { cursor: None, since: None, limit: 100, form }).await.unwrap()
}

fn text(page: &Page) -> String {
    String::from_utf8(page.rows.clone()).unwrap()
}

/// Copies the binary rows, and inserts those of the text form, into tables of the same types, and compares all values' texts.
async fn same_in_a_copy(shop: &Shop, source: &Source, prepare: &str) {
    let columns = &source.description().columns;
    shop.execute(&format!(
        "CREATE TABLE copy (LIKE t INCLUDING ALL); ALTER TABLE copy DROP gapless_xid; {prepare}"
    ))
    .await;
    let staging: Vec<String> = columns
        .iter()
        .map(|column| {
            format!("{} {}", quoted(&column.name), if column.binary { &column.type_name } else { "text" })
        })
        .collect();
    shop.execute(&format!("CREATE TABLE staging (\"$op\" int2, {})", staging.join(", "))).await;
    let copy = shop.sql.copy_in("COPY staging FROM STDIN (FORMAT binary)").await.unwrap();
    let mut copy = std::pin::pin!(copy);
    let rows = page(source, Form::Binary).await;
    let framed = [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec(), rows.rows, vec![255, 255]].concat();
    copy.send(Bytes::from(framed)).await.unwrap();
    assert_eq!(copy.finish().await.unwrap(), rows.head.records as u64);
    let mut values = String::new();
    for column in columns {
        write!(values, ", {}::text::{}", quoted(&column.name), column.type_name).unwrap();
    }
    let values = values.trim_start_matches(", ");
    shop.execute(&format!("INSERT INTO copy SELECT {values} FROM staging")).await;
    shop.execute("ALTER TABLE t DROP gapless_xid").await;
    let differing = "SELECT count(*) FROM (SELECT whole::text FROM t whole EXCEPT ALL SELECT whole::text FROM copy whole) x";
    assert_eq!(shop.sql.query_one(differing, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(
        shop.sql.query_one("SELECT count(*) FROM copy", &[]).await.unwrap().get::<_, i64>(0),
        rows.head.records as i64
    );
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
