use super::*;

/// Answers from a list instead of DNS.
#[derive(Debug)]
struct Listed(Vec<(&'static str, Vec<&'static str>)>);

impl Lookup for Listed {
    fn addresses<'a>(&'a self, host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let found = self.0.iter().find(|(name, _)| *name == host);
        let found = found.map(|(_, list)| list.iter().map(|address| address.parse().unwrap()).collect());
        Box::pin(std::future::ready(found.ok_or_else(|| std::io::ErrorKind::NotFound.into())))
    }
}

#[test]
fn an_address_is_judged_before_anything_is_sent() {
    let guard = Outbound::new(Allow::parse(["10.0.0.7"]).unwrap()).unwrap();
    let inside = |host: &str| Some(Blocked::NotPublic { host: host.to_owned() });
    let cases = [
        ("https://example.org/x", None),
        ("http://10.0.0.7:8080/", None),
        ("http://10.0.0.8/", inside("10.0.0.8")),
        ("http://127.0.0.1/", inside("127.0.0.1")),
        ("http://2130706433/", inside("127.0.0.1")),
        ("http://0x7f.1/", inside("127.0.0.1")),
        ("http://0177.0.0.1/", inside("127.0.0.1")),
        ("http://[::1]/", inside("::1")),
        ("http://[::ffff:127.0.0.1]/", inside("::ffff:7f00:1")),
        ("http://169.254.169.254/latest/meta-data", inside("169.254.169.254")),
        ("http://１２７.0.0.1/", inside("127.0.0.1")),
        ("ftp://example.org/", Some(Blocked::Scheme)),
        ("file:///etc/passwd", Some(Blocked::Scheme)),
        ("https://user:pass@example.org/", Some(Blocked::Credentials)),
        ("nonsense", Some(Blocked::NotAUrl)),
        ("http://", Some(Blocked::NotAUrl)),
    ];
    for (url, expected) in cases {
        assert_eq!(guard.check(url).err(), expected, "{url}");
    }
}

#[tokio::test]
async fn a_name_is_judged_by_every_address_it_has() {
    let listed = Listed(vec![
        ("inside.test", vec!["10.0.0.1"]),
        ("rebound.test", vec!["8.8.8.8", "127.0.0.1"]),
        ("empty.test", vec![]),
    ]);
    let guard = Outbound::with_lookup(Allow::default(), Arc::new(listed)).unwrap();
    let inside = |host: &str| Some(Blocked::NotPublic { host: host.to_owned() });
    let unknown = |host: &str| Some(Blocked::Unknown { host: host.to_owned() });
    let cases = [
        ("inside.test", inside("inside.test")),
        ("rebound.test", inside("rebound.test")),
        ("empty.test", unknown("empty.test")),
        ("missing.test", unknown("missing.test")),
    ];
    for (host, expected) in cases {
        let error = guard.request(Method::GET, &format!("http://{host}/")).unwrap().send().await.unwrap_err();
        assert_eq!(blocked(&error), expected, "{host}");
    }
}

#[tokio::test]
async fn an_allowed_name_is_connected_to_where_the_lookup_says() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let listed = Listed(vec![("hooks.test", vec!["127.0.0.1"])]);
    let guard = Outbound::with_lookup(Allow::parse(["hooks.test"]).unwrap(), Arc::new(listed)).unwrap();
    let url = format!("http://hooks.test:{port}/");
    let request = tokio::spawn(guard.request(Method::GET, &url).unwrap().send());
    let accepted = tokio::time::timeout(std::time::Duration::from_secs(30), listener.accept()).await;
    request.abort();
    assert!(accepted.is_ok_and(|accepted| accepted.is_ok()));
}
