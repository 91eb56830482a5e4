use super::explained::{connect, plan};
use super::page::{SERVICE_PAGE, USER_PAGE};
use super::reading;
use super::statements::Statements;

#[tokio::test]
async fn every_statement_walks_an_index_even_while_the_tables_are_empty() {
    let client = connect().await;
    for statement in Statements::ALL.iter().chain(reading::ALL).chain(&[USER_PAGE, SERVICE_PAGE]) {
        let plan = plan(&client, statement).await;
        for kind in ["Seq Scan", "Sort", "Hash Join", "Merge Join", "Hash"] {
            assert!(!plan.kinds().contains(&kind), "{kind} in {statement}: {plan:#?}");
        }
    }
}
