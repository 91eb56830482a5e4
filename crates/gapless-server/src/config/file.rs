//! A configuration as a TOML file.

use std::fs;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::key;
use super::raw::{Place, Typed, unknown_key};

/// Reads a file; what is wrong with it is added to `errors`.
pub(super) fn read(path: PathBuf, errors: &mut Vec<ConfigError>) -> Vec<Typed> {
    match fs::read_to_string(&path) {
        Ok(text) => File { path: &path, text: &text, typed: Vec::new(), errors }.read(),
        Err(error) => {
            errors.push(ConfigError::File { path, error });
            Vec::new()
        }
    }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
    typed: Vec<Typed>,
    errors: &'a mut Vec<ConfigError>,
}

impl File<'_> {
    fn read(mut self) -> Vec<Typed> {
        match DeTable::parse(self.text) {
            Ok(table) => self.read_table("", table.get_ref()),
            Err(error) => {
                let place = self.place(error.span().unwrap_or_default().start);
                self.errors.push(ConfigError::Syntax { place, message: error.message().to_owned() });
            }
        }
        self.typed
    }

    fn read_table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let place = self.place(name.span().start);
            let name = format!("{prefix}{}", name.get_ref());
            match (key::find(&name), value.get_ref()) {
                (None, DeValue::Table(table)) if is_section(&name) => {
                    self.read_table(&format!("{name}."), table);
                }
                (None, _) => self.errors.push(unknown_key(name, place)),
                (Some(key), value) => match values(value) {
                    Some(values) if key.is_list || values.len() == 1 => {
                        self.typed.push(Typed { key, values, place });
                    }
                    _ => self.errors.push(ConfigError::Value {
                        place,
                        key: key.name,
                        fault: format!("can't be {}", if value.is_array() { "an array" } else { "a table" }),
                        remedy: format!("write a text; it is {}", key.meaning),
                    }),
                },
            }
        }
    }

    fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        Place::File { path: self.path.to_path_buf(), line }
    }
}

fn is_section(name: &str) -> bool {
    key::KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(section, _)| section == name))
}

/// One value, or those of a list; `None` for what is neither.
fn values(value: &DeValue<'_>) -> Option<Vec<String>> {
    let DeValue::Array(values) = value else {
        return Some(vec![text(value)?]);
    };
    values.iter().map(Spanned::get_ref).map(text).collect()
}

fn text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
