//! Opens the page in a headless browser and checks what it shows, how wide it is, and that no
//! script of a sandbox runs.

use std::path::Path;
use std::process::Command;

use sandbox_conformance::report;

use crate::sample;

/// The programs of supported browsers.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The name by which `SANDBOX_REQUIRE` makes a missing browser a failure.
pub const REQUIRED: &str = "browser";

/// Queries the page by a script. The page's own policy forbids scripts, so the test removes it. A
/// sandbox's script would then run too.
const QUESTIONS: &str = "<script>
const shown = element => element.checkVisibility();
const seen = {};
seen.hostile = document.title;
seen.wide = document.documentElement.scrollWidth > window.innerWidth;
const details = [...document.querySelectorAll('details.passed')];
seen.folded = details.every(one => !one.open);
const box = document.getElementById('show-passed');
seen.before = details.filter(shown).length;
box.click();
seen.after = details.filter(shown).length;
box.click();
const cell = document.querySelector('td a');
cell.focus();
seen.keyboard = document.activeElement === cell;
cell.click();
const section = document.querySelector(':target');
seen.section = section ? section.id : null;
const summary = section.querySelector('summary');
summary.focus();
seen.summary = document.activeElement === summary;
summary.click();
seen.evidence = shown(section.querySelector('dl'));
box.click();
seen.linked = [...section.querySelectorAll(':scope > details')].every(shown);
box.click();
for (const one of document.querySelectorAll('details')) { one.open = true; }
seen.open_wide = document.documentElement.scrollWidth > window.innerWidth;
const answer = document.createElement('output');
answer.id = 'answer';
answer.textContent = JSON.stringify(seen);
document.body.append(answer);
</script>";

/// Why the page cannot be opened here.
pub fn missing() -> Option<String> {
    let reason = format!("none of {BROWSERS:?} is installed; apt-get install chromium");
    find().is_none().then_some(reason)
}

fn find() -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    BROWSERS
        .into_iter()
        .find(|name| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// The page's answers in a window of this size.
fn asked(browser: &str, folder: &Path, page: &Path, size: &str) -> serde_json::Value {
    let mut command = Command::new(browser);
    command
        // Chromium's own sandbox does not work as root. The page is trusted.
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("--window-size={size}"))
        .arg(format!("file://{}", page.display()))
        .env("HOME", folder);
    let output = command.output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let answer = dom
        .split_once("<output id=\"answer\">")
        .and_then(|(_, rest)| rest.split_once("</output>"));
    let Some((answer, _)) = answer else {
        panic!("no answer: {}", String::from_utf8_lossy(&output.stderr));
    };
    serde_json::from_str(&answer.replace("&quot;", "\"")).expect("an answer in JSON")
}

pub fn page_works_on_a_phone_and_by_keyboard() {
    let browser = find().expect("a browser");
    let folder = tempfile::tempdir().expect("a folder");
    let page = report::page(&sample::results(), None);
    let policy = page.find("<meta http-equiv").expect("a policy");
    let end = policy + page[policy..].find('\n').expect("a line");
    let page = format!("{}{}", &page[..policy], &page[end..]);
    let page = page.replacen("</body>", &format!("{QUESTIONS}</body>"), 1);
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).expect("the page");
    for size in ["1280,800", "500,844"] {
        let seen = asked(browser, folder.path(), &file, size);
        assert_eq!(seen["hostile"], "Sandbox conformance", "{size}: {seen}");
        assert_eq!(seen["wide"], false, "{size}: {seen}");
        assert_eq!(seen["open_wide"], false, "{size}: {seen}");
        assert_eq!(seen["folded"], true, "{size}: {seen}");
        assert!(
            seen["before"].as_u64() > Some(0) && seen["after"] == 0,
            "{size}: {seen}"
        );
        for by_keyboard in ["keyboard", "summary", "evidence", "linked"] {
            assert_eq!(seen[by_keyboard], true, "{size}: {seen}");
        }
        assert!(seen["section"].is_string(), "{size}: {seen}");
    }
}
