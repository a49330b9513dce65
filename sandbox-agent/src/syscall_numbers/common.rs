// System call numbers that Linux gives every architecture, since version 5.1.

/// Passes an architecture's own numbers, then these, to `numbers!`.
macro_rules! with_common_numbers {
    ($($own:tt)*) => {
        numbers! {
            $($own)*
            PIDFD_SEND_SIGNAL = 424, "pidfd_send_signal";
            IO_URING_SETUP = 425, "io_uring_setup";
            IO_URING_ENTER = 426, "io_uring_enter";
            IO_URING_REGISTER = 427, "io_uring_register";
            OPEN_TREE = 428, "open_tree";
            MOVE_MOUNT = 429, "move_mount";
            FSOPEN = 430, "fsopen";
            FSCONFIG = 431, "fsconfig";
            FSMOUNT = 432, "fsmount";
            FSPICK = 433, "fspick";
            PIDFD_OPEN = 434, "pidfd_open";
            CLONE3 = 435, "clone3";
            CLOSE_RANGE = 436, "close_range";
            OPENAT2 = 437, "openat2";
            PIDFD_GETFD = 438, "pidfd_getfd";
            FACCESSAT2 = 439, "faccessat2";
            PROCESS_MADVISE = 440, "process_madvise";
            EPOLL_PWAIT2 = 441, "epoll_pwait2";
            MOUNT_SETATTR = 442, "mount_setattr";
            QUOTACTL_FD = 443, "quotactl_fd";
            LANDLOCK_CREATE_RULESET = 444, "landlock_create_ruleset";
            LANDLOCK_ADD_RULE = 445, "landlock_add_rule";
            LANDLOCK_RESTRICT_SELF = 446, "landlock_restrict_self";
            MEMFD_SECRET = 447, "memfd_secret";
            PROCESS_MRELEASE = 448, "process_mrelease";
            FUTEX_WAITV = 449, "futex_waitv";
            SET_MEMPOLICY_HOME_NODE = 450, "set_mempolicy_home_node";
            CACHESTAT = 451, "cachestat";
            FCHMODAT2 = 452, "fchmodat2";
            MAP_SHADOW_STACK = 453, "map_shadow_stack";
            FUTEX_WAKE = 454, "futex_wake";
            FUTEX_WAIT = 455, "futex_wait";
            FUTEX_REQUEUE = 456, "futex_requeue";
            STATMOUNT = 457, "statmount";
            LISTMOUNT = 458, "listmount";
            LSM_GET_SELF_ATTR = 459, "lsm_get_self_attr";
            LSM_SET_SELF_ATTR = 460, "lsm_set_self_attr";
            LSM_LIST_MODULES = 461, "lsm_list_modules";
            MSEAL = 462, "mseal";
            SETXATTRAT = 463, "setxattrat";
            GETXATTRAT = 464, "getxattrat";
            LISTXATTRAT = 465, "listxattrat";
            REMOVEXATTRAT = 466, "removexattrat";
            OPEN_TREE_ATTR = 467, "open_tree_attr";
            FILE_GETATTR = 468, "file_getattr";
            FILE_SETATTR = 469, "file_setattr";
        }
    };
}
