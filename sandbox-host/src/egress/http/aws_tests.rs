use ::http::Request as HttpRequest;
use proptest::prelude::*;
use sandbox_core::SecretValue;

use super::*;

const SERVER: RequestedServer<'_> = RequestedServer {
    name: "s3.a.org",
    port: 443,
    is_tls: true,
};

/// The key of AWS's test suite.
const SUITE_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The key of the examples for S3.
const S3_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

const NO_SIGNATURE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

fn parts(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = HttpRequest::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn path_of(parts: &Parts) -> String {
    parts.uri.to_string()
}

/// The forms of the path with which a key verifies a signature.
fn forms(parts: &Parts, body: &str, key: &str) -> Vec<PathForm> {
    let path = path_of(parts);
    let signature = Signature::of(&parts.headers, &path).unwrap().unwrap();
    let key = signature.key(key.as_bytes());
    let is_verified = |form: &PathForm| {
        let text = signature.text(parts, &path, Some(body.as_bytes()), *form);
        hmac::verify(&key, text.unwrap().as_bytes(), &signature.value).is_ok()
    };
    PathForm::ALL.into_iter().filter(is_verified).collect()
}

#[test]
fn vectors_of_the_test_suite_are_verified() {
    let of = |method, path, more: &[(&str, &str)], names, value| {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders={names}, Signature={value}"
        );
        let mut headers = vec![
            ("host", "example.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
            ("authorization", &*authorization),
        ];
        headers.extend(more);
        parts(method, path, &headers)
    };
    let names = "host;x-amz-date";
    let vanilla = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    let form = "application/x-www-form-urlencoded";
    for (request, body, expected) in [
        (of("GET", "/", &[], names, vanilla), "", 3),
        (of("GET", "/./", &[], names, vanilla), "", 1),
        (of("GET", "//", &[], names, vanilla), "", 1),
        (of("GET", "/example/..", &[], names, vanilla), "", 1),
        (
            of(
                "GET",
                "/?Param2=value2&Param1=value1",
                &[],
                names,
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            "",
            3,
        ),
        (
            of(
                "GET",
                "/",
                &[("my-header1", "value1"), ("my-header2", "\"a   b   c\"")],
                "host;my-header1;my-header2;x-amz-date",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            "",
            3,
        ),
        (
            of(
                "GET",
                "/",
                &[
                    ("my-header1", "value2"),
                    ("my-header1", "value2"),
                    ("my-header1", "value1"),
                ],
                "host;my-header1;x-amz-date",
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            "",
            3,
        ),
        (
            of(
                "POST",
                "/",
                &[],
                names,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            "",
            3,
        ),
        (
            of(
                "POST",
                "/",
                &[("content-type", form)],
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            "Param1=value1",
            3,
        ),
    ] {
        let verified = forms(&request, body, SUITE_KEY);
        assert_eq!(verified.len(), expected, "{request:?}");
        assert!(verified.contains(&PathForm::Normalized), "{request:?}");
        assert_eq!(forms(&request, body, S3_KEY), [], "{request:?}");
    }
}

#[test]
fn examples_of_s3_are_verified() {
    let of = |method, path, more: &[(&str, &str)], names, hash, value| {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={names},Signature={value}"
        );
        let mut headers = vec![
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-content-sha256", hash),
            ("authorization", &*authorization),
        ];
        headers.extend(more);
        parts(method, path, &headers)
    };
    let get = of(
        "GET",
        "/test.txt",
        &[("range", "bytes=0-9")],
        "host;range;x-amz-content-sha256;x-amz-date",
        EMPTY_HASH,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    assert_eq!(forms(&get, "", S3_KEY).len(), 3);
    let put = of(
        "PUT",
        "/test%24file.text",
        &[
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    // The path is signed as it is sent.
    assert_eq!(forms(&put, "", S3_KEY), [PathForm::AsSent]);
    let lifecycle = of(
        "GET",
        "/?lifecycle",
        &[],
        "host;x-amz-content-sha256;x-amz-date",
        EMPTY_HASH,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
    assert_eq!(forms(&lifecycle, "", S3_KEY).len(), 3);
    let url = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=\
               AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
               &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
               &X-Amz-Signature=\
               aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let signed_url = parts("GET", url, &[("host", "examplebucket.s3.amazonaws.com")]);
    // The body of such a URL is not signed.
    assert_eq!(forms(&signed_url, "any", S3_KEY).len(), 3);
}

#[test]
fn header_is_read_with_any_spaces_between_its_fields() {
    let scope = "AKID/20150830/us-east-1/s3/aws4_request";
    for authorization in [
        format!("AWS4-HMAC-SHA256 Credential={scope},SignedHeaders=host,Signature={NO_SIGNATURE}"),
        format!(
            "AWS4-HMAC-SHA256   Signature={NO_SIGNATURE} ,  SignedHeaders=host , Credential={scope} "
        ),
    ] {
        let headers = [("authorization", &*authorization), ("x-amz-date", "x")];
        let signature = Signature::of(&parts("GET", "/", &headers).headers, "/");
        let signature = signature.unwrap().unwrap();
        assert_eq!(signature.credential, scope);
        assert_eq!(signature.scope, "20150830/us-east-1/s3/aws4_request");
        assert_eq!(signature.headers, "host");
    }
}

#[test]
fn what_is_no_complete_signature_is_unreadable_and_never_panics() {
    let good = format!(
        "AWS4-HMAC-SHA256 Credential=A/d/r/s3/aws4_request, SignedHeaders=host;x, Signature={NO_SIGNATURE}"
    );
    let read = |authorization: &str, path: &str| {
        let headers = [("authorization", authorization), ("x-amz-date", "x")];
        Signature::of(&parts("GET", "/", &headers).headers, path).map(|found| found.is_some())
    };
    assert_eq!(read(&good, "/"), Ok(true));
    for other in ["Basic x", "AWS A:x", "", "Bearer AWS4-HMAC-SHA256"] {
        assert_eq!(read(other, "/?X-Amz-Algorithm=x"), Ok(false), "{other}");
    }
    for bad in [
        "AWS4-".to_owned(),
        "AWS4-HMAC-SHA256".to_owned(),
        "AWS4-HMAC-SHA256 ".to_owned(),
        "AWS4-HMAC-SHA256 ,,,=".to_owned(),
        good.replace("aws4_request", "aws5_request"),
        good.replace("/r/", "/"),
        good.replace("A/d/r/s3/aws4_request", "aws4_request"),
        good.replace("A/d", "A\t/d"),
        // Not sorted, or several times: what is signed could be longer than the request.
        good.replace("host;x", "x;host"),
        good.replace("host;x", "host;host"),
        good.replace("000,", "00,"),
        good.replace(NO_SIGNATURE, &NO_SIGNATURE[1..]),
        good.replace(NO_SIGNATURE, &NO_SIGNATURE.replace('0', "x")),
        format!("{good}, Signature={NO_SIGNATURE}"),
    ] {
        assert_eq!(read(&bad, "/").is_err(), bad != good, "{bad}");
    }
    assert_eq!(
        read(&good, "/?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
        Err(SEVERAL)
    );
    let two = [("authorization", "Basic x"), ("authorization", &*good)];
    let two = parts("GET", "/", &two).headers;
    assert_eq!(Signature::of(&two, "/").err(), Some(SEVERAL));
    for query in ["", "&X-Amz-Date=a%0ab", "&%ff=%ff&&=&X-Amz-Signature"] {
        let path = format!("/?X-Amz-Algorithm=AWS4-HMAC-SHA256{query}");
        let found = Signature::of(&HeaderMap::new(), &path);
        assert_eq!(found.err(), Some(UNREADABLE), "{query}");
    }
    let ecdsa = "/?X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256";
    let found = Signature::of(&HeaderMap::new(), ecdsa);
    assert_eq!(found.err(), Some(OTHER_ALGORITHM));
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(
        fields in "( ?(Credential|SignedHeaders|Signature)=[a-z/;, \u{e9}]{0,40},?){0,4}",
        query in "(&?(X-Amz-(Algorithm|Date|Credential|SignedHeaders|Signature))?=?[A4%+/;\u{e9}]{0,9}){0,6}",
    ) {
        let header = format!("AWS4-HMAC-SHA256 {fields}");
        let parts = parts("GET", "/", &[("authorization", &header), ("x-amz-date", "x")]);
        let path = format!("/%/../?{query}");
        for headers in [&parts.headers, &HeaderMap::new()] {
            if let Ok(Some(signature)) = Signature::of(headers, &path) {
                let _ = signature.text(&parts, &path, None, PathForm::Normalized);
            }
        }
    }
}

#[test]
fn reasons_fit_an_answer() {
    let longest = 200 - "denied: ".len();
    for why in [
        UNREADABLE,
        SEVERAL,
        OTHER_ALGORITHM,
        UNKNOWN_KEY,
        CHUNKS,
        TOO_LONG,
    ] {
        assert!(why.len() <= longest, "{}: {why}", why.len());
    }
}

/// Placeholders of an id and a key, for a host.
fn credentials(host: &str) -> (Placeholders, String, String) {
    let placeholders = Placeholders::default();
    let add = |name: &str, value: &str| {
        let secret = PlaceholderSecret {
            name: name.into(),
            value: SecretValue::new(value),
            hosts: vec![host.parse().unwrap()],
        };
        placeholders.add(secret).unwrap()
    };
    let (id, key) = (add("ID", "AKIDREAL"), add("KEY", SUITE_KEY));
    (placeholders, id, key)
}

/// A request with a signature by a key.
fn signed(
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    (id, key): (&str, &str),
    form: PathForm,
) -> Parts {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={id}/20150830/us-east-1/s3/aws4_request, SignedHeaders={}, \
         Signature={NO_SIGNATURE}",
        names.join(";")
    );
    let mut all = headers.to_vec();
    all.push(("authorization", &authorization));
    let mut parts = parts(method, path, &all);
    let signature = Signature::of(&parts.headers, path).unwrap().unwrap();
    let text = signature.text(&parts, path, Some(b""), form).unwrap();
    let value = hmac::sign(&signature.key(key.as_bytes()), text.as_bytes());
    signature
        .put(&mut parts, path, &hex(value.as_ref()))
        .unwrap();
    parts
}

/// What the gateway does with a request without a body, and the names of its secrets.
fn passed(
    placeholders: &Placeholders,
    server: RequestedServer<'_>,
    parts: &mut Parts,
) -> Result<Vec<String>, String> {
    let mut path = path_of(parts);
    let signed = Signed::of(server, placeholders, parts, &path, Some(b""))?;
    let mut used = placeholders.swap_head(server, parts, &mut path)?;
    server.forward(parts, &path)?;
    if let Some(signed) = signed {
        signed.renew(parts, Some(b""), false, &mut used)?;
    }
    Ok(used)
}

const HEADERS: [(&str, &str); 2] = [("host", "s3.a.org"), ("x-amz-date", "20150830T123600Z")];

#[test]
fn request_is_signed_again_in_the_form_in_which_code_signed_its_path() {
    let (own, id, key) = credentials("s3.a.org");
    let path = "/a%20b/./c?y=2&x=%2F&x=";
    for form in PathForm::ALL {
        let of = |id: &str, key: &str| signed(("GET", path), &HEADERS, (id, key), form);
        let mut request = of(&id, &key);
        let used = passed(&own, SERVER, &mut request).unwrap();
        assert_eq!(used, ["ID", "KEY"]);
        let expected = of("AKIDREAL", SUITE_KEY);
        assert_eq!(request.headers, expected.headers, "{form:?}");
        // The id may be no secret.
        let mut request = of("AKIDREAL", &key);
        assert_eq!(passed(&own, SERVER, &mut request).unwrap(), ["KEY"]);
        assert_eq!(request.headers, expected.headers, "{form:?}");
    }
}

#[test]
fn host_is_signed_as_it_is_sent_to_the_server() {
    let (own, id, key) = credentials("s3.a.org");
    let mut headers = HEADERS;
    headers[0].1 = "S3.a.org:443";
    let form = PathForm::AsSent;
    let mut request = signed(("GET", "/"), &headers, (&id, &key), form);
    passed(&own, SERVER, &mut request).unwrap();
    let expected = signed(("GET", "/"), &HEADERS, ("AKIDREAL", SUITE_KEY), form);
    assert_eq!(request.headers, expected.headers);
}

#[test]
fn key_for_another_server_signs_nothing() {
    let plain = RequestedServer {
        is_tls: false,
        ..SERVER
    };
    for (host, server) in [("b.org", SERVER), ("s3.a.org", plain)] {
        let (own, _, key) = credentials(host);
        let form = PathForm::AsSent;
        let mut request = signed(("GET", "/"), &HEADERS, ("AKID", &key), form);
        let before = request.headers.clone();
        let denied = passed(&own, server, &mut request).unwrap_err();
        assert!(denied.contains("the secret KEY"), "{denied}");
        assert_eq!(request.headers, before);
    }
}

#[test]
fn own_credentials_of_code_are_passed_on_and_not_mixed_with_secrets() {
    let (own, id, key) = credentials("s3.a.org");
    let form = PathForm::AsSent;
    let of = |path, more: &[(&str, &str)], id: &str, key: &str| {
        let headers = [&HEADERS, more].concat();
        signed(("GET", path), &headers, (id, key), form)
    };
    let mut request = of("/?a=b", &[], "AKID", "own");
    let before = request.headers.clone();
    assert_eq!(passed(&own, SERVER, &mut request).unwrap(), [""; 0]);
    assert_eq!(request.headers, before);
    // A secret that no signature covers changes nothing.
    request.headers.insert("x-other", id.parse().unwrap());
    assert_eq!(passed(&own, SERVER, &mut request).unwrap(), ["ID"]);
    assert_eq!(request.headers["x-other"], "AKIDREAL");
    for mut mixed in [
        of("/", &[], &id, "own"),
        of(&format!("/?a={id}"), &[], "AKID", "own"),
        of("/", &[("x-amz-security-token", &id)], "AKID", "own"),
        // No secret of this sandbox, such as one of an execution that has ended.
        of("/", &[], &id, &format!("{key}0")),
    ] {
        assert_eq!(passed(&own, SERVER, &mut mixed).unwrap_err(), UNKNOWN_KEY);
    }
}

#[test]
fn body_that_is_too_long_to_be_read_is_passed_on_without_secrets_alone() {
    let (own, id, _) = credentials("s3.a.org");
    let of = |id: &str| {
        let mut request = signed(("PUT", "/"), &HEADERS, (id, "own"), PathForm::AsSent);
        request.headers.remove(CONTENT_HASH);
        let before = Signed::of(SERVER, &own, &request, "/", None).unwrap();
        let mut path = "/".to_owned();
        let mut used = own.swap_head(SERVER, &mut request, &mut path).unwrap();
        let signed = before.expect("a signature");
        signed.renew(&mut request, None, false, &mut used)
    };
    assert_eq!(of("AKID"), Ok(()));
    assert_eq!(of(&id), Err(TOO_LONG.to_owned()));
}

#[test]
fn what_cannot_be_signed_again_is_denied() {
    let (own, id, key) = credentials("s3.a.org");
    let form = PathForm::AsSent;
    let of = |more: &[(&str, &str)]| {
        let headers = [&HEADERS, more].concat();
        signed(("GET", "/"), &headers, (&id, &key), form)
    };
    for kind in [
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    ] {
        let mut request = of(&[(CONTENT_HASH, kind)]);
        assert_eq!(passed(&own, SERVER, &mut request).unwrap_err(), CHUNKS);
    }
    let mut unsigned = of(&[(CONTENT_HASH, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")]);
    passed(&own, SERVER, &mut unsigned).unwrap();
    let mut hop = of(&[("te", "trailers")]);
    let denied = passed(&own, SERVER, &mut hop).unwrap_err();
    assert!(denied.contains("covers the header te,"), "{denied}");
    // The header with the signature, and the one with its time.
    for stripped in ["authorization", "x-amz-date"] {
        let mut request = of(&[]);
        let value = HeaderValue::from_static(stripped);
        request.headers.insert("connection", value);
        let denied = passed(&own, SERVER, &mut request).unwrap_err();
        assert!(
            denied == UNREADABLE || denied.contains("x-amz-date"),
            "{denied}"
        );
    }
    let ecdsa = |id: &str| {
        let authorization = format!(
            "AWS4-ECDSA-P256-SHA256 Credential={id}/20150830/s3/aws4_request, SignedHeaders=host, Signature=00"
        );
        parts("GET", "/", &[HEADERS[0], ("authorization", &authorization)])
    };
    let denied = passed(&own, SERVER, &mut ecdsa(&id)).unwrap_err();
    assert_eq!(denied, OTHER_ALGORITHM);
    assert_eq!(passed(&own, SERVER, &mut ecdsa("AKID")).unwrap(), [""; 0]);
}

#[test]
fn secret_in_the_list_of_signed_headers_is_in_no_reason() {
    let (own, _, key) = credentials("s3.a.org");
    let headers = [HEADERS[0], (&*key, "1"), HEADERS[1]];
    let mut request = signed(("GET", "/"), &headers, ("AKID", &key), PathForm::AsSent);
    let denied = passed(&own, SERVER, &mut request).unwrap_err();
    assert_eq!(denied, UNREADABLE);
}
