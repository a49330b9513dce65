use super::*;

fn read_with(text: &str, network: bool) -> Result<Recipe, String> {
    let given = BTreeMap::from([("GIVEN".to_owned(), "given:1".to_owned())]);
    read(text, &given, network)
}

fn ids(recipe: &Recipe) -> HashMap<String, String> {
    let images = recipe.images().zip(1..);
    images
        .map(|(name, id)| (name.to_owned(), format!("sha256:{id}")))
        .collect()
}

#[test]
fn sent_text_has_image_ids_and_lowercase_stages() {
    let text = "# syntax=docker/dockerfile:1\n# comment\nARG BASE=python:3.11\nARG GIVEN=other\n\
                from --platform=linux/amd64 ${BASE} as Build\nRUN echo \\\n  FROM nothing\nFROM $GIVEN\n\
                COPY --chown=1 --from=BUILD /a /a\nCOPY --from=+0 [\"/b\" ,\"/b c\"]\nCOPY --from=team/tool:1 /c /c\n\
                FROM scratch\nFROM build\nFROM ${NONE:-alpine} AS alpine\nADD  a.tar  /\nRUN [\"a\", \"\\u0062\"]\n\
                run [ -f /x ] && [ \"$A\" = b ]\nENV A=\"b  c\"\nFROM alpine\nCOPY --from=alpine x y\nCMD [\"sh\"]\n";
    let recipe = read_with(text, false).expect("a Dockerfile");
    let images = recipe.images().collect::<Vec<_>>();
    assert_eq!(images, ["python:3.11", "given:1", "team/tool:1", "alpine"]);
    assert_eq!(recipe.notes.len(), 1);
    insta::assert_snapshot!(recipe.text(&ids(&recipe)));
    assert_eq!(recipe.stage("Build"), Some(0));
    assert_eq!(recipe.stage("2"), Some(2));
    for none in ["6", "+1", "python", ""] {
        assert_eq!(recipe.stage(none), None, "{none}");
    }
    // The sent text reads back unchanged.
    let sent = recipe.text(&HashMap::new());
    let again = read_with(&sent, false).expect(&sent);
    assert_eq!(again.text(&HashMap::new()), sent);
}

#[test]
fn undeclared_fetches_are_refused() {
    let mut reasons = String::new();
    for bad in [
        "FROM x\nADD http://example.org/x /",
        "FROM x\nADD HTTP://example.org/x /",
        "FROM x\nADD --chown=1 https://example.org/x /",
        "FROM x\nADD --checksum=sha256:00 https://example.org/x /",
        "FROM x\nADD git@example.org:x /",
        "FROM x\nADD someone@example.org:x /",
        "FROM x\nADD git://example.org/x /",
        "FROM x\nADD GitHub.com/x/y /",
        "FROM x\nADD ht\\tp:\\/\\/example.org/x /",
        "FROM x\nADD \"htt\"p:'//'example.org/x /",
        "FROM x\nARG URL=http://example.org\nADD $URL /",
        "FROM x\nADD [\"http://example.org/x\", \"/\"]",
        "FROM x\nADD [\"\\u0068ttp:\\u002f/example.org/x\", \"/\"]",
        "FROM x\nADD [\"http:\\u005c/\\u005c/example.org/x\", \"/\"]",
        "FROM x\nADD [\"\\u0068ttp:\\u002f\\u002fexample.org/x\", \"/\"] /",
        "FROM x\nADD [\"\\ud800\", \"/\"]",
        "FROM x\nADD [x /",
        "FROM x\nCOPY http://example.org/x /",
        "FROM x\nCOPY [\"a\", \"/\"] b",
        "FROM x\nCOPY a",
        "FROM x\nRUN [\"a\"] b",
        "FROM $MISSING",
        "FROM x y",
        "FROM x AS",
        "FROM x AS y z",
        "FROM x AS y/z",
        "FROM x AS 0",
        "FROM x AS scratch",
        "FROM x AS $Y",
        "FROM x AS y\nFROM x AS Y",
        "FROM x AS python\nCOPY --from=python /a /a",
        "FROM x\nCOPY --from=0 /a /a",
        "FROM x\nFROM x\nCOPY --from=1 /a /a",
        "FROM x\nFROM x\nCOPY --from=7 /a /a",
        "FROM x\nCOPY --from= /a /a",
        "FROM x\nCOPY --from /a /a",
        "FROM x\nSHELL sh",
        "RUN true",
        "ARG A",
        "",
    ] {
        let why = read_with(bad, false).expect_err(bad);
        reasons.push_str(&format!("{}\n    {why}\n", bad.escape_debug()));
    }
    insta::assert_snapshot!(reasons);
    for good in [
        "FROM x\nADD file.tar $DEST/",
        "FROM x\nADD [\"a b\", \"/\"]",
        "FROM x\nCOPY $FILE /",
        "FROM x\nCOPY me@home /",
    ] {
        assert!(
            read_with(good, false).is_ok(),
            "{good}: {:?}",
            read_with(good, false)
        );
    }
    for fetched in ["http://example.org/x", "$URL", "git@example.org:x"] {
        assert!(read_with(&format!("FROM x\nADD {fetched} /"), true).is_ok());
    }
}

#[test]
fn name_is_an_image_until_its_stage_is_complete() {
    // `later` is a stage only after its own FROM, and `alpine` is the image where it is defined.
    let text = "FROM later AS a\nCOPY --from=later /x /x\nFROM alpine AS alpine\nFROM x AS later\nFROM Later\n";
    let recipe = read_with(text, false).expect("a Dockerfile");
    let images = recipe.images().collect::<Vec<_>>();
    assert_eq!(images, ["later", "later", "alpine", "x"]);
    assert!(recipe.text(&ids(&recipe)).ends_with("FROM later\n"));
}

#[test]
fn build_argument_adds_no_instruction() {
    for value in ["alpine AS x", "alpine\nFROM evil", "alpine\nRUN true"] {
        let given = BTreeMap::from([("BASE".to_owned(), value.to_owned())]);
        match read("ARG BASE\nFROM $BASE\nFROM x\n", &given, false) {
            Ok(recipe) => assert_eq!(recipe.images().next(), Some(value)),
            Err(why) => assert!(why.contains("two readers"), "{why}"),
        }
    }
}

#[test]
fn onbuild_triggers_are_checked_strictly() {
    assert_eq!(check_trigger("RUN true", false), Ok("RUN"));
    assert_eq!(check_trigger("copy . /app", false), Ok("COPY"));
    assert_eq!(check_trigger("ADD http://example.org /", true), Ok("ADD"));
    for bad in [
        "ADD http://example.org /",
        "COPY --from=other /a /a",
        "COPY --from=0 /a /a",
        "RUN --mount=type=bind,source=x,target=/x true",
        "RUN a \\\nFROM evil",
        "RUN a\nFROM evil",
        "FROM scratch",
        "ONBUILD RUN true",
        "RUN <<EOF",
        "# comment",
        "",
    ] {
        assert!(check_trigger(bad, false).is_err(), "{bad:?}");
    }
}
