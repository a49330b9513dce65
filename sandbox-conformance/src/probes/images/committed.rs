//! Images that are made from sandboxes.

use std::path::Path;

use sandbox_core::{BuildRequest, Error, ErrorKind, ExecRequest, Result, SandboxHandle};

use super::*;

/// What a sandbox may not leave in an image.
const VARIABLE: &str = "CONFORMANCE";

/// A file that changes the image, and one in a folder that is no part of it.
fn files(token: &str) -> [String; 2] {
    ["/etc", "/tmp"].map(|folder| format!("{folder}/{token}-image"))
}

/// A sandbox of the image has the changed files, and no other trace of the first sandbox. The
/// image is gone after its removal.
pub(super) async fn kept(maker: &Maker) -> Deviation {
    let token = maker.token.as_str();
    let [changed, temporary] = files(token);
    let mut spec = maker.spec().writable_root(true).user("0");
    spec = spec.env(VARIABLE, token);
    let first = maker.create(&spec).await?;
    let script = format!("printf {token} > {changed} && printf {token} > {temporary}");
    first.exec(&ExecRequest::shell(script)).await?.check()?;
    let read = Call::new(["read", &changed]);
    let there = maker.run(&first, &read).await?;
    if !there.is_success() {
        return Ok(Some(format!("{changed} in the first sandbox: {there:?}")));
    }
    let variable = Call::new(["variable", VARIABLE]);
    let set = maker.run(&first, &variable).await?;
    if !set.is_success() {
        return Ok(Some(format!("{VARIABLE} in the first sandbox: {set:?}")));
    }
    let image = first.commit(&maker.tag).await?;
    if maker.id(&maker.tag).await?.as_ref() != Some(&image.id) {
        return Ok(Some(format!("{} is not listed as {}", maker.tag, image.id)));
    }
    // The engine's own commit has the container's labels, and no name. Lists of the client leave it
    // out.
    if let Some(engine) = &maker.engine {
        let left = engine
            .images(&format!("sandbox.name={}", spec.name))
            .await?;
        if !left.is_empty() {
            return Ok(Some(format!("images with its labels are left: {left:?}")));
        }
    }
    // It goes on.
    let alive = maker.run(&first, &Call::new(["alive"])).await?;
    first.kill().await?;
    let second = maker.create(&maker.spec().image(&maker.tag)).await?;
    let usual = maker.create(&maker.spec()).await?;
    let absent = Attempt::blocked(["ENOENT"]);
    let expected = [
        ("alive", alive, Attempt::succeeded()),
        ("changed", maker.run(&second, &read).await?, there),
        (
            "changed, elsewhere",
            maker.run(&usual, &read).await?,
            absent.clone(),
        ),
        (
            "temporary",
            maker.run(&second, &Call::new(["read", &temporary])).await?,
            absent,
        ),
        (
            "variable",
            maker.run(&second, &variable).await?,
            Attempt::blocked(["absent"]),
        ),
    ];
    for sandbox in [second, usual] {
        sandbox.kill().await?;
    }
    for (what, found, right) in expected {
        if found != right {
            return Ok(Some(format!("{what}: {found:?}, not {right:?}")));
        }
    }
    maker.client.remove_image(&maker.tag).await?;
    let again = maker.client.create(&maker.spec().image(&maker.tag)).await;
    let kind = again.map(|sandbox| sandbox.name().to_owned());
    let is_missing = kind
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::ImageNotFound);
    Ok((!is_missing).then(|| format!("after the removal: {kind:?}")))
}

/// Makes an image with wrong users' names and a program with the set-user-ID bit of root. Code
/// cannot set that bit, so the engine's builder does.
pub(super) async fn prepare(maker: &Maker, dockerfile: &Path) -> Result<()> {
    let first = maker.changeable().await?;
    let script = format!(
        "cp {} {SET_USER_ID} && \
         printf 'root:x:1000:1000::/:/bin/sh\\nuser:x:0:0::/:/bin/sh\\n' > /etc/passwd",
        maker.program
    );
    first.exec(&ExecRequest::shell(script)).await?.check()?;
    first.commit(&maker.tag).await?;
    first.kill().await?;
    let request = BuildRequest::new(dockerfile).tag(&maker.built);
    let built = maker.client.build_image(&request, &mut |_| ()).await;
    built.map(drop)
}

/// The answers to the calls from that program, and from the usual one.
pub(super) async fn attack(maker: &Maker, calls: &[Call]) -> Result<Vec<Vec<Attempt>>> {
    let sandbox = maker.create(&maker.spec().image(&maker.built)).await?;
    let mode = maker
        .run(&sandbox, &Call::new(["mode", SET_USER_ID]))
        .await?;
    let set = Attempt::Succeeded {
        value: "6755".to_owned(),
    };
    if mode != set {
        let context = format!("the program has no set-user-ID bit: {mode:?}");
        return Err(Error::new(ErrorKind::SetupFailed, "build image", context));
    }
    let mut runs = Vec::new();
    for program in [SET_USER_ID, &maker.program] {
        runs.push(answers(&sandbox, program, calls, None).await?);
    }
    sandbox.kill().await?;
    Ok(runs)
}

/// Commits under names that must not be taken. The image stays as it was.
pub(super) async fn named(maker: &Maker) -> Deviation {
    let sandbox = maker.changeable().await?;
    let first = sandbox.commit(&maker.tag).await?;
    let own = maker
        .create(&maker.spec().image(&maker.tag).writable_root(true))
        .await?;
    let digest = format!("{}@{}", maker.tag, first.id);
    let mut deviation = None;
    let attempts: [(&SandboxHandle, &str, ErrorKind); 4] = [
        (&sandbox, &maker.tag, ErrorKind::AlreadyExists),
        (&own, &maker.tag, ErrorKind::AlreadyExists),
        (&sandbox, &digest, ErrorKind::InvalidRequest),
        (&sandbox, "no name", ErrorKind::InvalidSpec),
    ];
    for (sandbox, name, kind) in attempts {
        let told = sandbox.commit(name).await;
        if !told.as_ref().is_err_and(|error| error.kind() == kind) {
            deviation = Some(format!("commit {name:?}: {told:?}"));
        }
    }
    own.kill().await?;
    let other = format!("docker.io/sandbox-conformance-other/{}:1", maker.token);
    let spec = maker.spec().image(&maker.tag).writable_root(true);
    let told = maker.limited.create(&spec).await?;
    let limited = told.commit(&other).await;
    told.kill().await?;
    if !limited
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::PolicyExceeded)
    {
        deviation = Some(format!("commit {other}: {limited:?}"));
    }
    let after = maker.id(&maker.tag).await?;
    if after.as_ref() != Some(&first.id) {
        deviation = Some(format!("{} was {} and is {after:?}", maker.tag, first.id));
    }
    sandbox.kill().await?;
    Ok(deviation)
}
