//! Lists come in pages and can be filtered.

use crate::app::http::{Api, calm, node};
use crate::app::{On, TestApp};

use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_and_can_be_filtered() {
    let app = TestApp::start(On::Memory, calm()).await;
    let api = Api::of(&app).await;
    for number in 0..5 {
        let mut body = node(&format!("n-{number}"));
        if number % 2 == 1 {
            body["semantic_langs"] = json!(["de", "en"]);
            body["tts_langs"] = json!(["de", "en"]);
        }
        assert_eq!(api.post("/v1/node/register", &body).await.status, 200);
    }
    assert_eq!(api.post("/api/v1/nodes/n-4/drain", &json!({})).await.status, 200);
    let walk = async |filter: &str| {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("/api/v1/nodes?limit=2{filter}&after={after}")).await;
            assert_eq!(page.status, 200, "{:?}", page.body);
            let nodes = page.body["nodes"].as_array().unwrap();
            assert!(nodes.len() <= 2);
            names.extend(nodes.iter().map(|node| node["node_id"].as_str().unwrap().to_owned()));
            let total = page.body["total"].as_u64().unwrap();
            match page.body["next"].as_str() {
                Some(next) => after = next.to_owned(),
                None => break (names.join(" "), total),
            }
        }
    };
    assert_eq!(walk("").await, ("n-0 n-1 n-2 n-3 n-4".to_owned(), 5));
    assert_eq!(walk("&src=en&tgt=zh").await, ("n-0 n-2 n-4".to_owned(), 3));
    assert_eq!(walk("&tgt=de").await, ("n-1 n-3".to_owned(), 2));
    assert_eq!(walk("&src=fr").await, (String::new(), 0));
    assert_eq!(walk("&state=draining").await, ("n-4".to_owned(), 1));
    assert_eq!(walk("&state=ready&src=zh").await, ("n-0 n-2".to_owned(), 2));
    assert_eq!(walk("&instance=nobody").await, (String::new(), 0));
    for wrong in ["state=happy", "src=-", "instance=a%20b", "limit=0", "limit=1001", "limit=%2B5"] {
        let refused = api.get(&format!("/api/v1/nodes?{wrong}")).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (400, &json!("INVALID_MESSAGE")),
            "{wrong}"
        );
    }
    for filter in
        ["tenant=acme", "connected=true", "connected=false", "src=en", "tgt=zh", "src=en&tgt=zh"]
    {
        let none = api.get(&format!("/api/v1/sessions?{filter}")).await;
        assert_eq!((none.status, &none.body["total"]), (200, &json!(0)), "{filter}");
    }
    assert_eq!(api.get("/api/v1/sessions?connected=maybe").await.status, 400);
    app.finish().await;
}
