//! The probe program. Each subcommand tries one thing by raw system calls and reports the result on
//! one line.
//!
//! `result=ok`, `result=value:TEXT`, `result=errno:NAME,NAME` (the kernel's answer to each call) or
//! `result=denied:WORD`. The exit code is 0 for every call that could be tried, and 64 for wrong
//! usage.
#![no_std]
#![no_main]

extern crate alloc;
extern crate runtime;

mod answers;
mod call;
mod call_result;
mod communication;
mod compat;
mod directory;
mod escapes;
mod exchanges;
mod files;
mod forking;
mod handing;
mod inherited;
mod inventory;
mod kernel_calls;
mod kernel_memory;
mod kernel_settings;
mod kernel_surface;
mod layers;
mod limits;
mod lists;
mod mounts;
mod named;
mod network;
mod peers;
mod processes;
mod rearrange;
mod requests;
mod resources;
mod shared;
mod streams;

use alloc::vec::Vec;
use core::ffi::CStr;

use call_result::{CallResult, WRONG_USAGE, done};
use runtime::environment::Environment;

runtime::entry!(main);

/// The arguments after the subcommand, and the start of the program.
pub struct ProbeArguments {
    words: Vec<&'static CStr>,
    environment: Environment,
}

impl ProbeArguments {
    /// The argument at `index`. If it is missing, the program ends with a sign that no probe
    /// accepts. An empty path would be denied like a missing one.
    pub fn path(&self, index: usize) -> &'static CStr {
        match self.words.get(index) {
            Some(word) => word,
            None => call_result::give_up("missing_argument"),
        }
    }

    /// The argument at `index` as text.
    pub fn text(&self, index: usize) -> &'static str {
        match self.path(index).to_str() {
            Ok(text) => text,
            Err(_) => call_result::give_up("not_text"),
        }
    }

    /// The argument at `index` as a number. A wrong one ends the program, because 0 would be
    /// another attack.
    pub fn number(&self, index: usize) -> usize {
        match self.text(index).parse() {
            Ok(number) => number,
            Err(_) => call_result::give_up("not_a_number"),
        }
    }

    /// Whether the argument at `index` is this word.
    pub fn is(&self, index: usize, word: &str) -> bool {
        let argument = self.words.get(index);
        argument.is_some_and(|argument| argument.to_bytes() == word.as_bytes())
    }

    pub fn count(&self) -> usize {
        self.words.len()
    }

    pub fn texts(&self) -> impl Iterator<Item = &'static str> + '_ {
        (0..self.words.len()).map(|index| self.text(index))
    }

    pub fn program(&self) -> &'static CStr {
        self.environment.arguments().next().unwrap_or(c"")
    }

    pub fn variables(&self) -> impl Iterator<Item = &'static CStr> {
        self.environment.variables()
    }
}

fn main(environment: Environment) -> i32 {
    let mut words = environment.arguments().skip(1);
    let command = words
        .next()
        .and_then(|word| word.to_str().ok())
        .unwrap_or("");
    let arguments = ProbeArguments {
        words: words.collect(),
        environment,
    };
    match dispatch(command, &arguments) {
        Some(result) => call_result::print(result),
        None => {
            call::write_all(2, b"unknown subcommand\n");
            WRONG_USAGE
        }
    }
}

fn dispatch(command: &str, a: &ProbeArguments) -> Option<CallResult> {
    Some(match command {
        "alive" => done(),
        "answers" => answers::documented(a.path(0)),
        "mark" => escapes::mark(a.text(0)),
        "whiteout" => escapes::whiteout(a.path(0), a.path(1)),
        "set-flag" => escapes::set_flag(a.path(0)),
        "has-flag" => escapes::has_flag(a.path(0)),
        "requests" => escapes::requests(),
        "list-attributes" => lists::attributes(),
        "list-clone-flags" => lists::clone_flags(),
        "list-personalities" => lists::personalities(),
        "list-protocols" => lists::protocols(),
        "list-requests" => requests::all(),
        "resource-limits" => lists::resource_limits(),
        "umask" => lists::umask(),
        "communicate" => communication::communicate(),
        "burn" => resources::burn(a.number(0), a.number(1)),
        "hold" => handing::hold(a.text(0)),
        "hand" => handing::hand(a.text(0), a.text(1)),
        "lease" => escapes::lease(a.path(0), a.path(1)),
        "undisturbed" => peers::undisturbed(a.path(0), a.number(1)),
        "disturb" => peers::disturb(a.path(0)),
        "disturb-itself" => peers::disturb_itself(),
        "read" => files::read(a.path(0)),
        "read-any" => files::read_any(a),
        "read-through-link" => files::read_through_link(a.path(0), a.path(1)),
        "read-through-hard-link" => files::read_through_hard_link(a.path(0), a.path(1)),
        "read-through-proc" => files::read_through_proc(a.text(0)),
        "identity" => files::identity(a.path(0)),
        "mode" => files::mode(a.path(0)),
        "digest" => files::digest(a.path(0)),
        "read-in-two" => files::read_in_two(a.path(0), a.number(1)),
        "write" => files::write(a.path(0), a.text(1)),
        "create" => files::create(a.path(0)),
        "create-any" => files::create_any(a),
        "create-and-rename" => files::create_and_rename(a.path(0), a.path(1)),
        "make" => files::make(a),
        "attributes" => files::attributes(a.path(0)),
        "own-attributes" => files::own_attributes(a.path(0)),
        "rename" => files::rename(a.path(0), a.path(1)),
        "rename-changed" => files::rename_changed(a.path(0), a.path(1)),
        "rearrange" => rearrange::rearrange(a),
        "flip" => rearrange::flip(a.path(0), a.path(1), a.number(2), a.number(3)),
        "device" => files::device(a.path(0), a.number(1), a.number(2)),
        "handle" => files::handle(a.path(0)),
        "open-for-writing" => files::open_for_writing(a),
        "mount" => mounts::mount(a.path(0)),
        "remount" => mounts::remount(a.path(0)),
        "unmount" => mounts::unmount(a.path(0)),
        "new-mount" => mounts::new_mount(),
        "tcp" => network::tcp(a),
        "udp" => network::udp(a),
        "ask-behind" => exchanges::ask_behind(a),
        "exchanges" => exchanges::exchanges(a),
        "tcp-each" => named::each(a),
        "tcp-followed" => named::followed(a),
        "tcp-held" => named::held(a),
        "tcp-named" => named::tcp(a),
        "udp-named" => named::udp(a),
        "tcp-loopback" => network::tcp_loopback(),
        "udp-loopback" => network::udp_loopback(),
        "unix" => network::unix(a.text(0)),
        "unix-abstract" => network::unix_abstract(a.text(0)),
        "unix-send" => network::unix_send(a.text(0), a.text(1)),
        "unix-serve" => network::unix_serve(a.text(0), a.number(1)),
        "unix-pair" => network::unix_pair(a.text(0)),
        "unix-own" => network::unix_own(a.text(0)),
        "packet" => network::packet(),
        "raw" => network::raw(),
        "vsock" => network::vsock(),
        "netlink" => network::netlink(a.number(0)),
        "socket-families" => network::socket_families(),
        "share" => shared::share(a),
        "shared" => shared::find(a),
        "unshare" => shared::unshare(a),
        "variable" => inherited::variable(a),
        "variables" => inherited::variables(a),
        "variables-of-others" => inherited::variables_of_others(a.text(0)),
        "descriptors" => inherited::descriptors(),
        "device-nodes" => files::device_nodes(a),
        "inventory-files" => inventory::files(),
        "inventory-processes" => inventory::processes(),
        "find-name" => files::find_name(a.text(0)),
        "find" => processes::find(a.text(0)),
        "find-child" => processes::find_child(a.text(0)),
        "signal" => processes::signal(a.number(0)),
        "signal-child-by-descriptor" => processes::signal_child_by_descriptor(),
        "signal-child" => processes::signal_child(),
        "trace-parent" => processes::trace_parent(),
        "parent-memory" => processes::parent_memory(),
        "fork" => forking::fork(),
        "vfork" => forking::vfork(),
        "clone3" => forking::clone3(),
        "thread" => forking::thread(),
        "execute" => forking::execute(a),
        "execute-memory" => forking::execute_memory(a),
        "spawn" => forking::spawn(a.number(0)),
        "sleep" => processes::sleep(a.number(1)),
        "stubborn" => processes::stubborn(a.number(0)),
        "orphan" => processes::orphan(a.number(1), a.is(2, "hold")),
        "tree" => processes::tree(a.number(1), a.number(2)),
        "end-oddly" => forking::end_oddly(a.text(0), a.number(1)),
        "exit" => call::exit(a.number(0)),
        "raise" => processes::raise(a.number(0)),
        "memory" => resources::memory(a.number(0)),
        "huge-pages" => kernel_surface::huge_pages(),
        "memory-unmapped" => resources::memory_unmapped(a.number(0)),
        "memory-of-children" => resources::memory_of_children(a.number(0), a.number(1)),
        "fill" => resources::fill(a.path(0), a.number(1)),
        "fill-many" => resources::fill_many(a.text(0), a.number(1)),
        "pipes" => kernel_memory::pipes(a.number(0)),
        "sockets" => kernel_memory::sockets(a.number(0)),
        "segment" => kernel_memory::segment(a.number(0), a.number(1)),
        "fill-unlinked" => kernel_memory::fill_unlinked(a.path(0), a.number(1)),
        "open-many" => resources::open_many(a.number(0)),
        "measure-open-files" => limits::open_files(a.number(0)),
        "measure-terminals" => limits::terminals(a.number(0)),
        "measure-processes" => limits::processes(a.number(0)),
        "measure-memory" => limits::memory(a.number(0)),
        "measure-disk" => limits::disk(a),
        "spin" => resources::spin(a.number(0), a.number(1), a.number(2)),
        "emit" => streams::emit(a.number(0), a.number(1)),
        "echo" => streams::echo(),
        "lines" => streams::lines(a.number(0), a.number(1)),
        "reverse" => streams::reverse(),
        "both" => streams::both(a.text(0), a.text(1)),
        "user-namespace" => kernel_surface::user_namespace(),
        "bpf" => kernel_surface::bpf(),
        "refused-calls" => kernel_calls::refused_calls(),
        "perf" => kernel_surface::perf(),
        "userfaultfd" => kernel_surface::userfaultfd(),
        "keyring" => kernel_surface::keyring(),
        "io-uring" => kernel_surface::io_uring(),
        "attributes-of-process" => kernel_surface::attributes_of_process(),
        "memory-policy" => kernel_surface::memory_policy(),
        "realtime" => kernel_surface::realtime(),
        "module" => kernel_surface::module(),
        "kernel-log" => kernel_surface::kernel_log(),
        "terminal-input" => kernel_surface::terminal_input(a.number(0)),
        "changed-user" => kernel_surface::changed_user(),
        "host-name" => kernel_surface::host_name(),
        "open-kernel-settings" => kernel_settings::open_any(),
        "add-key" => kernel_settings::add_key(a.path(0)),
        "unmasked" => kernel_settings::unmasked(a.path(0)),
        "readable" => kernel_settings::readable(a),
        "key-shown" => kernel_settings::key_shown(a.text(0)),
        "user-limit" => kernel_settings::user_limit(a),
        "crash-helper" => kernel_settings::crash_helper(),
        "pipe-size" => kernel_settings::pipe_size(a.number(0)),
        "writable-mount" => layers::writable_mount(a),
        "may-gain-privileges" => layers::may_gain_privileges(),
        "capability-sets" => layers::capability_sets(a),
        "filters" => layers::filters(a.number(0)),
        "resource-limit" => layers::resource_limit(a.number(0), a.number(1)),
        "landlock-room" => layers::landlock_room(),
        "parents-user" => layers::parents_user(),
        "user" => layers::user(),
        "compat-namespace" => compat::namespace(),
        "compat-fork" => compat::fork(),
        _ => return None,
    })
}
