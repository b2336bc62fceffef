package pgcluster

import (
	"os"
	"syscall"
)

// namespaced gives the account that needs no other user: in a user namespace of its own
// the program sees itself as an ordinary user, while its files stay root's. The number
// inside must have a name, because initdb looks it up.
func namespaced() []account {
	inside := 1000
	for _, name := range []string{"postgres", "nobody"} {
		if uid, _, ok := lookup(name); ok {
			inside = uid
			break
		}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	return []account{{uid: uid, gid: gid, attr: syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: inside, HostID: gid, Size: 1}},
	}}}
}

// capDACOverride is Linux's number of CAP_DAC_OVERRIDE, the right to pass file permissions.
const capDACOverride = 1

// letPass lets the program enter folders that only root may.
func letPass(attr *syscall.SysProcAttr) bool {
	attr.AmbientCaps = []uintptr{capDACOverride}
	return true
}
