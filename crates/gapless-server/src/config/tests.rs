use std::ffi::OsString;
use std::fs;

use tempfile::TempDir;

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const OTHER_SECRET: &str = "fedcba9876543210fedcba9876543210";

#[test]
fn what_nobody_sets_is_the_default() {
    let config = Typed::new().variable("GAPLESS_AUTH_SECRETS", SECRET).config();
    assert_eq!(Config { auth: AuthConfig::default(), ..config }, Config::default());
}

#[test]
fn flags_count_more_than_the_environment_that_more_than_the_file() {
    let file = "store = 'sqlite:file'\nlisten = '127.0.0.1:1'\n[limits]\nbody_bytes_max = 1";
    let config = Typed::open()
        .file(file)
        .variable("GAPLESS_LISTEN", "127.0.0.1:2")
        .variable("GAPLESS_LIMITS_BODY_BYTES_MAX", "2")
        .flag("--set limits.body_bytes_max", "limits.body_bytes_max", "3")
        .config();
    assert_eq!(config.store.to_string(), "sqlite:file");
    assert_eq!(config.listen.to_string(), "127.0.0.1:2");
    assert_eq!(config.session.body_bytes_max, 3);
}

#[test]
fn a_file_may_write_values_as_it_likes() {
    let config = Typed::open()
        .file(
            "listen = '[::1]:2'\nheartbeat.ping_after = '1m 30s'\n\
             delivery = { pushed_members_max = '7', queued_bytes_max = \"2MiB\" }\n[limits]\nbody_bytes_max = 1_000",
        )
        .config();
    assert_eq!(config.listen.to_string(), "[::1]:2");
    assert_eq!(config.session.heartbeat.ping_after, Duration::from_secs(90));
    assert_eq!(config.hub.pushed_members_max, 7);
    assert_eq!(config.session.delivery.queued_bytes_max, 2 << 20);
    assert_eq!(config.session.body_bytes_max, 1000);
}

#[test]
fn an_error_names_key_value_place_and_remedy() {
    for (file, said) in [
        (
            "listen = 'localhost'",
            "gapless.toml:1: `listen` can't be `localhost`: write an address and a port",
        ),
        (
            "\n[limits]\nbody_bytes_max = 0",
            "gapless.toml:3: `limits.body_bytes_max` can't be `0`: write a number from 1",
        ),
        (
            "[heartbeat]\nping_after = 25",
            "gapless.toml:2: `heartbeat.ping_after` can't be `25`: write a time",
        ),
        (
            "drain.deadline = '2h'",
            "gapless.toml:1: `drain.deadline` can't be `2h`: write a time from 0s to 1h",
        ),
        ("log.format = 'xml'", "gapless.toml:1: `log.format` can't be `xml`: write one of text, json"),
        (
            "log.level = ['info', 'warn']",
            "gapless.toml:1: `log.level` can't be an array: write a text; it is what",
        ),
        ("log.level.x = 1", "`log.level` can't be a table"),
        ("listn = 'x'", "gapless.toml:1: there is no key `listn`; did you mean `listen`?"),
        (
            "[limits]\nbody_byte_max = 1",
            "gapless.toml:2: there is no key `limits.body_byte_max`; did you mean `limits.body_bytes_max`?",
        ),
        ("[zzz]\nx = 1", "there is no key `zzz`; remove it"),
        ("limits = 3", "there is no key `limits`"),
        ("listen = ", "gapless.toml:1: isn't TOML: "),
        ("store = 'mysql://ann:s3cret@host/db'", "`store` has a wrong value: `mysql` names no store"),
        (
            "limits.body_bytes_max = '1MiB'",
            "`delivery.queued_bytes_max` (default) doesn't go with `limits.body_bytes_max` (",
        ),
    ] {
        let errors = Typed::open().file(file).errors();
        assert!(errors.contains(said), "{file}\nsays {errors}\nnot  {said}");
        assert!(!errors.contains("s3cret"), "{errors}");
    }
}

#[test]
fn all_errors_are_found_at_once() {
    let errors = Typed::open()
        .variable("GAPLESS_LOG_LEVEL", "loud")
        .variable("GAPLESS_AUTH_MODE", "passed over")
        .flag("--listen", "listen", "x")
        .errors();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].starts_with("--listen: ") && lines[1].starts_with("GAPLESS_LOG_LEVEL: "), "{errors}");
}

#[test]
fn an_unknown_key_hides_no_wrong_value_and_is_not_taken_for_a_missing_one() {
    let errors = Typed::new().file("log.level = 'loud'\n[auth]\nmod = 'open'").errors();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(
        lines[0].contains("no key `auth.mod`") && lines[1].contains("`log.level` can't be `loud`"),
        "{errors}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let sources =
        ConfigSources { file: Some(PathBuf::from("/nowhere/gapless.toml")), ..ConfigSources::default() };
    let errors = RawConfig::gather(sources).unwrap_err().to_string();
    assert!(errors.starts_with("/nowhere/gapless.toml: can't be read"), "{errors}");
}

#[test]
fn an_unknown_variable_of_ours_is_refused_and_others_are_not_looked_at() {
    let errors = Typed::open().variable("GAPLESS_AUTH_MOD", "open").errors();
    assert_eq!(
        errors,
        "GAPLESS_AUTH_MOD: there is no key `GAPLESS_AUTH_MOD`; did you mean GAPLESS_AUTH_MODE?"
    );

    for far in ["GAPLESS_AUTH_SECRET_KEYS", "GAPLESS_SECRET", "GAPLESS_STATE", "GAPLESS_LOG"] {
        let errors = Typed::open().variable(far, "x").errors();
        assert!(errors.contains("unset it") && !errors.contains("did you mean"), "{errors}");
    }

    let others = [
        "GAPLES",
        "PATH",
        "GAPLESS_TEST_POSTGRES",
        "GAPLESS_BIN",
        "GAPLESS_URL",
        "GAPLESS_TOKEN",
        "GAPLESS_CONFIG",
        "GAPLESS_SERVICE_HOST",
        "GAPLESS_SERVICE_PORT_HTTP",
        "GAPLESS_PORT",
        "GAPLESS_PORT_7700_TCP_ADDR",
    ];
    let typed = others.into_iter().fold(Typed::open(), |typed, name| typed.variable(name, "x"));
    typed.config();
}

#[test]
fn each_key_has_a_variable_that_is_looked_at() {
    for key in KEYS {
        let raw = Typed::new().variable(&key.variable(), "x").raw().unwrap();
        assert_eq!(raw.typed(key.name).place, Place::Variable(key.variable()));
    }
}

#[test]
fn an_open_server_listens_on_loopback_only() {
    for public in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
        let errors = Typed::open().flag("--listen", "listen", public).errors();
        assert!(errors.contains("`auth.mode` (--auth) doesn't go with `listen` (--listen)"), "{errors}");
    }
    for local in ["127.8.8.8:1", "[::1]:1"] {
        Typed::open().flag("--listen", "listen", local).config();
    }
}

#[test]
fn a_server_with_tokens_needs_a_secret() {
    let errors = Typed::new().errors();
    assert!(errors.starts_with("`auth.secrets` isn't set: make a secret with"), "{errors}");

    let errors = Typed::new().variable("GAPLESS_AUTH_SECRETS", "s3cret").errors();
    assert!(errors.contains("a secret of 6 bytes is too short") && !errors.contains("s3cret"), "{errors}");
    assert!(!errors.contains("what it is"), "{errors}");
}

#[test]
fn secrets_come_from_a_list_or_a_file_whichever_counts_more() {
    let secrets =
        |texts: &[&str]| AuthConfig::Jwt(texts.iter().map(|text| Secret::new(text).unwrap()).collect());
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("secrets");
    fs::write(&path, format!("{OTHER_SECRET}\n\n  {SECRET}\n")).unwrap();
    let path = path.to_str().unwrap();

    let listed = Typed::new().variable("GAPLESS_AUTH_SECRETS", &format!("{SECRET}, {OTHER_SECRET}"));
    assert_eq!(listed.config().auth, secrets(&[SECRET, OTHER_SECRET]));

    let in_file = Typed::new().variable("GAPLESS_AUTH_SECRETS_FILE", path);
    assert_eq!(in_file.config().auth, secrets(&[OTHER_SECRET, SECRET]));

    let flag =
        Typed::new().variable("GAPLESS_AUTH_SECRETS_FILE", path).flag("--secret", "auth.secrets", SECRET);
    assert_eq!(flag.config().auth, secrets(&[SECRET]));

    let both =
        Typed::new().variable("GAPLESS_AUTH_SECRETS_FILE", path).variable("GAPLESS_AUTH_SECRETS", SECRET);
    assert!(both.errors().contains("keep one of them"));

    let nowhere = Typed::new().variable("GAPLESS_AUTH_SECRETS_FILE", "/nowhere");
    assert!(nowhere.errors().starts_with("/nowhere: can't be read"));
}

#[test]
fn the_report_is_a_file_that_means_the_same_but_for_secrets() {
    let typed = Typed::open()
        .file("log.level = \"debug\"\nlisten = '127.0.0.1:1'")
        .variable("GAPLESS_AUTH_SECRETS", SECRET)
        .variable("GAPLESS_STORE", "postgres://ann:s3cret@host/db");
    let report = typed.raw().unwrap().to_string();
    assert!(!report.contains(SECRET) && !report.contains("s3cret"), "{report}");
    for (line, place) in [
        ("auth.mode = \"open\"", "# --auth"),
        ("# auth.secrets has 1, hidden", "# GAPLESS_AUTH_SECRETS"),
        ("log.level = \"debug\"", "gapless.toml:1"),
        ("drain.deadline = \"10s\"", "# default"),
    ] {
        let found = report.lines().find(|found| found.starts_with(line));
        assert!(found.is_some_and(|found| found.ends_with(place)), "{line}\n{report}");
    }
    let again = Typed::new().file(&report).config();
    assert_eq!(again, Config { store: again.store.clone(), ..typed.config() });
}

/// What somebody types.
struct Typed {
    folder: TempDir,
    sources: ConfigSources,
}

impl Typed {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), sources: ConfigSources::default() }
    }

    fn open() -> Self {
        Self::new().flag("--auth", "auth.mode", "open")
    }

    fn file(mut self, text: &str) -> Self {
        let path = self.folder.path().join("gapless.toml");
        fs::write(&path, text).unwrap();
        self.sources.file = Some(path);
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.variables.push((OsString::from(name), OsString::from(value)));
        self
    }

    fn flag(mut self, flag: &str, key: &str, value: &str) -> Self {
        let flag = Flag { flag: flag.to_owned(), key: key.to_owned(), value: value.to_owned() };
        self.sources.flags.push(flag);
        self
    }

    fn raw(&self) -> Result<RawConfig, ConfigErrors> {
        RawConfig::gather(ConfigSources {
            flags: self.sources.flags.clone(),
            variables: self.sources.variables.clone(),
            file: self.sources.file.clone(),
        })
    }

    fn config(&self) -> Config {
        let config = self.raw().and_then(|raw| raw.check());
        config.unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn errors(&self) -> String {
        self.raw().and_then(|raw| raw.check()).expect_err("it is wrong").to_string()
    }
}
