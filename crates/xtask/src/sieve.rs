//! What `cargo test` says, less what nobody needs to read.

use std::io::{BufRead, PipeWriter, Write as _};

/// Stands behind all that a command says. The end of the pipe wouldn't do: a process that outlives the command may hold it open.
const END: &str = "\u{4}";

/// Shows lines of the output of `cargo test` as they come, until [`end`] is written behind them.
pub(crate) fn sift(output: impl BufRead) -> Sieve {
    let mut sieve = Sieve::default();
    let lines = output.split(b'\n').map_while(Result::ok);
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    for line in lines.take_while(|line| line != END) {
        for shown in sieve.push(&line) {
            println!("{shown}");
        }
    }
    sieve
}

/// Ends what [`sift`] reads.
pub(crate) fn end(mut output: PipeWriter) -> std::io::Result<()> {
    // What came before may have ended in the middle of a line.
    write!(output, "\n{END}\n")
}

/// Takes in the output of `cargo test` line by line and tells what of it to show.
///
/// - Test binaries in which nothing runs aren't shown.
/// - It remembers which tests failed, so that nobody has to look for them.
#[derive(Debug, Default)]
pub(crate) struct Sieve {
    /// The name of the test binary, and its lines so far, while it isn't known whether anything runs in it.
    heading: Vec<String>,
    binary: String,
    is_silent: bool,
    tests: u64,
    failed: Vec<String>,
}

impl Sieve {
    /// Takes in a line. Returns those that are to be shown now.
    pub(crate) fn push(&mut self, line: &str) -> Vec<String> {
        if let Some(binary) = binary_of(line) {
            self.binary = binary.to_owned();
            self.is_silent = false;
            self.heading = vec![line.to_owned()];
            return Vec::new();
        }
        if let Some(count) = count_of(line) {
            self.tests += count;
            self.is_silent = count == 0;
            let heading = std::mem::take(&mut self.heading);
            if self.is_silent {
                return Vec::new();
            }
            return heading.into_iter().chain([String::new(), line.to_owned()]).collect();
        }
        let says_nothing = line.is_empty() || line.starts_with("test result: ");
        if says_nothing && (self.is_silent || !self.heading.is_empty()) {
            return Vec::new();
        }
        self.is_silent = false;
        if let Some(name) = failed_test(line) {
            self.failed.push(format!("{} ({})", name, self.binary));
        }
        let mut shown = std::mem::take(&mut self.heading);
        shown.push(line.to_owned());
        shown
    }

    /// How many tests were run.
    pub(crate) fn tests(&self) -> u64 {
        self.tests
    }

    /// The tests that failed, each with its binary.
    pub(crate) fn failed(&self) -> &[String] {
        &self.failed
    }
}

/// The name of a test binary that cargo begins, or of a crate whose documentation it tests.
fn binary_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(running) = line.strip_prefix("Running ") {
        let file = running.rsplit_once('/').map_or(running, |(_, file)| file);
        return Some(file.rsplit_once('-').map_or(file, |(name, _)| name));
    }
    line.strip_prefix("Doc-tests ")
}

/// How many tests a binary says that it runs.
fn count_of(line: &str) -> Option<u64> {
    let count = line.strip_prefix("running ")?;
    count.strip_suffix(" tests").or(count.strip_suffix(" test"))?.parse().ok()
}

fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "
     Running unittests src/lib.rs (target/debug/deps/gapless_proto-0a1b)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.00s
";
    const FAILING: &str = "
     Running tests/contract/main.rs (target/debug/deps/contract-0a1b)

running 2 tests
test paging::a ... ok
test paging::b ... FAILED

failures:

---- paging::b stdout ----
it is wrong

failures:
    paging::b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s
";

    #[test]
    fn a_binary_in_which_nothing_runs_is_not_shown() {
        let (sieve, shown) = sifted(&[EMPTY, "error: 1 target failed\n"]);
        assert_eq!(shown.trim(), "error: 1 target failed");
        assert_eq!(sieve.tests(), 0);
    }

    #[test]
    fn what_runs_is_shown_whole_and_what_failed_is_remembered() {
        let (sieve, shown) = sifted(&[EMPTY, FAILING, EMPTY]);
        assert_eq!(shown.trim(), FAILING.trim());
        assert_eq!(sieve.tests(), 2);
        assert_eq!(sieve.failed(), ["paging::b (contract)"]);
    }

    #[test]
    fn a_test_of_the_documentation_is_one_like_others() {
        let documentation =
            "   Doc-tests gapless_client\n\nrunning 1 test\ntest crates/a/src/lib.rs - (line 9) ... FAILED\n";
        let (sieve, shown) = sifted(&[documentation]);
        assert!(shown.contains("Doc-tests gapless_client"), "{shown}");
        assert_eq!(sieve.failed(), ["crates/a/src/lib.rs - (line 9) (gapless_client)"]);
    }

    #[test]
    fn what_comes_behind_the_end_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        let held_open = writer.try_clone().unwrap();
        end(writer).unwrap();
        assert_eq!(sift(std::io::BufReader::new(reader)).tests(), 0);
        drop(held_open);
    }

    fn sifted(outputs: &[&str]) -> (Sieve, String) {
        let mut sieve = Sieve::default();
        let lines = outputs.iter().flat_map(|output| output.lines());
        let shown: Vec<String> = lines.flat_map(|line| sieve.push(line)).collect();
        (sieve, shown.join("\n"))
    }
}
