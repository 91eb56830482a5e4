//! The files of the project, in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cargo::workspace;

/// All text files by their path below the root, with `/` between folders.
pub(super) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    pub(super) fn of_the_project() -> Self {
        let mut files = BTreeMap::new();
        collect(workspace(), "", &mut files);
        Self { files }
    }

    /// A tree to try a check on.
    pub(super) fn of<const COUNT: usize>(files: [(&str, &str); COUNT]) -> Self {
        let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned()));
        Self { files: files.collect() }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = File<'_>> {
        self.files.iter().map(|(path, text)| File { path, text })
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = File<'_>> {
        self.files().filter(|file| file.path.ends_with(".rs"))
    }

    pub(super) fn file(&self, path: &str) -> Option<File<'_>> {
        self.files.get_key_value(path).map(|(path, text)| File { path, text })
    }

    /// The names of the folders under `crates/`.
    pub(super) fn crate_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.files().filter_map(|file| file.crate_name()).collect();
        names.dedup();
        names
    }
}

#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl<'a> File<'a> {
    pub(super) fn extension(self) -> &'a str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The crate the file belongs to.
    pub(super) fn crate_name(self) -> Option<&'a str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
    }

    /// Its lines with their numbers and whether they are test code, as far as the names of files and a last
    /// `#[cfg(test)] mod` tell.
    pub(super) fn lines(self) -> impl Iterator<Item = Line<'a>> {
        let lines: Vec<_> = self.text.lines().collect();
        let tests_begin = if self.is_test_file() { 0 } else { inline_tests(&lines) };
        let numbered = lines.into_iter().enumerate();
        numbered.map(move |(index, text)| Line { number: index + 1, text, is_test: index >= tests_begin })
    }

    fn is_test_file(self) -> bool {
        let is_test_folder = |part| matches!(part, "tests" | "tests.rs" | "contract" | "contract.rs");
        let is_test_crate = matches!(self.crate_name(), Some("gapless-sim" | "gapless-lab"));
        is_test_crate || self.path.split('/').any(is_test_folder)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) text: &'a str,
    pub(super) is_test: bool,
}

impl<'a> Line<'a> {
    pub(super) fn is_comment(self) -> bool {
        self.text.trim_start().starts_with("//")
    }
}

/// Where the module of tests at the end of a file begins.
fn inline_tests(lines: &[&str]) -> usize {
    lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'))
        .unwrap_or(lines.len())
}

fn collect(root: &Path, below: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.file_type().unwrap().is_dir() {
            if !BUILT_OR_FOREIGN.contains(&name.as_str()) {
                collect(root, &path, files);
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.insert(path, text);
        }
    }
}

const BUILT_OR_FOREIGN: [&str; 4] = [".git", "target", "node_modules", "dist"];

#[test]
fn test_code_is_told_from_other_code() {
    let text = "fn decide() {}\n#[cfg(test)]\nmod vocabulary;\nfn more() {}\n#[cfg(test)]\nmod tests {\n}\n";
    let tree = Tree::of([("crates/a/src/b.rs", text), ("crates/a/src/b/tests.rs", "fn x() {}\n")]);
    let is_test = |path| tree.file(path).unwrap().lines().map(|line| line.is_test).collect::<Vec<_>>();
    assert_eq!(is_test("crates/a/src/b.rs"), [false, false, false, false, true, true, true]);
    assert_eq!(is_test("crates/a/src/b/tests.rs"), [true]);
}
