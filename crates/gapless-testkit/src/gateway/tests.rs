use super::*;
use std::os::unix::process::ExitStatusExt as _;

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn the_address_is_the_announced_one_and_all_other_output_is_swallowed() {
    let gateway = Gateway::start(shell(
        "echo hello; echo listening on http://127.0.0.1:4321; echo more; exec tail -f /dev/null",
    ))
    .unwrap();
    assert_eq!(gateway.address(), "127.0.0.1:4321".parse().unwrap());
    assert_eq!(gateway.url(), "http://127.0.0.1:4321");
    assert!(gateway.resident_bytes().unwrap() > 0);
}

#[test]
fn a_gateway_that_ends_without_an_announcement_fails_with_its_log() {
    let error = Gateway::start(shell("echo the port is taken >&2; exit 1")).unwrap_err();
    assert!(error.to_string().contains("the port is taken"), "{error}");
}

#[test]
fn a_missing_binary_is_named() {
    let error = Gateway::start(Command::new("/nowhere/gapless")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/gapless"), "{error}");
}

#[test]
fn a_terminated_gateway_exits_in_its_own_way() {
    let mut gateway = Gateway::start(shell(
        "trap 'echo drained >&2; exit 7' TERM; echo listening on http://127.0.0.1:1; while :; do :; done",
    ))
    .unwrap();
    gateway.terminate().unwrap();
    assert_eq!(gateway.wait_exit(PATIENCE).unwrap().code(), Some(7));
    assert_eq!(gateway.stderr(), "drained\n");
}

#[test]
fn a_frozen_gateway_does_not_exit_until_it_is_thawed() {
    let mut gateway = Gateway::start(listening()).unwrap();
    gateway.freeze().unwrap();
    gateway.terminate().unwrap();
    assert!(gateway.wait_exit(Duration::ZERO).unwrap_err().to_string().contains("still runs"));

    gateway.thaw().unwrap();
    assert_eq!(gateway.wait_exit(PATIENCE).unwrap().signal(), Some(15));
}

#[test]
fn a_killed_gateway_comes_back_as_another_process() {
    let mut gateway = Gateway::start(listening()).unwrap();
    let first = gateway.pid();
    gateway.kill_9().unwrap();
    assert_eq!(gateway.wait_exit(PATIENCE).unwrap().signal(), Some(9));

    gateway.restart().unwrap();
    assert_ne!(gateway.pid(), first);
}

#[test]
fn a_dropped_gateway_leaves_no_process() {
    let gateway = Gateway::start(listening()).unwrap();
    let pid = gateway.running.pid();
    drop(gateway);
    assert!(!process::is_running(pid));
}

fn listening() -> Command {
    shell("echo listening on http://127.0.0.1:1; exec tail -f /dev/null")
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}
