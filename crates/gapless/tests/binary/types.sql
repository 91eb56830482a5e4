CREATE TYPE mood AS ENUM ('sad', 'ok', 'Happy');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TABLE "Types" (
    "Id" bigint PRIMARY KEY, "my ""label""" text COLLATE "C", num numeric, num2 numeric(38,18), f8 double precision, f4 real, j jsonb, jt json,
    arr int[], arr2 text[][], by bytea, u uuid, ts timestamp, tstz timestamptz, d date, t time, ttz timetz, iv interval, e mood, es mood[],
    dm posint, inet inet, mac macaddr, r int4range, b bit(5), x xml, m money, pt point, bo boolean, small smallint,
    gen int GENERATED ALWAYS AS (small * 2) STORED, seq int GENERATED ALWAYS AS IDENTITY, updated_at timestamptz NOT NULL
);
INSERT INTO "Types" VALUES
    (1, 'plain', 12345678901234567890.123456789012345678901234567890, 0.000000000000000001, 0.1, 0.1,
     '{"n":12345678901234567890.000000001,"u":"\u00e9"}', '{"a":1,"a":2}', '[2:4]={1,NULL,3}', '{{a,"b,c"},{NULL,"q\"q"}}', '\x00ff10',
     '11111111-2222-3333-4444-555555555555', '2026-01-01 00:00:00.000001', '2026-01-01 00:00:00.000001+05:30', '2026-01-01',
     '23:59:59.999999', '23:59:59.999999+05:30', '1 year 2 mons 3 days 04:05:06.000007', 'Happy', '{sad,NULL}', 5, '10.0.0.1/8',
     '08:00:2b:01:02:03', '[1,10)', '10101', '<a>b</a>', '$1,234.56', '(1,2)', true, 7, DEFAULT, DEFAULT, '2026-01-01 00:00:00.000001+00'),
    (-9223372036854775808, E'tab\tnl\n\\N', 'NaN', NULL, 'NaN', 'NaN', NULL, NULL, '{}', '{}', '\x', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, NULL, NULL, 'empty', NULL, NULL, NULL, NULL, false, -32768, DEFAULT, DEFAULT, '2026-01-01 00:00:00.000002+00'),
    (9223372036854775807, '', NULL, NULL, 'Infinity', '-Infinity', 'null', 'null', NULL, NULL, NULL, NULL, 'infinity', '-infinity', 'infinity',
     '24:00:00', '24:00:00+00', '-1 days +23:00', 'sad', '{}', 1, '::1', NULL, '(,)', NULL, NULL, '-$0.01', NULL, NULL, NULL, DEFAULT, DEFAULT,
     'infinity'),
    (4, NULL, NULL, NULL, '-0', '-0', '1', '1', NULL, NULL, NULL, NULL, '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 BC',
     NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT, DEFAULT, '0044-03-15 12:00:00+00 BC'),
    (5, NULL, NULL, NULL, 5e-324, 1e-45, '"s"', '"s"', NULL, NULL, NULL, NULL, '294276-12-31 23:59:59.999999',
     '294276-12-31 23:59:59.999999+00', '5874897-12-31', NULL, NULL, '178000000 years', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
     NULL, NULL, NULL, DEFAULT, DEFAULT, '-infinity');
