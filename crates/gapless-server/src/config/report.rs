//! The configuration that counts, for people.

use std::fmt;

use gapless_store::StoreUrl;

use super::key::Key;
use super::raw::{RawConfig, Typed};

/// All keys with their values, what they mean and where they are set, as a TOML file. Secrets are hidden.
impl fmt::Display for RawConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for typed in self.iter() {
            writeln!(f, "# {} ({})", typed.key.meaning, typed.key.variable())?;
            writeln!(f, "{:<48} # {}", assignment(typed), typed.place)?;
        }
        Ok(())
    }
}

fn assignment(typed: &Typed) -> String {
    let Key { name, is_list, is_secret, .. } = *typed.key;
    if typed.values.is_empty() {
        return format!("# {name} is not set");
    }
    if name == "store" {
        return match typed.values.concat().parse::<StoreUrl>() {
            Ok(store) => format!("{name} = {}", quoted(&store.to_string())),
            Err(_) => format!("# {name} is hidden"),
        };
    }
    if is_secret {
        return format!("# {name} has {}, hidden", typed.values.len());
    }
    let values: Vec<String> = typed.values.iter().map(|value| quoted(value)).collect();
    let values = values.join(", ");
    if is_list { format!("{name} = [{values}]") } else { format!("{name} = {values}") }
}

/// As a TOML string; a number as it is.
fn quoted(value: &str) -> String {
    match value.parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => toml::Value::from(value).to_string(),
    }
}
