//! What is revoked stays so, whatever the store loses.

use crate::gated;
use crate::process;

use gated::{Keys, call};
use lingua_lab::RedisServer;
use process::{Lingua, wait_for};
use serde_json::{Value, json};

struct Place<'a> {
    keys: &'a Keys,
    lingua: Lingua,
}

impl<'a> Place<'a> {
    fn start(keys: &'a Keys, redis: &RedisServer) -> Self {
        let config = keys.config(&format!("store = {:?}", redis.url()), "");
        let lingua = Lingua::start(&["--config", config.to_str().unwrap()]);
        Place { keys, lingua }
    }

    fn status(&self, token: &str) -> u16 {
        call(self.lingua.address(), "GET", "/v1/job/none", Some(token), &Value::Null).status
    }

    fn listed(&self) -> Vec<Value> {
        let admin = self.keys.admin("ops", "a");
        let address = self.lingua.address();
        let answer = call(address, "GET", "/api/v1/revocations", Some(&admin), &Value::Null);
        answer.body["revoked"].as_array().cloned().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_what_is_revoked_is_told_again() {
    let redis = RedisServer::start().await.unwrap();
    let keys = Keys::make();
    let place = Place::start(&keys, &redis);
    let token = keys.session("acme", "stolen");
    assert_ne!(place.status(&token), 401);
    let (address, admin) = (place.lingua.address(), keys.admin("ops", "a"));
    let revoked = json!({"jti": "stolen"});
    let done = call(address, "POST", "/api/v1/revocations", Some(&admin), &revoked);
    assert_eq!(done.status, 200, "{done:?}");
    wait_for("it is listed", || place.listed() == [json!("jti:stolen")]);
    assert_eq!(place.status(&token), 401);

    redis.command(&["FLUSHALL"]).await.unwrap();
    wait_for("it is listed again", || {
        assert_eq!(place.status(&token), 401, "it was good for a moment");
        place.listed() == [json!("jti:stolen")]
    });
    // Also for one who was not there.
    let other = Place::start(&keys, &redis);
    wait_for("the other knows", || other.status(&token) == 401);
    assert_eq!(place.status(&token), 401);
}

/// As docs/SECURITY.md says: then the key has to be changed.
#[tokio::test(flavor = "multi_thread")]
async fn what_store_and_instances_lose_together_is_lost() {
    let redis = RedisServer::start().await.unwrap();
    let keys = Keys::make();
    let token = keys.session("acme", "stolen");
    let mut place = Place::start(&keys, &redis);
    let (address, admin) = (place.lingua.address(), keys.admin("ops", "a"));
    call(address, "POST", "/api/v1/revocations", Some(&admin), &json!({"jti": "stolen"}));
    wait_for("it is revoked", || place.status(&token) == 401);
    place.lingua.signal("TERM");
    place.lingua.exit_code();
    redis.command(&["FLUSHALL"]).await.unwrap();
    let place = Place::start(&keys, &redis);
    assert_ne!(place.status(&token), 401);
}
