//! Measures the life of a local sandbox.
#![allow(unsafe_code)]
use sandbox_core::{CapabilityPolicy, ExecRequest, SandboxClient, SandboxSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};
struct Phases;
static PHASES: std::sync::Mutex<Vec<(String, Instant)>> = std::sync::Mutex::new(Vec::new());
struct V(String);
impl tracing::field::Visit for V { fn record_debug(&mut self, _: &tracing::field::Field, v: &dyn std::fmt::Debug) { self.0 = format!("{v:?}"); } }
impl tracing::Subscriber for Phases {
    fn enabled(&self, m: &tracing::Metadata<'_>) -> bool { m.target().starts_with("sandbox_local") }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id { tracing::span::Id::from_u64(1) }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, e: &tracing::Event<'_>) { let now = Instant::now(); let mut v = V(String::new()); e.record(&mut v); PHASES.lock().unwrap().push((v.0, now)); }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
fn cpu() -> f64 {
    let mut t = 0.0;
    for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
        // SAFETY: plain record.
        let u = unsafe { let mut u: libc::rusage = std::mem::zeroed(); libc::getrusage(who, &mut u); u };
        t += u.ru_utime.tv_sec as f64 + u.ru_stime.tv_sec as f64 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) as f64 / 1e6;
    }
    t * 1e3
}
fn median(v: &mut Vec<Duration>) -> f64 { v.sort(); v[v.len()/20].as_secs_f64()*1e3 }
#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing::subscriber::set_global_default(Phases).unwrap();
    let mut phases: Vec<(String, Vec<Duration>)> = vec![];
    let n: usize = std::env::args().nth(1).map_or(50, |n| n.parse().unwrap());
    let mut config = sandbox_local::LocalConfig::new();
    if std::env::var_os("NO_USERNS").is_some() { config = config.without_user_namespaces(); }
    if std::env::var_os("NO_CGROUP").is_some() { config = config.without_cgroups(); }
    let ballast = std::env::var_os("BALLAST").map(|_| vec![1u8; 1 << 30]);
    let backend = Arc::new(sandbox_local::LocalBackend::new(config));
    let mut policy = CapabilityPolicy::new();
    policy.allow_partial = sandbox_core::Capability::ALL.to_vec();
    if std::env::var_os("NET").is_some() { policy.network = Some(sandbox_core::policy::NetworkPolicy::Full); }
    let client = SandboxClient::with_backend(backend, policy).unwrap();
    let (mut create, mut exec, mut kill, mut total, mut bw, mut plain, mut warm) = (vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    let (mut c_ours, mut c_bw, mut c_plain) = (0.0, 0.0, 0.0);
    for i in 0..n {
        let c0 = cpu();
        PHASES.lock().unwrap().clear();
        let t0 = Instant::now();
        let sandbox = client.create(&SandboxSpec::new("try")).await.unwrap();
        let t1 = Instant::now();
        let r = sandbox.exec(&ExecRequest::new("/bin/true")).await.unwrap();
        assert!(r.ok());
        let t2 = Instant::now();
        sandbox.kill().await.unwrap();
        let t3 = Instant::now(); let c1 = cpu();
        let mut last = t0; for (name, when) in PHASES.lock().unwrap().drain(..) { let d = when - last; last = when; match phases.iter_mut().find(|p| p.0 == name) { Some(p) => p.1.push(d), None => phases.push((name, vec![d])) } }
        if i == 0 { eprintln!("first: create {:?} exec {:?} kill {:?}", t1-t0, t2-t1, t3-t2); continue; }
        c_ours += c1 - c0; create.push(t1-t0); exec.push(t2-t1); kill.push(t3-t2); total.push(t3-t0);
        let t = Instant::now();
        let s = std::process::Command::new("bwrap").args(["--unshare-all","--ro-bind","/usr","/usr","--symlink","usr/bin","/bin","--symlink","usr/lib","/lib","--symlink","usr/lib64","/lib64","--ro-bind","/opt","/opt","--proc","/proc","--dev","/dev","--tmpfs","/tmp","--die-with-parent","/bin/true"]).status().unwrap();
        assert!(s.success());
        bw.push(t.elapsed()); let c2 = cpu(); c_bw += c2 - c1;
        let t = Instant::now();
        std::process::Command::new("/bin/true").status().unwrap();
        plain.push(t.elapsed()); c_plain += cpu() - c2;
    }
    let sandbox = client.create(&SandboxSpec::new("try")).await.unwrap();
    for _ in 0..n { let t = Instant::now(); sandbox.exec(&ExecRequest::new("/bin/true")).await.unwrap(); warm.push(t.elapsed()); }
    sandbox.kill().await.unwrap();
    println!("create {:.3} exec {:.3} kill {:.3} total {:.3} | bwrap {:.3} plain {:.3} warm {:.3} ratio {:.2}", median(&mut create), median(&mut exec), median(&mut kill), median(&mut total), median(&mut bw), median(&mut plain), median(&mut warm), median(&mut total)/median(&mut bw));
    for (name, v) in &mut phases { print!("{name} {:.3} | ", median(v)); } println!();
    let m = (n - 1) as f64;
    println!("cpu: ours {:.3} bwrap {:.3} plain {:.3} ratio {:.2}", c_ours / m, c_bw / m, c_plain / m, c_ours / c_bw);
    drop(ballast);
}
