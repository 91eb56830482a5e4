//! The table and the statements that write it.

/// Makes the table, with its index and its trigger.
pub(super) const CREATE: &str = "
CREATE SEQUENCE orders_id;
CREATE SEQUENCE orders_version;
CREATE TABLE orders (
    id bigint PRIMARY KEY DEFAULT nextval('orders_id'),
    status text NOT NULL DEFAULT 'pending',
    amount numeric(18,4) NOT NULL DEFAULT 0,
    note text,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE INDEX orders_cursor ON orders (updated_at, id);
CREATE FUNCTION orders_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    NEW.version := nextval('orders_version');
    RETURN NEW;
END $$;
CREATE TRIGGER orders_stamp BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION orders_stamp();
";

pub(super) const INSERT: &str = "
INSERT INTO orders (amount, note)
SELECT number + 0.25, CASE WHEN number % 3 > 0 THEN 'order ' || number END FROM generate_series(1, $1::int) AS number
RETURNING id, version";

pub(super) const INSERT_AGAIN: &str =
    "INSERT INTO orders (id, note) VALUES ($1, 'again') RETURNING id, version";

pub(super) const ADVANCE: &str = "
UPDATE orders SET status = CASE status WHEN 'pending' THEN 'paid' ELSE 'completed' END WHERE id = $1
RETURNING id, version";

pub(super) const DELETE: &str = "DELETE FROM orders WHERE id = $1 RETURNING id, version";

pub(super) const TRUTH: &str = "
SELECT id, status, version, (extract(epoch FROM updated_at) * 1000000)::bigint FROM orders";
