//! Process attributes (`prctl`): allows what programs need and refuses the rest.
//!
//! Most important are the refused ones: core scheduling (a cookie keeps a processor's sibling idle,
//! which exceeds the processor limit), the address space layout, and merging of equal pages, which
//! is a side channel between sandboxes.

use crate::seccomp::{Argument, Condition, Errno, Rule, Syscall};

const ALLOWED: [u64; 47] = [
    1,           // PR_SET_PDEATHSIG
    2,           // PR_GET_PDEATHSIG
    3,           // PR_GET_DUMPABLE
    4,           // PR_SET_DUMPABLE
    7,           // PR_GET_KEEPCAPS
    8,           // PR_SET_KEEPCAPS
    11,          // PR_GET_FPEXC
    13,          // PR_GET_TIMING
    14,          // PR_SET_TIMING
    15,          // PR_SET_NAME
    16,          // PR_GET_NAME
    21,          // PR_GET_SECCOMP
    22,          // PR_SET_SECCOMP
    23,          // PR_CAPBSET_READ
    24,          // PR_CAPBSET_DROP
    25,          // PR_GET_TSC
    26,          // PR_SET_TSC
    27,          // PR_GET_SECUREBITS
    28,          // PR_SET_SECUREBITS, which takes a capability
    29,          // PR_SET_TIMERSLACK
    30,          // PR_GET_TIMERSLACK
    33,          // PR_MCE_KILL
    34,          // PR_MCE_KILL_GET
    36,          // PR_SET_CHILD_SUBREAPER
    37,          // PR_GET_CHILD_SUBREAPER
    38,          // PR_SET_NO_NEW_PRIVS
    39,          // PR_GET_NO_NEW_PRIVS
    40,          // PR_GET_TID_ADDRESS
    41,          // PR_SET_THP_DISABLE
    42,          // PR_GET_THP_DISABLE
    47,          // PR_CAP_AMBIENT
    50,          // PR_SVE_SET_VL
    51,          // PR_SVE_GET_VL
    52,          // PR_GET_SPECULATION_CTRL
    53,          // PR_SET_SPECULATION_CTRL
    54,          // PR_PAC_RESET_KEYS
    55,          // PR_SET_TAGGED_ADDR_CTRL
    56,          // PR_GET_TAGGED_ADDR_CTRL
    63,          // PR_SME_SET_VL
    64,          // PR_SME_GET_VL
    65,          // PR_SET_MDWE
    66,          // PR_GET_MDWE
    74,          // PR_GET_SHADOW_STACK_STATUS
    75,          // PR_SET_SHADOW_STACK_STATUS
    0x4155_5856, // PR_GET_AUXV
    0x5356_4d41, // PR_SET_VMA: names of mappings
    0x5961_6d61, // PR_SET_PTRACER: crash handlers; tracing itself is refused
];

/// The kernel reads 32 bits of the option.
pub(super) fn rules() -> Vec<Rule> {
    let others = Condition::int(Argument::First).none_of(ALLOWED);
    vec![Rule::refuse(Syscall::PRCTL, Errno::EPERM).when(others)]
}
