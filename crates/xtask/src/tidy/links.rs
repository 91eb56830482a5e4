//! Links between documents.

use regex::Regex;

use super::tree::{File, Tree};
use super::{Complaints, nothing_to_complain};

fn dead_links(tree: &Tree) -> Complaints {
    let link = Regex::new(r"\[[^\]]*\]\(([^)\s]+)\)").unwrap();
    let dead_links_of = |file: File<'_>| -> Complaints {
        let targets = link.captures_iter(file.text).map(|found| found.extract());
        targets
            .filter(|(_, [target])| !leads_somewhere(tree, file, target))
            .map(|(_, [target])| format!("{}: the link to {target} leads nowhere", file.path))
            .collect()
    };
    tree.files().filter(|file| file.extension() == "md").flat_map(dead_links_of).collect()
}

fn leads_somewhere(tree: &Tree, from: File<'_>, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.path.to_owned() } else { resolved(from.path, path) };
    match tree.file(&path) {
        Some(file) => heading.is_empty() || headings(file).any(|anchor| anchor == heading),
        None => tree.files().any(|file| file.path.starts_with(&format!("{path}/"))),
    }
}

/// The path that a relative link means, seen from the file it stands in.
fn resolved(from: &str, link: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings, as forges make them.
fn headings(file: File<'_>) -> impl Iterator<Item = String> {
    let titles =
        file.text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    titles.map(|title| {
        let title = title.trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
    })
}

#[test]
fn every_link_in_a_document_leads_somewhere() {
    nothing_to_complain(dead_links);

    let tree = Tree::of([
        ("README.md", "[a](docs/a.md) [b](docs/b.md) [c](https://example.org) [d](docs) [e](docs/a.md#no)"),
        ("docs/a.md", "# What it is\n[up](../README.md) [here](#what-it-is) [there](../a.md)"),
    ]);
    let complaints = dead_links(&tree);
    assert_eq!(complaints.len(), 3, "{complaints:?}");
}
