use std::collections::BTreeMap;

use super::super::dockerfile::read;
use super::*;

const TEXT: &str =
    "ARG X=1\nFROM base AS one\nCOPY a /a\nFROM scratch AS unused\nRUN u\nFROM one AS two\nRUN b\n";

fn steps(target: Option<usize>) -> ExpectedSteps {
    let recipe = read(TEXT, &BTreeMap::new(), false).expect("a Dockerfile");
    let ids = HashMap::from([("base".to_owned(), "sha256:1".to_owned())]);
    let triggers = HashMap::from([("base".to_owned(), vec!["ENV", "COPY"])]);
    ExpectedSteps::of(&recipe, target, &ids, &triggers)
}

fn finish(target: Option<usize>, lines: &[&str]) -> Option<String> {
    let mut steps = steps(target);
    for line in lines {
        steps.observe(line);
    }
    steps.finish()
}

const DOCKER: [&str; 9] = [
    "Step 1/8 : ARG X=1",
    "Step 2/8 : FROM sha256:1 AS one",
    "# Executing 1 build trigger",
    "Step 3/8 : COPY a /a",
    "Step 4/8 : FROM scratch AS unused",
    "Step 5/8 : RUN u",
    "Step 6/8 : FROM one AS two",
    "Step 7/8 : RUN b",
    "Step 8/8 : LABEL sandbox.built=0",
];

#[test]
fn steps_announced_by_docker_and_podman_match() {
    let built = format!("LABEL \"{}\"=\"0\"", labels::BUILT);
    let mut docker = DOCKER.map(str::to_owned);
    docker[8] = format!("Step 8/8 : {built}");
    let docker = docker.each_ref().map(String::as_str);
    assert_eq!(finish(None, &docker), None);
    assert_eq!(finish(Some(0), &docker[..4]), None);
    let id = "a".repeat(64);
    let from = format!("[2/2] STEP 1/3: FROM {id} AS two");
    let label = format!("[2/2] STEP 3/3: {built}");
    let podman = [
        "[1/2] STEP 1/2: FROM sha256:1 AS one",
        "[1/2] STEP 2/3: ENV a=b",
        "[1/2] STEP 3/3: COPY b /b",
        "[1/2] STEP 4/3: COPY a /a",
        "--> 40660255e0b",
        &from,
        "[2/2] STEP 2/3: RUN b",
        "Step 1/3: an unusual program's own",
        "STEP one",
        &label,
        "[2/2] COMMIT",
    ];
    assert_eq!(finish(None, &podman), None);
}

#[test]
fn deviating_builder_is_reported() {
    let mut differences = String::new();
    let mut tell = |lines: &[&str]| {
        let difference = finish(None, lines).expect("a difference");
        differences.push_str(&format!("{difference}\n"));
    };
    tell(&[]);
    tell(&DOCKER[..7]);
    tell(&["Step 1/8 : ARG X=1", "Step 2/8 : FROM sha256:2 AS one"]);
    tell(&["Step 1/8 : ARG X=1", "Step 2/8 : FROM evil"]);
    tell(&[&DOCKER[..2], &["Step 3/8 : ADD http://evil /"]].concat());
    tell(&[&DOCKER[..4], &["Step 4/8 : FROM evil"]].concat());
    tell(&[&DOCKER[..6], &["Step 6/8 : FROM evil AS two"]].concat());
    tell(&[&DOCKER[..8], &["Step 8/8 : LABEL a=b"]].concat());
    tell(&[&DOCKER[..8], &["Step 8/9 : FROM evil"]].concat());
    tell(&["STEP 1/1: onbuild add x y"]);
    insta::assert_snapshot!(differences);
}
