//! Rules about crates: their names, their place in the workspace, and who may depend on whom.

use std::collections::BTreeSet;

use toml::Table;

use super::tree::Tree;
use super::{Complaints, nothing_to_complain};

/// The crates of the project that each may use outside of its tests. The arrows all point at decisions, never from them.
const ARROWS: [(&str, &[&str]); 12] = [
    ("gapless-proto", &[]),
    ("gapless-core", &["gapless-proto"]),
    ("gapless-postgres", &[]),
    ("gapless-store", &["gapless-proto", "gapless-core", "gapless-postgres"]),
    ("gapless-chain", &["gapless-proto", "gapless-core", "gapless-store"]),
    ("gapless-tables", &["gapless-proto", "gapless-core", "gapless-postgres"]),
    ("gapless-client", &["gapless-proto", "gapless-core"]),
    (
        "gapless-server",
        &["gapless-proto", "gapless-core", "gapless-store", "gapless-chain", "gapless-tables"],
    ),
    (
        "gapless",
        &[
            "gapless-proto",
            "gapless-core",
            "gapless-client",
            "gapless-server",
            "gapless-store",
            "gapless-chain",
            "gapless-tables",
        ],
    ),
    ("gapless-testkit", &[]),
    ("xtask", &["gapless-testkit"]),
    (
        "gapless-sim",
        &[
            "gapless-proto",
            "gapless-core",
            "gapless-client",
            "gapless-server",
            "gapless-store",
            "gapless-chain",
        ],
    ),
];

/// The crate that compares everything with everything.
const SEES_ALL: &str = "gapless-lab";

/// Libraries that talk to a database, and the crates that may.
const DATABASE_LIBRARIES: [&str; 4] = ["rusqlite", "tokio-postgres", "deadpool-postgres", "refinery"];
const KNOW_A_DATABASE: [&str; 5] =
    ["gapless-postgres", "gapless-store", "gapless-tables", "gapless-testkit", SEES_ALL];

fn misplaced_crates(tree: &Tree) -> Complaints {
    let members = members(tree);
    let mut complaints = Vec::new();
    for folder in tree.crate_names() {
        match manifest(tree, folder) {
            None => {
                complaints.push(format!("crates/{folder}: has no Cargo.toml; remove the folder or add one"))
            }
            Some(manifest) if manifest["package"]["name"].as_str() != Some(folder) => {
                complaints.push(format!("crates/{folder}/Cargo.toml: name the package as its folder"));
            }
            Some(_) => {}
        }
        if !members.contains("crates/*") && !members.contains(&format!("crates/{folder}")) {
            complaints.push(format!("crates/{folder}: is no member of the workspace; add it to Cargo.toml"));
        }
    }
    complaints
}

fn forbidden_arrows(tree: &Tree) -> Complaints {
    let mut complaints = Vec::new();
    for (name, manifest) in manifests(tree).filter(|(name, _)| *name != SEES_ALL) {
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
            complaints.push(format!("crates/{name}: say in {} what it may depend on", file!()));
            continue;
        };
        let ours = dependencies(&manifest).into_iter().filter(|dependency| is_ours(dependency));
        for dependency in ours.filter(|dependency| !allowed.contains(&dependency.as_str())) {
            complaints.push(format!(
                "crates/{name}/Cargo.toml: must not depend on {dependency}; see ARCHITECTURE.md"
            ));
        }
    }
    complaints
}

fn hidden_databases(tree: &Tree) -> Complaints {
    manifests(tree)
        .filter(|(name, _)| !KNOW_A_DATABASE.contains(name))
        .flat_map(|(name, manifest)| {
            let dependencies = dependencies(&manifest).into_iter();
            let databases =
                dependencies.filter(|dependency| DATABASE_LIBRARIES.contains(&dependency.as_str()));
            databases.map(move |library| {
                format!("crates/{name}/Cargo.toml: only the store may depend on {library}")
            })
        })
        .collect()
}

fn is_ours(dependency: &str) -> bool {
    dependency == "xtask" || dependency == "gapless" || dependency.starts_with("gapless-")
}

fn members(tree: &Tree) -> BTreeSet<String> {
    let root = tree.file("Cargo.toml").expect("the workspace has a Cargo.toml");
    let root: Table = root.text.parse().expect("cargo has read it");
    let members = root["workspace"]["members"].as_array().expect("the workspace lists its members");
    members.iter().filter_map(|member| member.as_str()).map(str::to_owned).collect()
}

fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, Table)> {
    tree.crate_names().into_iter().filter_map(|name| Some((name, manifest(tree, name)?)))
}

fn manifest(tree: &Tree, crate_name: &str) -> Option<Table> {
    let file = tree.file(&format!("crates/{crate_name}/Cargo.toml"))?;
    Some(file.text.parse().expect("cargo has read it"))
}

/// What a crate depends on outside of its tests, on any platform.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let platforms = manifest.get("target").and_then(|target| target.as_table());
    let platforms = platforms.into_iter().flat_map(Table::values).filter_map(|platform| platform.as_table());
    [manifest]
        .into_iter()
        .chain(platforms)
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .flatten()
        .filter_map(|dependencies| dependencies.as_table())
        .flatten()
        .map(|(name, how)| how.get("package").and_then(|package| package.as_str()).unwrap_or(name).to_owned())
        .collect()
}

#[test]
fn every_crate_is_a_member_under_the_name_of_its_folder() {
    nothing_to_complain(misplaced_crates);

    let wrong = [
        ("Cargo.toml", "workspace.members = ['crates/a', 'crates/b']"),
        ("crates/a/Cargo.toml", "package.name = 'a'"),
        ("crates/b/Cargo.toml", "package.name = 'another'"),
        ("crates/c/Cargo.toml", "package.name = 'c'"),
        ("crates/d/src/lib.rs", ""),
    ];
    let complaints = misplaced_crates(&Tree::of(wrong));
    assert_eq!(complaints.len(), 4, "{complaints:?}");
}

#[test]
fn dependencies_point_towards_the_decisions() {
    nothing_to_complain(forbidden_arrows);

    let wrong = [
        ("crates/gapless-core/Cargo.toml", "dependencies.p = { package = 'gapless-store', version = '1' }"),
        ("crates/gapless-proto/Cargo.toml", "target.'cfg(unix)'.dependencies.gapless-core = '1'"),
        ("crates/gapless-client/Cargo.toml", "dev-dependencies.gapless-server.path = 'x'"),
        ("crates/gapless-new/Cargo.toml", ""),
    ];
    let complaints = forbidden_arrows(&Tree::of(wrong));
    assert_eq!(complaints.len(), 3, "{complaints:?}");
}

#[test]
fn only_the_store_talks_to_databases() {
    nothing_to_complain(hidden_databases);

    let wrong = [
        ("crates/gapless-server/Cargo.toml", "dependencies.rusqlite.workspace = true"),
        ("crates/gapless-store/Cargo.toml", "dependencies.rusqlite.workspace = true"),
    ];
    assert_eq!(hidden_databases(&Tree::of(wrong)).len(), 1);
}
