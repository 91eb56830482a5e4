//! How PostgreSQL carries out our statements (test only).

use gapless_testkit::SharedPostgres;
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::connection::Connector;
use super::schema;

/// A connection like those of the store, to a database of its own.
pub(super) async fn connect() -> Client {
    let connector = Connector::new(&SharedPostgres::from_environment().fresh_database()).unwrap();
    schema::migrate(&connector).await.unwrap();
    connector.connect().await.unwrap().0
}

/// How a statement would be carried out, whatever its parameters are.
pub(super) async fn plan(client: &Client, statement: &str) -> Plan {
    let count = (1..).take_while(|number| statement.contains(&format!("${number}"))).count();
    explain(client, "", statement, &vec!["NULL"; count]).await
}

/// How a statement is carried out with these parameters, and what it touches.
pub(super) async fn carry_out(client: &Client, statement: &str, params: &[&str]) -> Plan {
    explain(client, "ANALYZE, BUFFERS, TIMING OFF, ", statement, params).await
}

async fn explain(client: &Client, options: &str, statement: &str, params: &[&str]) -> Plan {
    let arguments = match params {
        [] => String::new(),
        params => format!("({})", params.join(", ")),
    };
    client.batch_execute(&format!("PREPARE explained AS {statement}")).await.unwrap();
    let explain = format!("EXPLAIN ({options}FORMAT JSON) EXECUTE explained{arguments}");
    let answer = client.simple_query(&explain).await.unwrap();
    client.batch_execute("DEALLOCATE explained").await.unwrap();
    let texts = answer.iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0)
    });
    let json: String = texts.collect();
    let mut json: Value = serde_json::from_str(&json).unwrap();
    Plan(json[0]["Plan"].take())
}

/// A plan, as PostgreSQL tells it.
#[derive(Debug)]
pub(super) struct Plan(Value);

impl Plan {
    /// The kinds of its nodes.
    pub(super) fn kinds(&self) -> Vec<&str> {
        self.nodes().into_iter().filter_map(|node| node["Node Type"].as_str()).collect()
    }

    /// The tables that it reads from end to end.
    pub(super) fn tables_read_whole(&self) -> Vec<&str> {
        let nodes = self.nodes().into_iter();
        let scans =
            nodes.filter(|node| node["Node Type"].as_str().is_some_and(|kind| kind.ends_with("Scan")));
        scans
            .filter(|scan| scan["Index Cond"].is_null() && scan["TID Cond"].is_null())
            .filter_map(|scan| scan["Relation Name"].as_str())
            .collect()
    }

    /// How many rows of a table were fetched.
    pub(super) fn rows_of(&self, table: &str) -> u64 {
        let scans = self.nodes().into_iter().filter(|node| node["Relation Name"] == table);
        scans
            .map(|node| {
                let rows = number(node, "Actual Rows") + number(node, "Rows Removed by Filter");
                rows * number(node, "Actual Loops")
            })
            .sum()
    }

    /// How many pages of tables and indexes were looked at.
    pub(super) fn pages(&self) -> u64 {
        number(&self.0, "Shared Hit Blocks") + number(&self.0, "Shared Read Blocks")
    }

    fn nodes(&self) -> Vec<&Value> {
        let mut nodes = vec![&self.0];
        let mut next = 0;
        while let Some(node) = nodes.get(next) {
            nodes.extend(node["Plans"].as_array().into_iter().flatten());
            next += 1;
        }
        nodes
    }
}

fn number(node: &Value, name: &str) -> u64 {
    node[name].as_u64().unwrap_or_default()
}
