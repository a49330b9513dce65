//! `sandbox run -o json`.

#![cfg(feature = "local")]

mod common;

use common::run_json;

#[test]
fn json_result_has_every_field() {
    let (code, result) = run_json(&[
        "run",
        "-c",
        "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)",
    ]);
    assert_eq!(code, Some(3));
    assert_eq!(result["backend"], "local");
    assert_eq!(result["tier"], "local");
    assert_eq!(
        result["outcome"],
        serde_json::json!({"kind": "exited", "code": 3})
    );
    assert_eq!(result["exit_code"], 3);
    for (stream, text) in [("stdout", "out\n"), ("stderr", "err\n")] {
        assert_eq!(result[stream], text);
        assert_eq!(result[format!("{stream}_truncated")], false);
        assert_eq!(result[format!("{stream}_total_bytes")], 4);
        assert!(result.get(format!("{stream}_base64")).is_none());
    }
    assert_eq!(result["artifacts"], serde_json::json!([]));
    assert!(result["duration_ms"].as_f64().unwrap() > 0.0);
    let entries = result["enforcement"].as_array().unwrap();
    assert!(entries.len() >= 12, "{entries:?}");
    for entry in entries {
        assert!(entry["capability"].is_string());
        assert!(entry["demanded"].is_string(), "{entry}");
        match entry["status"].as_str().unwrap() {
            "enforced" => assert!(entry["mechanism"].is_string()),
            "partial" => assert!(entry["mechanism"].is_string() && entry["gap"].is_string()),
            "unenforced" => assert!(entry["reason"].is_string()),
            other => panic!("{other}"),
        }
    }
    let network = entries
        .iter()
        .find(|entry| entry["capability"] == "network_access")
        .unwrap();
    assert_eq!(network["status"], "enforced");
}

#[test]
fn binary_output_is_complete_in_json() {
    let (_, result) = run_json(&["run", "--", "printf", "a\\377b"]);
    assert_eq!(result["stdout"], "a\u{fffd}b");
    assert_eq!(result["stdout_base64"], "Yf9i");
    assert_eq!(result["stdout_total_bytes"], 3);
}

#[test]
fn events_are_one_json_object_in_each_line() {
    let script = "echo out; printf 'a\\377b' >&2; exit 3";
    let line = ["run", "-o", "jsonl", "--", "sh", "-c", script];
    let (code, stdout, stderr) = common::run_text(line);
    assert_eq!((code, stderr.as_str()), (Some(3), ""));
    let events = stdout.lines().map(serde_json::from_str);
    let events: Vec<serde_json::Value> = events.collect::<Result<_, _>>().unwrap();
    assert_eq!(events[0]["event"], "started");
    assert_eq!(events[0]["tier"], "local");
    let output = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(output("stdout")["text"], "out\n");
    assert!(output("stdout").get("base64").is_none());
    assert_eq!(output("stderr")["base64"], "Yf9i");
    let end = events.last().unwrap();
    assert_eq!(
        (&end["event"], &end["exit_code"]),
        (&"end".into(), &3.into())
    );
    assert!(end.get("stdout").is_none());
    assert_eq!(end["stderr_total_bytes"], 3);
    let (_, stdout, _) = common::run_text(["run", "-o", "jsonl", "--bad"]);
    let error: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
}

#[test]
fn unsafe_tier_reports_no_enforcement() {
    let output = common::run(["run", "-b", "local_unsafe", "-o", "json", "--", "true"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["tier"], "local_unsafe");
    let entries = result["enforcement"].as_array().unwrap();
    assert!(entries.len() >= 20);
    assert!(
        entries.iter().all(|entry| entry["status"] == "unenforced"),
        "{entries:?}"
    );
    assert!(common::text(&output.stderr).contains("local_unsafe applies no policy"));
}

#[test]
fn json_denials_include_a_message() {
    let code = "import socket\ntry: socket.create_connection(('192.0.2.7', 80))\nexcept OSError: print('no')";
    let (exit, result) = run_json(&["run", "-c", code]);
    assert_eq!((exit, &result["stdout"]), (Some(0), &"no\n".into()));
    let denials = result["denials"].as_array().unwrap();
    let [denial] = denials.as_slice() else {
        panic!("{denials:?}")
    };
    for (field, value) in [
        ("kind", "network"),
        ("capability", "network_access"),
        ("rule", "network_access = none"),
    ] {
        assert_eq!(denial[field], value);
    }
    assert_eq!(denial["retry_helps"], false);
    assert!(denial["times"].as_u64() >= Some(1));
    let line = "network access is denied by the policy (network_access = none); a retry will not help: work without the network, \
                or ask the operator to allow the destination";
    assert_eq!(denial["message"], line);
    assert_eq!(result["denials_omitted"], 0);

    // Denials are printed as text, even with `-q`.
    let (exit, stdout, stderr) = common::run_text(["run", "-q", "-c", code]);
    assert_eq!((exit, stdout.as_str()), (Some(0), "no\n"));
    assert_eq!(stderr, format!("sandbox: {line}\n"));

    let (_, result) = run_json(&["run", "--", "true"]);
    assert_eq!(result["denials"], serde_json::json!([]));
}
