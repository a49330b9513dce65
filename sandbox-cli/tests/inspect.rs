//! `sandbox check`, `doctor`, `matrix` and `policy`.

mod common;

use common::{checkout, run_json, run_text};

#[test]
#[cfg(feature = "local")]
fn check_reports_enforcement() {
    let (code, stdout, stderr) = run_text(["check"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("CAPABILITY"), "{stdout}");
    assert!(
        stdout.contains("network_access") && stdout.ends_with("local: would run\n"),
        "{stdout}"
    );
    let (code, document) = run_json(&["check"]);
    assert_eq!(code, Some(0));
    assert_eq!(document["accepted"], true);
    let rows = document["capabilities"].as_array().unwrap();
    assert!(
        rows.iter()
            .all(|row| row["demanded"].is_string() && row["level"].is_string())
    );
}

#[test]
#[cfg(feature = "local")]
fn check_all_reports_every_tier() {
    let (code, stdout, stderr) = run_text(["check", "--all"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let line = |tier: &str| {
        let mut lines = stdout.lines().map(|line| line.split_whitespace());
        lines.find_map(|mut words| (words.next() == Some(tier)).then(|| words.collect::<Vec<_>>()))
    };
    assert!(
        line("local").is_some_and(|words| words.starts_with(&["would", "run"])),
        "{stdout}"
    );
    assert!(
        line("local_unsafe").is_some_and(|words| words.contains(&"nothing")),
        "{stdout}"
    );

    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    // A writable workspace is a folder of the host, which no tier bounds here.
    std::fs::write(&policy, "version = 1\ndisk = '10MiB'").unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let (policy, workspace) = (policy.to_str().unwrap(), workspace.path().to_str().unwrap());
    let arguments = [
        "check",
        "--all",
        "--policy",
        policy,
        "--workspace",
        workspace,
    ];
    let (code, document) = run_json(&arguments);
    assert_eq!(
        (code, &document["accepted"]),
        (Some(3), &serde_json::json!(false))
    );
    let tiers = document["tiers"].as_array().unwrap();
    let local = tiers.iter().find(|tier| tier["tier"] == "local").unwrap();
    assert_eq!(local["answer"], "refused");
    // What a program would add to the policy to accept the gaps.
    assert_eq!(
        local["waiver"]["allow_partial"],
        serde_json::json!(["disk"]),
        "{local}"
    );
    let (code, _, stderr) = run_text(["check", "--all", "--backend", "local"]);
    assert_eq!(code, Some(125), "{stderr}");
}

#[test]
#[cfg(feature = "local")]
fn check_reports_refusal_with_exit_code_3() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    // A writable workspace is a folder of the host, which is not bounded.
    std::fs::write(&policy, "version = 1\ndisk = '10MiB'").unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let (policy, workspace) = (policy.to_str().unwrap(), workspace.path().to_str().unwrap());
    let arguments = ["check", "--policy", policy, "--workspace", workspace];
    let (code, stdout, stderr) = run_text(arguments);
    assert_eq!(code, Some(3), "{stdout}{stderr}");
    assert!(
        stdout
            .lines()
            .any(|line| line.contains("disk") && line.contains("workspace unbounded")),
        "{stdout}"
    );
    let (code, document) = run_json(&arguments);
    assert_eq!(
        (code, &document["accepted"]),
        (Some(3), &serde_json::json!(false))
    );
    // The same policy does not run.
    let run = [
        "run",
        "--policy",
        policy,
        "--workspace",
        workspace,
        "--",
        "true",
    ];
    let (code, stdout, stderr) = run_text(run);
    assert_eq!((code, stdout.as_str()), (Some(125), ""));
    assert!(
        stderr.contains("sandbox: refused: local cannot guarantee"),
        "{stderr}"
    );
    let (_, document) = run_json(&run);
    assert_eq!(document["error"]["kind"], "not_enforceable");
    let unmet = document["error"]["unmet"].as_array().unwrap();
    assert!(
        unmet
            .iter()
            .any(|unmet| unmet["demand"]["capability"] == "disk"),
        "{unmet:?}"
    );
    let denials = document["error"]["denials"].as_array().unwrap();
    assert_eq!(denials.len(), unmet.len());
    assert!(
        denials
            .iter()
            .all(|denial| denial["kind"] == "not_enforceable")
    );
}

#[test]
#[cfg(feature = "local")]
fn doctor_reports_a_fix_for_each_problem() {
    let (code, document) = run_json(&["doctor"]);
    assert_eq!(code, Some(0), "{document}");
    let tiers = document["tiers"].as_array().unwrap();
    assert!(
        tiers
            .iter()
            .all(|tier| !tier["tier"].as_str().unwrap().ends_with("_unsafe"))
    );
    let local = tiers.iter().find(|tier| tier["tier"] == "local").unwrap();
    let findings = local["findings"].as_array().unwrap();
    assert!(findings.len() >= 5, "{findings:?}");
    for finding in findings {
        assert!(finding["name"].is_string() && finding["detail"].is_string());
        let fix = finding["fix"].as_str().unwrap();
        assert!(!fix.contains('\n'));
    }
    let (code, stdout, _) = run_text(["doctor", "-b", "local"]);
    assert_eq!(code, Some(0));
    assert!(
        stdout.starts_with("local: the default policy runs here\n"),
        "{stdout}"
    );
}

#[test]
#[cfg(feature = "local")]
fn matrix_distinguishes_declared_from_measured() {
    let (code, stdout, _) = run_text(["matrix", "--here"]);
    assert_eq!(code, Some(0));
    assert!(
        stdout.starts_with("declared on this host, not measured:"),
        "{stdout}"
    );
    let row = stdout
        .lines()
        .find(|line| line.starts_with("network_access"))
        .unwrap();
    assert!(
        row.contains("enforced") && row.contains("unenforced"),
        "{row}"
    );
    let (_, document) = run_json(&["matrix", "--here"]);
    assert_eq!(document["source"], "declared on this host, not measured");
}

#[test]
fn policy_schema_matches_published_schema() {
    let (code, stdout, _) = run_text(["policy", "schema"]);
    assert_eq!(code, Some(0));
    let published = std::fs::read_to_string(checkout().join("docs/policy.schema.json")).unwrap();
    assert!(stdout == published);
}

#[test]
fn policy_show_prints_equivalent_policy_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(
        &file,
        "version = 1\nextends = 'strict'\nmemory = '64MiB'\negress = []",
    )
    .unwrap();
    let (code, shown, stderr) = run_text(["policy", "show", file.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        shown.contains("memory = \"64MiB\"") && shown.contains("require_all = true"),
        "{shown}"
    );
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("#  memory") && line.contains("required")),
        "{shown}"
    );
    let copy = folder.path().join("again.toml");
    std::fs::write(&copy, &shown).unwrap();
    assert_eq!(
        run_text(["policy", "show", copy.to_str().unwrap()]).1,
        shown
    );
}

#[test]
fn why_names_the_rule_that_decides() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("p.toml");
    let root = folder.path().display();
    let text = format!(
        "version = 1\nfilesystem_read_roots = ['{root}']\negress = ['*.a.org', '!x.a.org']"
    );
    std::fs::write(&policy, text).unwrap();
    let policy = policy.to_str().unwrap();
    let why = |subject: &str| run_text(["why", "--policy", policy, subject]);

    let (code, stdout, _) = why("x.a.org:443");
    let expected = "connect x.a.org:443: denied: the rule !x.a.org denies it (egress = !x.a.org)\n";
    assert_eq!((code, stdout.as_str()), (Some(3), expected));
    let (code, stdout, _) = why("y.a.org");
    assert_eq!(code, Some(0));
    assert!(
        stdout.lines().all(|line| line.contains("egress = *.a.org")),
        "{stdout}"
    );
    assert_eq!(stdout.lines().count(), 2);

    let (code, document) = run_json(&["why", "--policy", policy, policy]);
    let [read, write] = [&document["decisions"][0], &document["decisions"][1]];
    assert_eq!(
        (code, &read["allowed"]),
        (Some(0), &serde_json::json!(true))
    );
    assert_eq!(read["rule"], format!("filesystem_read_roots = {root}"));
    assert_eq!(
        (&write["action"], &write["allowed"]),
        (&"write".into(), &false.into())
    );

    let (code, stdout, _) = run_text(["why", "example.org:443"]);
    assert_eq!(code, Some(3));
    assert!(stdout.contains("the policy has no network"), "{stdout}");
    let (code, _, stderr) = why("127.1");
    assert_eq!(code, Some(125));
    assert!(stderr.contains("four decimal numbers"), "{stderr}");
}

#[test]
#[cfg(feature = "local")]
fn allowed_hosts_become_demands() {
    let allow = [
        "check",
        "--allow-host",
        "a.org:443",
        "--allow-host",
        "!b.org",
    ];
    // Whether they are enforced depends on the host's namespaces.
    let (_, document) = run_json(&allow);
    let rows = document["capabilities"].as_array().unwrap();
    let egress = rows
        .iter()
        .find(|row| row["capability"] == "egress")
        .unwrap();
    assert_eq!(egress["demanded"], "a.org:443, !b.org");
    let (code, _, stderr) = run_text(["check", "--allow-host", "http://a.org"]);
    assert_eq!(code, Some(125));
    assert!(stderr.contains("no scheme"), "{stderr}");
    let (code, document) = run_json(&["check", "--network", "full"]);
    let rows = document["capabilities"].as_array().unwrap();
    assert!(
        !rows.iter().any(|row| row["capability"] == "network_access"),
        "{code:?} {rows:?}"
    );
    let (code, _, _) = run_text(["check", "--network", "none", "--allow-host", "a.org"]);
    assert_eq!(code, Some(125));
}
