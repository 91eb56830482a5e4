use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::*;
use crate::config::Secret;

const SECRET: &str = "a secret of more than thirty-two bytes";
const OTHER_SECRET: &str = "another secret, as long as the first one";
/// The clock of these tests, in seconds.
const NOW: u64 = 1_000_000;

#[test]
fn a_minted_token_tells_whose_it_is_and_what_it_allows() {
    let request = TokenRequest {
        user: user("alice"),
        device: Some(DeviceId::new("phone").unwrap()),
        scopes: Scopes { service: true, ..Scopes::default() },
        ttl: Duration::from_millis(1500),
    };
    let minted = authenticator(&[SECRET]).mint(&request, at(NOW)).unwrap();
    assert_eq!(minted.expires_at, at(NOW + 2));

    let identity = authenticator(&[SECRET]).authenticate(&minted.token, at(NOW)).unwrap();
    assert_eq!(identity.user, request.user);
    assert_eq!(Some(identity.device), request.device);
    assert_eq!(identity.expires_at, Some(minted.expires_at));
    assert_eq!(identity.rights, Rights::Scopes(request.scopes));
}

// Behaviour 20
#[test]
fn a_token_holds_until_the_second_of_its_expiry() {
    let token = signed(&claims(), SECRET);
    assert!(verified(&token, NOW + 59).is_ok());
    assert_eq!(verified(&token, NOW + 60), Err(AuthError::Expired));
}

#[test]
fn a_token_does_not_hold_before_its_time() {
    let mut claims = claims();
    claims["nbf"] = json!(NOW + 10);
    let token = signed(&claims, SECRET);
    assert_eq!(verified(&token, NOW), Err(AuthError::Early));
    assert!(verified(&token, NOW + 10).is_ok());
}

// Behaviour 20
#[test]
fn a_token_of_another_secret_is_refused_like_one_that_is_none() {
    let token = signed(&claims(), SECRET);
    let other = signed(&claims(), OTHER_SECRET);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let swapped = URL_SAFE_NO_PAD.encode(json!({"sub": "root", "exp": NOW + 60}).to_string());

    for broken in [
        other.as_str(),
        message,
        "",
        "..",
        "a.b.c",
        "{}",
        &format!("{message}."),
        &format!("{message}.{signature}x"),
        &format!("{header}.{swapped}.{signature}"),
        &format!("{header}.{payload}.{}", &signature[1..]),
        &"x".repeat(10_000),
    ] {
        assert_eq!(verified(broken, NOW), Err(AuthError::Invalid), "{broken}");
    }
}

// Behaviour 20
#[test]
fn no_other_algorithm_is_taken() {
    let payload = URL_SAFE_NO_PAD.encode(claims().to_string());
    for algorithm in ["none", "None", "HS512", "RS256", "hs256"] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": algorithm, "typ": "JWT"}).to_string());
        for signature in ["", "c2lnbmF0dXJl"] {
            let token = format!("{header}.{payload}.{signature}");
            assert_eq!(verified(&token, NOW), Err(AuthError::Invalid), "{algorithm}");
        }
    }
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS512), &claims(), &key).unwrap();
    assert_eq!(verified(&token, NOW), Err(AuthError::Invalid), "even with our secret");
}

#[test]
fn claims_that_can_not_be_used_are_named_to_whom_has_the_secret() {
    for (claim, value, said) in [
        ("sub", json!(7), "string"),
        ("sub", json!("a b"), "white space"),
        ("sub", json!("x".repeat(10_000)), "too long"),
        ("device", json!(""), "empty"),
        ("exp", json!("tomorrow"), "f64"),
        ("exp", Value::Null, "f64"),
        ("scope", json!(["admin"]), "string"),
    ] {
        let mut claims = claims();
        claims[claim] = value;
        let error = verified(&signed(&claims, SECRET), NOW).unwrap_err();
        assert!(
            matches!(error, AuthError::Claims(_)) && error.to_string().contains(said),
            "{claim}: {error}"
        );
    }
    let error = verified(&signed(&json!({"sub": "alice"}), SECRET), NOW).unwrap_err();
    assert!(error.to_string().contains("`exp`"), "{error}");
}

#[test]
fn claims_of_others_are_passed_over() {
    let mut claims = claims();
    claims["aud"] = json!(["else"]);
    claims["iss"] = json!("somebody");
    claims["exp"] = json!(1e300);
    let identity = verified(&signed(&claims, SECRET), NOW).unwrap();
    assert_eq!(identity.device.as_str(), "default");
    assert_eq!(identity.rights, Rights::Scopes(Scopes::default()));
}

#[test]
fn the_first_secret_signs_and_all_verify() {
    let rotated = authenticator(&[OTHER_SECRET, SECRET]);
    assert!(rotated.authenticate(&signed(&claims(), SECRET), at(NOW)).is_ok());

    let request = TokenRequest {
        user: user("a"),
        device: None,
        scopes: Scopes::default(),
        ttl: Duration::from_secs(1),
    };
    let minted = rotated.mint(&request, at(NOW)).unwrap();
    assert!(authenticator(&[OTHER_SECRET]).authenticate(&minted.token, at(NOW)).is_ok());
    assert!(authenticator(&[SECRET]).authenticate(&minted.token, at(NOW)).is_err());
}

#[test]
fn without_a_secret_nobody_is_let_in() {
    let authenticator = Authenticator::new(AuthConfig::default());
    assert_eq!(authenticator.authenticate(&signed(&claims(), SECRET), at(NOW)), Err(AuthError::Invalid));
}

#[test]
fn a_backend_sees_everything_and_a_user_their_part() {
    let with = |rights| Identity { user: user("alice"), device: default_device(), expires_at: None, rights };
    let alice = Reader::User(user("alice"));

    let backend = with(Rights::Scopes(Scopes { service: true, ..Scopes::default() }));
    assert_eq!(
        (backend.reader(), backend.acts_for_others(), backend.administers()),
        (Reader::Service, true, false)
    );
    let operator = with(Rights::Scopes(Scopes { admin: true, ..Scopes::default() }));
    assert_eq!(
        (operator.reader(), operator.acts_for_others(), operator.administers()),
        (alice.clone(), false, true)
    );
    let anyone = with(Rights::Open);
    assert_eq!((anyone.reader(), anyone.acts_for_others(), anyone.administers()), (alice, true, true));
}

fn verified(token: &str, now: u64) -> Result<Identity, AuthError> {
    authenticator(&[SECRET]).authenticate(token, at(now))
}

fn authenticator(secrets: &[&str]) -> Authenticator {
    let secrets = secrets.iter().map(|secret| Secret::new(secret).unwrap());
    Authenticator::new(AuthConfig::Jwt(secrets.collect()))
}

fn claims() -> Value {
    json!({"sub": "alice", "exp": NOW + 60})
}

fn signed(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::new(seconds * 1000).unwrap()
}
